//! What a person should know about files that were not taken.

use threadline_contract::OmitReason;

use crate::Omissions;

/// How many are told one by one.
const MOST: usize = 50;

/// Adds a sentence for each omission that somebody may wonder about.
pub(super) fn about(omitted: &Omissions, warnings: &mut Vec<String>) {
    let mut told = 0;
    for file in &omitted.named {
        let Some(why) = why(file.reason) else {
            continue;
        };
        told += 1;
        if told <= MOST {
            warnings.push(format!("`{}` was not taken: {why}.", file.path));
        }
    }
    let worth: u64 = omitted
        .counts
        .iter()
        .filter(|(reason, _)| why(**reason).is_some())
        .map(|(_, count)| *count)
        .sum();
    let rest = worth.saturating_sub(told.min(MOST) as u64);
    if rest > 0 {
        warnings.push(format!(
            "{rest} more files were not taken; `omitted` says why."
        ));
    }
}

/// Why, as half a sentence; nothing for what is left out by a rule that everybody knows.
fn why(reason: OmitReason) -> Option<&'static str> {
    Some(match reason {
        OmitReason::Symlink => "it is a symbolic link, and links are never followed",
        OmitReason::SpecialFile => "it is not a plain file",
        OmitReason::HardLink => "it is a second name of another user's file",
        OmitReason::Protected => "it belongs to Threadline itself",
        OmitReason::NameNotUtf8 => "its name is not text",
        OmitReason::TooLarge => "it is larger than a file may be",
        OmitReason::TooDeep => "it lies too many folders deep",
        OmitReason::Unreadable => "it could not be read",
        OmitReason::Vanished => "it was gone when it was to be read",
        OmitReason::ChangedWhileReading => "it did not stand still while it was read",
        OmitReason::AmbiguousOwner => "nothing shows that this run made it",
        OmitReason::Placeholder => "it is a placeholder, not a result",
        OmitReason::UnsafeName => {
            "its name holds a backslash, a control character or a mark that turns the direction of writing"
        }
        OmitReason::NameTaken => "the run's folder has another file of this name",
        OmitReason::OverLimit => "there are more files than one request takes",
        OmitReason::OutsideScope => "it lies outside every folder that a run delivers from",
        OmitReason::Skipped
        | OmitReason::Ignored
        | OmitReason::ChangedOutsideRun
        | OmitReason::RunFailed
        | OmitReason::RunCancelled
        | OmitReason::Unknown => return None,
    })
}
