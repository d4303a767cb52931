//! What a run answered, and whether that is all of it: most of the gateway's answers carry a long text
//! only in part.

/// `agent.wait` ends a text with this that it cut, and with nothing else.
const CUT: char = '…';
/// A transcript ends a text with this that it cut.
const TRUNCATED: &str = "...(truncated)...";
/// The terminal event carries only the end of a text of more than so many UTF-16 units.
const EVENT_UNITS: usize = 500_000;

/// A run's answer, as one witness tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) text: String,
    /// The witness does not tell all of it.
    pub(super) is_cut: bool,
}

impl Reply {
    /// All of an answer.
    pub(super) fn whole(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_cut: false,
        }
    }

    /// What `agent.wait` tells: at most 4,096 units. One that ends as a cut one does may be whole, but
    /// nothing tells them apart.
    pub(super) fn of_wait(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_cut: text.ends_with(CUT),
        }
    }

    /// What the terminal event tells.
    pub(super) fn of_event(text: String) -> Self {
        Self {
            is_cut: text.encode_utf16().count() >= EVENT_UNITS,
            text,
        }
    }

    /// What a row of a transcript tells; `marked`: the gateway says that it cut it.
    pub(super) fn of_row(text: String, marked: bool) -> Self {
        Self {
            is_cut: marked || text.trim_end().ends_with(TRUNCATED),
            text,
        }
    }

    /// What is certain of it: without the sign that something is missing.
    pub(super) fn beginning(&self) -> &str {
        let text = self.text.trim_end();
        match self.is_cut {
            true => text
                .trim_end_matches(TRUNCATED)
                .trim_end_matches(CUT)
                .trim_end(),
            false => text,
        }
    }

    /// The longer of two that are cut, which say the same as far as both go.
    pub(super) fn longer(self, other: Self) -> Self {
        match other.beginning().len() > self.beginning().len()
            && other.beginning().starts_with(self.beginning())
        {
            true => other,
            false => self,
        }
    }

    /// How it is shown: one that is cut ends with a sign of that.
    pub(super) fn shown(self) -> String {
        match self.is_cut {
            true => format!("{}{CUT}", self.beginning()),
            false => self.text,
        }
    }
}

/// What is said of an answer of which the gateway has only a part.
pub(super) fn lost_rest(characters: usize) -> String {
    format!(
        "The answer is longer than this: the OpenClaw gateway has only its first {characters} characters, and the rest is lost."
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_witness_says_in_its_way_that_it_does_not_tell_all() {
        let cut = |reply: Reply| (reply.is_cut, reply.beginning().to_owned());
        assert_eq!(
            cut(Reply::of_wait("all of it")),
            (false, "all of it".into())
        );
        assert_eq!(
            cut(Reply::of_wait("the begin…")),
            (true, "the begin".into())
        );
        let row = "the begin\n...(truncated)...";
        assert_eq!(
            cut(Reply::of_row(row.into(), true)),
            (true, "the begin".into())
        );
        assert_eq!(
            cut(Reply::of_row(row.into(), false)),
            (true, "the begin".into())
        );
        assert_eq!(
            cut(Reply::of_row("[omitted]".into(), true)),
            (true, "[omitted]".into())
        );
        assert!(!Reply::of_event("x".repeat(EVENT_UNITS - 1)).is_cut);
        assert!(Reply::of_event("x".repeat(EVENT_UNITS)).is_cut);
    }

    #[test]
    fn of_two_that_are_cut_the_longer_is_shown() {
        let wait = Reply::of_wait("one two…");
        let row = Reply::of_row("one two three\n...(truncated)...".into(), true);
        assert_eq!(wait.clone().longer(row.clone()).shown(), "one two three…");
        assert_eq!(row.longer(wait.clone()).shown(), "one two three…");
        let other = Reply::of_row("something else that is longer".into(), true);
        assert_eq!(wait.longer(other).shown(), "one two…");
    }
}
