//! What the model agent can do: files in its work folder, and asking the person.

mod folder;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use threadline_contract::ToolDefinition;

pub(super) use self::folder::{Folder, Work};

/// A tool call whose arguments were understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Write(WriteFile),
    Read(ReadFile),
    List(ListFiles),
    Edit(EditFile),
    Ask(AskUser),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct WriteFile {
    pub(super) path: String,
    pub(super) content: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ReadFile {
    pub(super) path: String,
    #[serde(default)]
    pub(super) offset: Option<u64>,
    #[serde(default)]
    pub(super) limit: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ListFiles {
    #[serde(default)]
    pub(super) path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct EditFile {
    pub(super) path: String,
    pub(super) old: String,
    pub(super) new: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct AskUser {
    pub(super) question: String,
    #[serde(default)]
    pub(super) options: Option<Vec<String>>,
}

impl Tool {
    /// Reads a tool call. The error is a sentence for the model.
    pub(super) fn parse(tool: &str, arguments: &str) -> Result<Self, String> {
        match tool {
            "write_file" => Ok(Self::Write(read(arguments)?)),
            "read_file" => Ok(Self::Read(read(arguments)?)),
            "list_files" => Ok(Self::List(read(arguments)?)),
            "edit_file" => Ok(Self::Edit(read(arguments)?)),
            "ask_user" => {
                let ask: AskUser = read(arguments)?;
                if ask.question.trim().is_empty() {
                    return Err("The question is empty.".into());
                }
                Ok(Self::Ask(ask))
            }
            other => Err(format!(
                "There is no tool `{other}`. There are write_file, read_file, list_files, edit_file and ask_user."
            )),
        }
    }

    /// What it is doing, and what it did, for a person.
    pub(super) fn titles(&self) -> (String, String) {
        let both = |doing: &str, did: &str, what: &str| {
            let what = one_line(what, 80);
            (format!("{doing} {what}"), format!("{did} {what}"))
        };
        match self {
            Self::Write(WriteFile { path, .. }) => both("Writing", "Wrote", path),
            Self::Read(ReadFile { path, .. }) => both("Reading", "Read", path),
            Self::List(ListFiles { path }) => {
                let path = path.as_deref().filter(|p| !p.is_empty() && *p != ".");
                let what = path.map_or("the files".into(), |p| format!("the files in {p}"));
                both("Listing", "Listed", &what)
            }
            Self::Edit(EditFile { path, .. }) => both("Editing", "Edited", path),
            Self::Ask(AskUser { question, .. }) => both("Asking:", "Asked:", question),
        }
    }

    /// Whether running it twice could do something else than running it once. Writing a whole file
    /// again gives the same file; an edit may apply to its own result.
    pub(super) fn repeats_safely(&self) -> bool {
        !matches!(self, Self::Edit(_))
    }
}

/// The tools as the model is told of them: its own, and those that came with the turn, which stand in the place of
/// one of the same name.
pub(super) fn definitions(offered: &[ToolDefinition]) -> Value {
    let of_offered = |tool: &ToolDefinition| {
        json!({"type": "function", "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        }})
    };
    let is_offered = |own: &Value| {
        let name = own.pointer("/function/name").and_then(Value::as_str);
        offered.iter().any(|tool| Some(tool.name.as_str()) == name)
    };
    let own = own_definitions();
    let own = own.as_array().into_iter().flatten();
    let kept = own.filter(|tool| !is_offered(tool)).cloned();
    kept.chain(offered.iter().map(of_offered)).collect()
}

fn own_definitions() -> Value {
    let path = json!({"type": "string", "description": "Relative to the work folder, such as reports/final.md."});
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| {
        json!({"type": "function", "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        }})
    };
    json!([
        tool(
            "write_file",
            "Writes a whole text file, with the folders it needs. A file of that name is replaced.",
            json!({"path": path, "content": {"type": "string"}}),
            &["path", "content"],
        ),
        tool(
            "read_file",
            "Reads a text file, up to 64 KiB at a time.",
            json!({
                "path": path,
                "offset": {"type": "integer", "description": "The byte to begin at; 0 when left out."},
                "limit": {"type": "integer", "description": "How many bytes at most."},
            }),
            &["path"],
        ),
        tool(
            "list_files",
            "Lists the files beneath a folder with their sizes.",
            json!({"path": {"type": "string", "description": "The folder; the whole work folder when left out."}}),
            &[],
        ),
        tool(
            "edit_file",
            "Replaces a piece of a text file. `old` must occur exactly once.",
            json!({"path": path, "old": {"type": "string"}, "new": {"type": "string"}}),
            &["path", "old", "new"],
        ),
        tool(
            "ask_user",
            "Asks the person and waits for the answer. Use it only when you cannot go on without.",
            json!({
                "question": {"type": "string"},
                "options": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from."},
            }),
            &["question"],
        ),
    ])
}

fn read<T: DeserializeOwned>(arguments: &str) -> Result<T, String> {
    // A call without arguments comes as nothing at all from some models.
    let text = match arguments.trim() {
        "" => "{}",
        text => text,
    };
    serde_json::from_str(text).map_err(|e| format!("The arguments are not right: {e}."))
}

/// The beginning of a text, on one line.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: String = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    if line.chars().count() <= most {
        return line;
    }
    line.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
