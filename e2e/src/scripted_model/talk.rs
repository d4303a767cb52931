//! A conversation as every dialect tells it: who spoke, and which tools are offered.

use serde_json::Value;

/// One request, whatever its dialect.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Talk {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Tool>,
    /// The answer has to be JSON: a question that an agent asks about its own work.
    pub(crate) wants_json: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) who: Who,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Who {
    User,
    Assistant,
    Tool,
}

/// A tool that the model may call.
#[derive(Debug, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    /// Its parameters, as JSON Schema.
    pub(crate) schema: Value,
}

impl Talk {
    pub(crate) fn push(&mut self, who: Who, text: String) {
        self.messages.push(Message { who, text });
    }

    /// Adds something that the model said; parts of one answer are one message.
    pub(crate) fn push_said(&mut self, text: String) {
        match self.messages.last_mut() {
            Some(last) if last.who == Who::Assistant => last.text.push_str(&text),
            _ => self.push(Who::Assistant, text),
        }
    }

    /// How often the model answered.
    pub(crate) fn answers(&self) -> usize {
        let answers = self.messages.iter().filter(|m| m.who == Who::Assistant);
        answers.count()
    }

    /// Where the person's last words are.
    ///
    /// Agents put user messages of their own around them (where they work, what time it is, reminders):
    /// such a message has no directives and does not follow an answer.
    pub(crate) fn prompt(&self) -> usize {
        let users = self.messages.iter().enumerate().rev();
        let users = users.filter(|(_, message)| message.who == Who::User);
        let mut last = None;
        for (at, message) in users {
            last = last.or(Some(at));
            let before = at.checked_sub(1).and_then(|i| self.messages.get(i));
            let answers = before.is_some_and(|m| m.who == Who::Assistant);
            if message.text.contains("[[") {
                return at;
            }
            if answers {
                break;
            }
        }
        last.unwrap_or(0)
    }
}

/// All text in a content, which is a string, a part, or a list of parts.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(text_of).collect();
            parts.join("\n")
        }
        Value::Object(part) => part.get("text").map(text_of).unwrap_or_default(),
        _ => String::new(),
    }
}

/// A field that is a string, or nothing.
pub(crate) fn word<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A field that is a list, or an empty one.
pub(crate) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    let list = value.get(field).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}
