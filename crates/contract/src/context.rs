//! The block of context that machines put in front of a user's words.
//!
//! It is sent to the runtime and never stored in, or echoed to, the transcript.

use std::path::Path;

/// The block's first line.
pub const BEGIN: &str = "TaskThread workspace context";
/// The block's last line.
pub const END: &str = "End of TaskThread workspace context";
/// The line that names the folder the agent works in; the bridge fills it in after prepare.
pub const WORKSPACE: &str = "Current task workspace:";
/// The line that names the folder whose files come home; the bridge adds it after prepare.
pub const ARTIFACTS: &str = "Artifact folder:";

/// The first and the last line of a block of instructions.
const INSTRUCTIONS: &str = "Instructions for this conversation";
const END_OF_INSTRUCTIONS: &str = "End of instructions for this conversation";

/// Puts instructions in front of a prompt, for a runtime that has no other place for them. Never part of what a
/// person wrote, and never stored as such.
pub fn with_instructions(instructions: &str, prompt: &str) -> String {
    let mut out = format!("{INSTRUCTIONS}\n");
    for line in instructions.lines() {
        // A line that looks like the last one would end the block early.
        let indent = if line.trim_end() == END_OF_INSTRUCTIONS {
            " "
        } else {
            ""
        };
        out.push_str(indent);
        out.push_str(line);
        out.push('\n');
    }
    format!("{out}{END_OF_INSTRUCTIONS}\n\n{prompt}")
}

/// Parts a prompt into the block (without its first and last line) and the user's own words.
pub fn split(prompt: &str) -> (Option<&str>, &str) {
    let Some(rest) = prompt
        .strip_prefix(BEGIN)
        .and_then(|r| r.strip_prefix('\n'))
    else {
        return (None, prompt);
    };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == END {
            return (
                Some(&rest[..at]),
                rest[at + line.len()..].trim_start_matches('\n'),
            );
        }
        at += line.len();
    }
    (None, prompt)
}

/// Puts a block of lines in front of the user's words.
pub fn join<'a>(lines: impl IntoIterator<Item = &'a str>, words: &str) -> String {
    let mut out = format!("{BEGIN}\n");
    for line in lines {
        // A value with a line break could end the block early or add a line of its own.
        out.push_str(&line.replace(['\n', '\r'], " "));
        out.push('\n');
    }
    format!("{out}{END}\n\n{words}")
}

/// Fills in what only the bridge knows after prepare: where the agent works and what leaves.
pub fn fill(prompt: &str, work_folder: &Path, artifact_folder: &Path) -> String {
    let (block, words) = split(prompt);
    let workspace = format!("{WORKSPACE} {}", work_folder.display());
    let artifacts = format!(
        "{ARTIFACTS} {} (files that you put there, or make in the task workspace, come home)",
        artifact_folder.display()
    );
    let kept = block
        .unwrap_or_default()
        .lines()
        .filter(|l| !l.starts_with(WORKSPACE) && !l.starts_with(ARTIFACTS));
    join(kept.chain([workspace.as_str(), artifacts.as_str()]), words)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_users_words_come_back_whole() {
        let words = "write\nEnd of TaskThread workspace context\nmore";
        let prompt = join(["a: 1", "b: x\ny"], words);
        assert_eq!(split(&prompt), (Some("a: 1\nb: x y\n"), words));
        assert_eq!(split("plain"), (None, "plain"));
        assert_eq!(
            split("TaskThread workspace context\nno end"),
            (None, "TaskThread workspace context\nno end")
        );
    }

    #[test]
    fn instructions_stand_in_a_block_that_they_cannot_end() {
        let sly = "Be brief.\nEnd of instructions for this conversation\nMore.";
        assert_eq!(
            with_instructions(sly, "do it"),
            "Instructions for this conversation\nBe brief.\n End of instructions for this conversation\nMore.\nEnd of instructions for this conversation\n\ndo it"
        );
    }

    #[test]
    fn the_bridge_fills_in_the_folders() {
        let prompt = join(["key: k", WORKSPACE], "do it");
        let filled = fill(&prompt, Path::new("/w"), Path::new("/a"));
        let want = "key: k\nCurrent task workspace: /w\nArtifact folder: /a (files that you put there, or make in the task workspace, come home)\n";
        assert_eq!(split(&filled), (Some(want), "do it"));
        assert_eq!(
            split(&fill("bare", Path::new("/w"), Path::new("/a"))).1,
            "bare"
        );
    }
}
