use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::draw;

fn drawn(text: &str) -> String {
    draw(text).into_string()
}

#[test]
fn an_agents_report_looks_like_one() {
    let text = "# Rivers\n\nThe **Elde** is *low*, see `levels.csv`.\nSince_2020_ nothing.\n\n- one\n- two\n  - deeper\n- [x] done\n\n3. three\n4. four\n\n> said\n> twice\n\n```csv\na,<b>\n```\n\n| river | level |\n|---|--:|\n| Elde | 1 \\| 2 |\n\n---\n";
    assert_eq!(
        drawn(text),
        concat!(
            "<h3 class=\"first\">Rivers</h3>",
            "<p>The <strong>Elde</strong> is <em>low</em>, see <code>levels.csv</code>.\nSince_2020_ nothing.</p>",
            "<ul><li>one</li><li>two<ul><li>deeper</li></ul></li><li class=\"ticked\"><span aria-label=\"done\">☑</span> done</li></ul>",
            "<ol start=\"3\"><li>three</li><li>four</li></ol>",
            "<blockquote><p>said\ntwice</p></blockquote>",
            "<pre tabindex=\"0\"><code>a,&lt;b&gt;</code></pre>",
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">river</th><th scope=\"col\">level</th></tr></thead>",
            "<tbody><tr><td>Elde</td><td>1 | 2</td></tr></tbody></table></div>",
            "<hr>",
        )
    );
}

#[test]
fn links_lead_to_the_web_or_nowhere() {
    let link = |href: &str, text: &str| {
        format!(
            "<p><a href=\"{href}\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">{text}</a></p>"
        )
    };
    for (text, want) in [
        ("[site](https://a.example/x?y=1&z=2)", link("https://a.example/x?y=1&amp;z=2", "site")),
        ("https://a.example/(b)", link("https://a.example/(b)", "https://a.example/(b)")),
        ("<https://a.example>", link("https://a.example", "https://a.example")),
        ("![map](https://a.example/m.png)", link("https://a.example/m.png", "map")),
        ("[x](javascript:alert(1))", "<p><em>x</em></p>".to_owned()),
        ("[x](JaVaScRiPt:alert(1))", "<p><em>x</em></p>".to_owned()),
        ("[x](data:text/html,<b>)", "<p><em>x</em></p>".to_owned()),
        ("[x](/app/rpc)", "<p><em>x</em></p>".to_owned()),
        ("[x](//evil.example)", "<p><em>x</em></p>".to_owned()),
        ("[x](file:///etc/passwd)", "<p><em>x</em></p>".to_owned()),
        ("[x](https://a\"onclick=\"b)", "<p><em>x</em></p>".to_owned()),
        ("see (https://a.example).", "<p>see (<a href=\"https://a.example\" target=\"_blank\" rel=\"noopener noreferrer nofollow\">https://a.example</a>).</p>".to_owned()),
    ] {
        assert_eq!(drawn(text), want, "{text}");
    }
}

#[test]
fn what_is_not_closed_is_text() {
    for text in [
        "**a",
        "`a",
        "[a](b",
        "a * b * c",
        "2*3*4 = 24 _",
        "~~a",
        "snake_case_name",
        "<b>",
        "***",
        "[[",
        "!]",
        "!",
    ] {
        let plain = text.replace('<', "&lt;").replace('>', "&gt;");
        let want = match text {
            "***" => "<hr>".to_owned(),
            "2*3*4 = 24 _" => "<p>2<em>3</em>4 = 24 _</p>".to_owned(),
            _ => format!("<p>{plain}</p>"),
        };
        assert_eq!(drawn(text), want, "{text}");
    }
    assert_eq!(
        drawn("```\nopen"),
        "<pre tabindex=\"0\"><code>open</code></pre>"
    );
    assert_eq!(drawn("\\*not\\*"), "<p>*not*</p>");
}

#[test]
fn html_is_shown_and_lists_may_be_loose_or_deep() {
    let far = "rel=\"noopener noreferrer nofollow\"";
    for (text, want) in [
        (
            "<script>\nx\n</script>\n",
            "<p>&lt;script&gt;\nx\n&lt;/script&gt;</p>".to_owned(),
        ),
        ("a <b>c</b>", "<p>a &lt;b&gt;c&lt;/b&gt;</p>".to_owned()),
        (
            "- [ ] a\n\n- b",
            "<ul><li class=\"ticked\"><p><span aria-label=\"to do\">☐</span> a</p></li><li><p>b</p></li></ul>".to_owned(),
        ),
        // A picture that is a link leads where the link does.
        (
            "[![built](https://a.example/b.svg)](https://a.example)",
            format!("<p><a href=\"https://a.example\" target=\"_blank\" {far}>built</a></p>"),
        ),
        (
            "[a]\n\n[a]: https://a.example",
            format!("<p><a href=\"https://a.example\" target=\"_blank\" {far}>a</a></p>"),
        ),
        (
            "see xhttp://a and http:// nothing",
            "<p>see xhttp://a and http:// nothing</p>".to_owned(),
        ),
    ] {
        assert_eq!(drawn(text), want, "{text}");
    }
    let deep = drawn(&format!("{}x", "> ".repeat(40)));
    let want = "<blockquote>".repeat(16) + "<p>x</p>" + &"</blockquote>".repeat(16);
    assert_eq!(deep, want);
}

#[test]
fn hostile_texts_cost_little() {
    let deep: String = (0..1000)
        .map(|n| format!("{}- x\n", " ".repeat(n)))
        .collect();
    let texts = [
        ">", "[", "a*", "*a ", "`a", "- ", "[a](", "<", "** ", "a_", "|", "| a\n", "~~", "![",
        "http://",
    ];
    let texts = texts.map(|part| part.repeat(200_000 / part.len()));
    let runs = ["*", "_", "`", "~", "#"].map(|mark| format!("a{}", mark.repeat(200_000)));
    for text in texts.into_iter().chain(runs).chain([deep]) {
        let before = processor_time();
        drawn(&text);
        let took = processor_time() - before;
        // Far above what it takes unoptimised, far below what would hurt.
        assert!(took.as_secs() < 10, "{took:?} for {:?}…", &text[..20]);
    }
}

/// What this thread has used, however busy the machine is.
fn processor_time() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let nanos = text.split(' ').next().unwrap().parse().unwrap();
    std::time::Duration::from_nanos(nanos)
}

/// Every tag that may come out, and no other.
const TAGS: [&str; 24] = [
    "p",
    "h3",
    "h4",
    "h5",
    "pre",
    "code",
    "blockquote",
    "ul",
    "ol",
    "li",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "hr",
    "strong",
    "em",
    "s",
    "a",
    "span",
    "br",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn nothing_but_our_tags_comes_out(text in "([ -~\n]|<script>|javascript:|\\[x\\]\\(|\\*\\*|`|\n> |\n- |\n\\| ){0,60}") {
        let out = drawn(&text);
        for piece in out.split('<').skip(1) {
            let name: String = piece.trim_start_matches('/').chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            prop_assert!(TAGS.contains(&name.as_str()), "{name} in {out}");
            let tag = piece.split('>').next().unwrap_or_default();
            prop_assert!(!tag.contains("javascript:") && !tag.contains(" on"), "{tag}");
        }
    }
}
