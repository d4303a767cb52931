//! What a run's account is told in words: without secrets, and without where anything of the server is unless
//! it is the operator's own.

use threadline_contract::{AccountId, without_places, without_secrets};
use threadline_runtimes::LAST_WORDS;

/// A sentence about a run, as its account may read it. What an agent wrote to its standard error is for the
/// operator too.
pub(crate) fn for_account(account: &AccountId, sentence: &str) -> String {
    let shown = without_secrets(sentence);
    if *account == AccountId::local() {
        return shown;
    }
    let ours = shown.split(LAST_WORDS).next().unwrap_or_default();
    without_places(ours.trim_end())
}

#[cfg(test)]
#[path = "wording_tests.rs"]
mod tests;
