//! Which of the offered tools does what the script wants: every agent names and shapes them differently.

use serde_json::{Map, Value, json};

use super::talk::Tool;

const WRITERS: [&str; 3] = ["write_file", "write", "create_file"];
const SHELLS: [&str; 7] = [
    "bash",
    "run_shell_command",
    "exec_command",
    "shell_command",
    "shell",
    "exec",
    "terminal",
];

/// The call that writes a file: with a tool for that, else with a shell.
pub(super) fn write(tools: &[Tool], path: &str, content: &str) -> (String, Value) {
    let Some(tool) = find(tools, &WRITERS) else {
        if find(tools, &SHELLS).is_some() {
            let (path, content) = (quoted(path), quoted(content));
            let command = format!("mkdir -p \"$(dirname {path})\" && printf %s {content} > {path}");
            return shell(tools, &command);
        }
        return (
            "write_file".into(),
            json!({"path": path, "content": content}),
        );
    };
    let arguments = arguments(tool, |name, _| {
        let name = name.to_lowercase();
        if name.contains("path") || name == "file" {
            Some(json!(path))
        } else if name.contains("content") || name == "text" {
            Some(json!(content))
        } else {
            None
        }
    });
    (tool.name.clone(), arguments)
}

/// The call that runs a command, asking for leave where the tool can ask.
pub(super) fn shell(tools: &[Tool], command: &str) -> (String, Value) {
    let Some(tool) = find(tools, &SHELLS) else {
        return ("bash".into(), json!({"command": command}));
    };
    let arguments = arguments(tool, |name, schema| match name {
        "command" | "cmd" if schema.get("type") == Some(&json!("array")) => {
            Some(json!(["bash", "-lc", command]))
        }
        "command" | "cmd" => Some(json!(command)),
        "description" => Some(json!("what the script says")),
        "sandbox_permissions" => Some(json!("require_escalated")),
        "justification" => Some(json!("The script says so. May I?")),
        _ => None,
    });
    (tool.name.clone(), arguments)
}

fn find<'a>(tools: &'a [Tool], names: &[&str]) -> Option<&'a Tool> {
    names
        .iter()
        .find_map(|name| tools.iter().find(|tool| tool.name == *name))
}

fn arguments(tool: &Tool, value: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let properties = tool.schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let filled: Map<String, Value> = properties
        .filter_map(|(name, schema)| Some((name.clone(), value(name, schema)?)))
        .collect();
    filled.into()
}

/// A word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn tool(name: &str, properties: Value) -> Tool {
        Tool {
            name: name.into(),
            schema: json!({"properties": properties}),
        }
    }

    #[test]
    fn a_file_is_written_with_what_is_offered() {
        let writer = tool("write", json!({"filePath": {}, "content": {}}));
        let shell = tool(
            "exec_command",
            json!({"cmd": {"type": "string"}, "sandbox_permissions": {}, "workdir": {}}),
        );
        assert_eq!(
            [
                write(&[], "a.md", "x"),
                write(&[writer], "a.md", "x"),
                write(&[shell], "a.md", "it's"),
            ],
            [
                ("write_file".into(), json!({"path": "a.md", "content": "x"})),
                ("write".into(), json!({"filePath": "a.md", "content": "x"})),
                (
                    "exec_command".into(),
                    json!({
                        "cmd": r#"mkdir -p "$(dirname 'a.md')" && printf %s 'it'\''s' > 'a.md'"#,
                        "sandbox_permissions": "require_escalated",
                    })
                ),
            ]
        );
    }
}
