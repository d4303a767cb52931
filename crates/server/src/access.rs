//! Which scope each method and route needs: the one table, asked before anything is done.

use axum::http::Method;
use threadline_contract::{Fault, Principal, Scope, method};

use crate::ws;

/// The methods of `/acp/rpc` and `/acp`.
const METHODS: [(&str, Scope); method::ALL.len()] = [
    (method::CAPABILITIES, Scope::Read),
    (method::START, Scope::Write),
    (method::MESSAGE, Scope::Write),
    (method::CANCEL, Scope::Write),
    (method::CLOSE, Scope::Write),
    (method::DELETE, Scope::Write),
    (method::ROUTING_RESOLVE, Scope::Read),
    (method::PROVIDER_PROBE, Scope::Read),
    (method::TASKS_GET, Scope::Read),
    (method::TASKS_CANCEL, Scope::Write),
    (method::QUESTIONS_LIST, Scope::Read),
    (method::QUESTIONS_ANSWER, Scope::Write),
    (method::PERMISSIONS_LIST, Scope::Read),
    (method::PERMISSIONS_RESPOND, Scope::Write),
    (method::ARTIFACTS_GC, Scope::Admin),
    (method::OPERATOR_STATUS, Scope::Read),
    (method::OPERATOR_RUNS, Scope::Read),
    (method::OPERATOR_SESSIONS, Scope::Read),
];

/// Paths whose requests name a method: that one decides.
const BY_METHOD: [&str; 4] = ["/acp/rpc", ws::PATH, "/app/rpc", "/do"];
/// Paths that answer anybody who comes in: nothing of an account is behind them.
const FOR_ANYBODY: [&str; 5] = [
    threadline_engine::HELLO_PATH,
    "/health",
    "/enter",
    "/sign-in",
    "/sign-out",
];

/// Refuses a method for which the principal has no scope. What is no method is said by whoever looks for it.
pub(crate) fn check_method(principal: &Principal, name: &str) -> Result<(), Fault> {
    match METHODS.iter().find(|(method, _)| *method == name) {
        Some((_, needed)) => principal.check(*needed),
        None => Ok(()),
    }
}

/// Refuses a route for which the principal has no scope: what only reads needs `read`, a link for another
/// browser `admin`, and everything else `write`.
pub(crate) fn check_route(principal: &Principal, method: &Method, path: &str) -> Result<(), Fault> {
    match of_route(method, path) {
        Some(needed) => principal.check(needed),
        None => Ok(()),
    }
}

fn of_route(method: &Method, path: &str) -> Option<Scope> {
    if BY_METHOD.contains(&path) || FOR_ANYBODY.contains(&path) || path.starts_with("/assets/") {
        return None;
    }
    Some(match *method {
        _ if path == "/app/entry" => Scope::Admin,
        Method::GET | Method::HEAD | Method::OPTIONS => Scope::Read,
        _ => Scope::Write,
    })
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
