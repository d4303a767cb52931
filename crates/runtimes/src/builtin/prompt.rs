//! What is said to the model in our own words, and which words are the user's.

use std::fmt::Write as _;

use threadline_contract::context;

use super::past::Begun;

/// The user's own words: what follows the context block, or everything.
pub(super) fn own_words(prompt: &str) -> &str {
    context::split(prompt).1.trim()
}

/// Who the agent is, where it works, and what becomes of its files.
pub(super) fn system(begun: &Begun) -> String {
    let plan = &begun.plan;
    let mut text = format!(
        "You are the builtin agent of Threadline. You do one task for a person and work with files.\n\
         \n\
         - Your work folder is {}. Paths in tool calls are relative to it; nothing outside it can be reached.\n\
         - Files that you write there in this turn are delivered to the person. A file exists only if a tool call wrote it: never say that you saved something that you did not.\n\
         - Look before you change: list and read what is there.\n\
         - Ask the person only when you cannot go on without an answer.\n\
         - When you are done, say in a few plain sentences what you did and which files you made.\n",
        begun.places.work_folder.display()
    );
    if plan.working_directory.is_some() {
        text.push_str("- The work folder is the person's own. Change only what the task needs.\n");
    }
    let names = &begun.places.attachments;
    if !names.is_empty() {
        let _ = writeln!(
            text,
            "- Files that came with the task: {}.",
            names.join(", ")
        );
    }
    for wanted in &plan.deliverables {
        let least = wanted.min_count.unwrap_or(1);
        let kind = wanted.content_type.as_deref();
        let kind = kind.map(|k| format!(" of type {k}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "- The task must deliver at least {least} file(s){kind} matching `{}`.",
            wanted.glob
        );
    }
    if let Some(instructions) = &plan.instructions {
        let _ = write!(text, "\n{instructions}\n");
    }
    text
}
