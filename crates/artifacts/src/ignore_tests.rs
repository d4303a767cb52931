use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn left<'a>(text: &str, paths: &[&'a str]) -> Vec<&'a str> {
    let ignore = Ignore::parse(text);
    paths
        .iter()
        .copied()
        .filter(|path| !ignore.matches(path))
        .collect()
}

/// P58.
#[test]
fn p58_fenced_rules() {
    let text = "# Not for delivery\n\nProse with `tmp/` in it.\n\n```artifact-ignore\n# a comment\n\ntmp/\n*.log\n**/*.tmp\nreports/debug/trace.json\n```\n\nfinal.md\n";
    let paths = [
        "tmp/scratch.md",
        "tmp/deep/er.md",
        "root.log",
        "sub/other.log",
        "reports/draft.tmp",
        "draft.tmp",
        "reports/debug/trace.json",
        "reports/debug/trace.json.bak",
        "reports/final.md",
        "final.md",
        "tmpfile",
        "a/tmp/x",
        "artifact-ignore.md",
        "sub/artifact-ignore.md",
    ];
    assert_eq!(
        left(text, &paths),
        [
            "sub/other.log",
            "reports/debug/trace.json.bak",
            "reports/final.md",
            "final.md",
            "tmpfile",
            "a/tmp/x",
            "sub/artifact-ignore.md"
        ]
    );
    assert_eq!(Ignore::parse(text).warnings, Vec::<String>::new());
}

/// P60.
#[test]
fn p60_without_a_fence_every_line_is_a_rule() {
    let text = "Ignore these\n*.log\n\n# nothing\n```sh\nnotes.md\n```\n";
    let paths = ["a.log", "Ignore these", "Ignore", "notes.md", "final.md"];
    assert_eq!(left(text, &paths), ["Ignore", "final.md"]);
    assert_eq!(Ignore::parse(text).warnings, Vec::<String>::new());
}

#[test]
fn a_fence_is_markdowns() {
    // Several blocks; other blocks are not rules; longer and other marks; an open end; CRLF; a BOM.
    let text = "\u{feff}```\r\nkept.md\r\n```\r\n~~~~ artifact-ignore\r\na.md\r\n~~~\r\n```\r\nb.md\r\n~~~~\r\nkept.md\r\n   ```artifact-ignore\r\nc.md\r\n";
    let paths = ["a.md", "b.md", "c.md", "kept.md", "~~~"];
    assert_eq!(left(text, &paths), ["kept.md"]);
    for no_fence in [
        "```artifact-ignore extra\n*.log\n```",
        "```Artifact-Ignore\n*.log\n```",
        "``artifact-ignore\n*.log\n``",
        "    ```artifact-ignore\n*.log\n",
    ] {
        // Then every line is a rule, also those between other marks.
        assert_eq!(left(no_fence, &["a.log", "b.md"]), ["b.md"], "{no_fence}");
    }
    assert_eq!(
        left("```artifact-ignore\n```\n*.log", &["a.log"]),
        ["a.log"]
    );
}

#[test]
fn what_is_not_understood_is_said_and_does_nothing() {
    let rules = [
        ("/etc/passwd", "is absolute"),
        ("../x", "leads out of the folder"),
        ("a/./b", "leads out of the folder"),
        ("..", "leads out of the folder"),
        ("a//b", "has an empty part"),
        ("a//", "has an empty part"),
        ("/", "has an empty part"),
        ("a\0b", "holds a NUL character"),
        ("a\\b", "holds a backslash; folders are separated by `/`"),
        ("a*b", "is a pattern of a kind that is not known"),
        ("*.log/", "is a pattern of a kind that is not known"),
        ("**/tmp/", "is a pattern of a kind that is not known"),
        ("dir/*.log", "is a pattern of a kind that is not known"),
        ("dir/**", "is a pattern of a kind that is not known"),
        ("**/*/x", "is a pattern of a kind that is not known"),
        ("?.md", "is a pattern of a kind that is not known"),
        ("[ab].md", "is a pattern of a kind that is not known"),
        ("!keep.md", ""),
    ];
    for (rule, why) in rules {
        let ignore = Ignore::parse(rule);
        let want = if why.is_empty() {
            vec![]
        } else {
            vec![format!(
                "artifact-ignore.md: the rule `{rule}` {why}, so it has no effect."
            )]
        };
        assert_eq!(ignore.warnings, want);
        for path in [
            "etc/passwd",
            "x",
            "a/b",
            "ab",
            "a.log",
            "tmp/x",
            "keep.md",
            "dir/a.log",
        ] {
            assert!(!ignore.matches(path), "{rule} took {path}");
        }
    }
    let many = "?\n".repeat(100);
    let warnings = Ignore::parse(&many).warnings;
    assert_eq!(warnings.len(), 21);
    assert_eq!(
        warnings[20],
        "artifact-ignore.md: 80 more rules have no effect."
    );
}

#[test]
fn a_star_alone_is_every_file() {
    assert_eq!(left("*", &["a", "b/c"]), ["b/c"]);
    assert_eq!(left("**/*", &["a", "b/c"]), Vec::<&str>::new());
}

#[test]
fn case_and_spelling_count() {
    assert_eq!(
        left("*.LOG\nTmp/\n\u{e9}.md", &["a.log", "tmp/x", "e\u{301}.md"]),
        ["a.log", "tmp/x", "e\u{301}.md"]
    );
}

#[test]
fn an_ignore_file_that_cannot_be_read_is_said() {
    let t = tempfile::tempdir().unwrap();
    let root = Root::open(t.path()).unwrap();
    let file = t.path().join(IGNORE_FILE);
    let said = |why: &str| {
        vec![format!(
            "artifact-ignore.md {why}, so its rules were not applied."
        )]
    };
    assert_eq!(Ignore::of(&root).unwrap(), Ignore::default());
    std::fs::write(&file, b"\xff\xfe").unwrap();
    assert_eq!(Ignore::of(&root).unwrap().warnings, said("is not text"));
    std::fs::write(&file, vec![b'a'; 256 * 1024 + 1]).unwrap();
    assert_eq!(Ignore::of(&root).unwrap().warnings, said("is too large"));
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(
        Ignore::of(&root).unwrap().warnings,
        said("is not a plain file")
    );
    std::fs::remove_dir(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    assert_eq!(
        Ignore::of(&root).unwrap().warnings,
        said("is a symbolic link")
    );
}

proptest! {
    /// Whatever is written, parsing ends, and each rule line is either in effect or complained about.
    #[test]
    fn no_text_breaks_it(text in "[`~a-c*/.\\\\#\n \u{e9}-]{0,120}", path in "[a-c./]{1,12}") {
        let ignore = Ignore::parse(&text);
        let _ = ignore.matches(&path);
        prop_assert!(ignore.matches(IGNORE_FILE));
    }

    /// A rule that names a plain path leaves out that path and nothing else.
    #[test]
    fn a_path_is_itself_alone(path in "[a-c]{1,3}(/[a-c]{1,3}){0,3}", other in "[a-c]{1,3}(/[a-c]{1,3}){0,3}") {
        let ignore = Ignore::parse(&path);
        prop_assert!(ignore.matches(&path));
        prop_assert_eq!(ignore.matches(&other), other == path);
        let folder = Ignore::parse(&format!("{path}/"));
        let inside = format!("{path}/{other}");
        let beside = format!("{path}{other}");
        prop_assert!(folder.matches(&inside));
        // `beside` goes on with letters, never with a slash.
        prop_assert!(!folder.matches(&path));
        prop_assert!(!folder.matches(&beside));
    }
}
