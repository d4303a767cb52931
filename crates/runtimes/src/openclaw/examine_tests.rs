use pretty_assertions::assert_eq;
use serde_json::json;

use super::*;

fn answer() -> Value {
    json!({
        "remoteWorkingDirectory": "/home/me/workspace", "workspaceSource": "agentConfig",
        "plugin": {
            "id": "openclaw-multi-session-plugins", "version": "1.0.0", "openclaw": "2026.9.6",
            "sidecar": {"version": "1.0.0", "args": ["openclaw-sidecar", "--media", "/state/media"]},
            "logFile": "/var/log/openclaw.log",
        },
    })
}

fn standings(findings: &[Finding]) -> Vec<(&'static str, Standing)> {
    findings.iter().map(|f| (f.what, f.standing)).collect()
}

#[test]
fn only_a_gateway_that_nobody_answers_for_is_to_be_started() {
    let advice = |why: &str| {
        let finding = out_of_reach(why, "ws://h:1");
        assert_eq!(
            (finding.standing, finding.found),
            (Standing::Bad, format!("{why} (ws://h:1)"))
        );
        finding.advice
    };
    assert_eq!(
        advice("The OpenClaw gateway does not answer: nothing listens at its address.").as_deref(),
        Some("Start it with `openclaw gateway run`, or check `openclaw.url`.")
    );
    for why in [
        "The OpenClaw gateway does not take this token.",
        "This machine waits to be let in.",
        "What answers there refuses the connection (HTTP 403).",
    ] {
        assert_eq!(advice(why), None, "{why}");
    }
}

#[test]
fn everything_is_in_order() {
    let findings = of_answer(&answer(), "1.0.0");
    assert_eq!(
        findings,
        [
            Finding::good(
                "OpenClaw plugin",
                "version 1.0.0, with the program's version 1.0.0"
            ),
            Finding::good("OpenClaw workspace", "/home/me/workspace (agentConfig)"),
            Finding::good("OpenClaw log", "/var/log/openclaw.log"),
        ]
    );
}

#[test]
fn another_version_is_doubted() {
    let findings = of_answer(&answer(), "1.0.1");
    assert_eq!(findings[0].standing, Standing::Doubtful);
    let advice = findings[0].advice.clone().unwrap();
    assert!(
        advice.contains("1.0.1") && advice.contains("openclaw install"),
        "{advice}"
    );
}

#[test]
fn one_that_does_not_know_itself_is_not_ours() {
    let earlier = json!({"mapping": {}});
    assert_eq!(
        standings(&of_answer(&earlier, "1.0.0")),
        [("OpenClaw plugin", Standing::Bad)]
    );
}

#[test]
fn a_log_among_the_files_of_runs_is_doubted() {
    let log = |file: Option<&str>, args: &[&str]| {
        of_log(&json!({"logFile": file, "sidecar": {"args": args}})).standing
    };
    assert_eq!(log(None, &[]), Standing::Doubtful);
    assert_eq!(log(Some("/tmp/openclaw/x.log"), &[]), Standing::Doubtful);
    assert_eq!(
        log(Some("/m/x.log"), &["--media", "/m", "--tmp", "/t"]),
        Standing::Doubtful
    );
    assert_eq!(log(Some("/t/x.log"), &["--tmp", "/t"]), Standing::Doubtful);
    assert_eq!(
        log(Some("/tmp/openclaw/x.log"), &["--tmp", "/t"]),
        Standing::Good
    );
    assert_eq!(
        log(Some("/m-logs/x.log"), &["--media", "/m"]),
        Standing::Good
    );
}

#[test]
fn a_gateway_without_agents_is_of_no_use() {
    let none = of_agents(&json!({"agents": []}), "main");
    assert_eq!(none.standing, Standing::Bad);
}

#[test]
fn the_agent_that_works_must_be_there() {
    let agents = json!({"agents": [{"id": "writer"}, {"id": "other"}]});
    assert_eq!(
        of_agents(&agents, "writer"),
        Finding::good(
            "OpenClaw agents",
            "writer, other (writer works for new threads)"
        )
    );
    let missing = of_agents(&agents, "main");
    assert_eq!(missing.standing, Standing::Bad);
    assert_eq!(
        missing.found,
        "the gateway has no `main`, only writer, other"
    );
}

#[test]
fn refusals_say_what_to_do() {
    let refused = |error: Value| {
        let error = serde_json::from_value(error).unwrap();
        of_refusal(&CallError::Refused(error))
    };
    let earlier = refused(json!({"code": "FORBIDDEN", "message": "missing scope: operator.admin"}));
    assert!(earlier.found.contains("earlier"), "{earlier:?}");
    assert_eq!(earlier.mend, Some(Mend::Plugin));
    let missing = refused(
        json!({"code": "UNAVAILABLE", "message": "no program", "details": {"code": "SIDECAR_MISSING"}}),
    );
    assert_eq!(missing.advice.as_deref(), Some(RESTART));
    assert_eq!(missing.mend, Some(Mend::Plugin));
    let other = refused(json!({"code": "PREPARE_FAILED", "message": "no folder"}));
    assert_eq!(other.found, "no folder [PREPARE_FAILED]");
    assert_eq!(other.mend, None);
}
