//! Which scope each method of the local API needs, and whose account it is for.

use threadline_app::api;
use threadline_contract::{Code, Fault, Principal, Scope};

/// Whose business a method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    /// The app's, which belongs to the machine's own account.
    App,
    /// The engine's: every account has its own runs and questions.
    Account,
}

const METHODS: [(&str, Scope, For); api::ALL.len()] = [
    (api::SEND, Scope::Write, For::App),
    (api::RETRY, Scope::Write, For::App),
    (api::LIST, Scope::Read, For::App),
    (api::SHOW, Scope::Read, For::App),
    (api::TURN, Scope::Read, For::App),
    (api::CANCEL, Scope::Write, For::App),
    (api::QUEUE_LIST, Scope::Read, For::App),
    (api::QUEUE_DROP, Scope::Write, For::App),
    (api::QUEUE_EDIT, Scope::Write, For::App),
    (api::SYNC, Scope::Write, For::App),
    (api::ARCHIVE, Scope::Write, For::App),
    (api::RESTORE, Scope::Write, For::App),
    (api::DELETE, Scope::Write, For::App),
    (api::DELETE_PREVIEW, Scope::Read, For::App),
    (api::ANSWER, Scope::Write, For::Account),
    (api::QUESTIONS, Scope::Read, For::Account),
    (api::HOME, Scope::Read, For::App),
    (api::RUNTIMES, Scope::Read, For::App),
    (api::ARTIFACTS_GC, Scope::Admin, For::Account),
    (api::OPERATOR_STATUS, Scope::Read, For::Account),
    (api::OPERATOR_RUNS, Scope::Read, For::Account),
    (api::OPERATOR_SESSIONS, Scope::Read, For::Account),
    (api::OPERATOR_CANCEL, Scope::Write, For::Account),
    (api::PROBLEMS, Scope::Read, For::App),
];

/// Refuses a method that is not for the principal's account, or for which it has no scope. What is no method is said
/// by whoever looks for it.
pub(crate) fn check(principal: &Principal, method: &str) -> Result<(), Fault> {
    let is_own = principal.account.is_local();
    match METHODS.iter().find(|(name, ..)| *name == method) {
        Some((_, _, For::App)) | None if !is_own => {
            Err(Fault::new(Code::NotFound, Code::NotFound.advice()))
        }
        Some((_, needed, _)) => principal.check(*needed),
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
