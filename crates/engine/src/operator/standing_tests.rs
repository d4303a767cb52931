use pretty_assertions::assert_eq;
use threadline_contract::{
    AppThreadKey, Code, RunId, RuntimeId, SessionKey, method::Provider, operator::HostState,
};

use threadline_runtimes::HostCleanup;

use super::*;

fn run(phase: Phase) -> RunOverview {
    let thread = AppThreadKey::new("draft:1").unwrap();
    RunOverview {
        num: 1,
        id: RunId::new("turn-1").unwrap(),
        session_key: SessionKey::for_runtime("acp", "codex", &thread),
        owner: thread.into(),
        runtime: RuntimeId::Acp("codex".into()),
        phase,
        status: RunStatus::Running,
        code: None,
        message: None,
        usage: None,
        begun_by: None,
        cancel_requested_at: None,
        cancel_requested_by: None,
        created_at: Millis(10),
        started_at: Some(Millis(20)),
        ended_at: None,
        artifact_state: ArtifactState::Pending,
        lease_owner: Some("here".into()),
        lease_until: Millis(500),
        log_from: 0,
    }
}

fn codex() -> ProviderState {
    ProviderState {
        provider: Provider {
            provider_id: "codex".into(),
            label: "Codex".into(),
            targets: vec!["agent".into()],
            max_active: 2,
            max_queued: 3,
        },
        available: true,
        status: "ready".into(),
        about: "version 2.6.0".into(),
        unavailable_code: None,
        active: 1,
        queued: 0,
        probed_at: Millis(90),
    }
}

fn seen(runtime: Option<&ProviderState>) -> Seen<'_> {
    Seen {
        now: Millis(100),
        node: "here",
        away: None,
        runtime,
        wait: None,
        question: None,
        heard: Some(LastEvent {
            seq: 7,
            kind: "task.step".into(),
            at: Millis(95),
        }),
        no_room_since: None,
        awaited: None,
        queue_wait: None,
    }
}

/// Why, since when, the evidence and when it was seen, and what happens next.
fn told(standing: Standing) -> (String, i64, String, i64, String) {
    let Standing {
        why,
        since,
        evidence,
        seen_at,
        next,
    } = standing;
    (why, since.0, evidence, seen_at.0, next)
}

fn words(
    why: &str,
    since: i64,
    evidence: &str,
    at: i64,
    next: &str,
) -> (String, i64, String, i64, String) {
    (why.into(), since, evidence.into(), at, next.into())
}

const STEP: &str = "Event 7 of its thread: a step of it began or ended.";

#[test]
fn a_run_that_works_ends_by_its_runtimes_word_alone() {
    let codex = codex();
    assert_eq!(
        told(of_run(&run(Phase::Running), &seen(Some(&codex)))),
        words(
            "Codex works on it.",
            20,
            STEP,
            95,
            "It ends when Codex says so. Until then it can be cancelled."
        )
    );
    let away = ProviderState {
        available: false,
        status: "not_installed".into(),
        about: "`codex-acp` is not installed.".into(),
        ..codex
    };
    assert_eq!(
        told(of_run(&run(Phase::Running), &seen(Some(&away)))),
        words(
            "It goes on as far as anybody knows, but Codex cannot be asked: `codex-acp` is not installed.",
            20,
            STEP,
            95,
            "Codex is asked again until it answers; only Codex can end the run."
        )
    );
}

#[test]
fn a_stop_is_a_wish_until_it_is_confirmed() {
    let codex = codex();
    let stopping = RunOverview {
        cancel_requested_at: Some(Millis(60)),
        ..run(Phase::Running)
    };
    assert_eq!(
        told(of_run(&stopping, &seen(Some(&codex)))),
        words(
            "Somebody asked it to stop, and Codex has not confirmed it yet.",
            60,
            STEP,
            95,
            "It ends when Codex says that it stopped."
        )
    );
}

#[test]
fn a_run_without_its_runtime_waits_for_the_operator() {
    assert_eq!(
        told(of_run(&run(Phase::Running), &seen(None))),
        words(
            "Its runtime acp:codex is not configured here.",
            10,
            STEP,
            95,
            "It goes on when that runtime is configured and the server is started again."
        )
    );
}

#[test]
fn who_drives_a_run_is_told_when_it_is_not_this_server() {
    let codex = codex();
    let evidence = |owner: Option<&str>, until: i64| {
        let run = RunOverview {
            lease_owner: owner.map(str::to_owned),
            lease_until: Millis(until),
            ..run(Phase::Running)
        };
        of_run(&run, &seen(Some(&codex))).evidence
    };
    assert_eq!(evidence(Some("here"), 500), STEP);
    assert_eq!(
        evidence(Some("there"), 500),
        format!("{STEP} The server there drives it.")
    );
    assert_eq!(
        evidence(Some("there"), 99),
        format!("{STEP} The server there drove it last and is waited for.")
    );
    assert_eq!(
        evidence(Some("here"), 99),
        format!("{STEP} No server drives it just now; one takes it up within a minute.")
    );
}

#[test]
fn a_run_whose_server_is_away_goes_on_when_it_is_back() {
    let codex = codex();
    let away = Seen {
        away: Some("there"),
        ..seen(Some(&codex))
    };
    let next =
        "It goes on when that server is back. If that takes more than an hour, it counts as lost.";
    for phase in [Phase::Queued, Phase::Running, Phase::Collecting] {
        let run = RunOverview {
            lease_owner: Some("there".into()),
            lease_until: Millis(99),
            ..run(phase)
        };
        assert_eq!(
            told(of_run(&run, &away)),
            words(
                "Its server there is away, and only that server knows how it stands.",
                95,
                STEP,
                95,
                next
            )
        );
    }
}

#[test]
fn a_run_that_has_ended_is_told_from_its_record() {
    let failed = RunOverview {
        status: RunStatus::Failed,
        code: Some(Code::AgentLost),
        ended_at: Some(Millis(70)),
        ..run(Phase::Closed)
    };
    let word = "Its runtime's own word, which was recorded then and stands.";
    let gone = "Its agent's process, which was looked for then and was gone; it had said nothing of an end.";
    let found = "The bridge's own record of what it found then; the runtime did not say it.";
    for (code, evidence) in [
        (Code::ExecutionFailed, word),
        (Code::AgentLost, gone),
        (Code::Conflict, found),
        (Code::RequiredArtifactMissing, found),
    ] {
        let failed = RunOverview {
            code: Some(code),
            ..failed.clone()
        };
        assert_eq!(
            told(of_run(&failed, &seen(None))),
            words(code.advice(), 70, evidence, 70, AGAIN)
        );
    }
    let refused = RunOverview {
        started_at: None,
        message: Some("x".repeat(600)),
        ..failed
    };
    let (why, _, evidence, ..) = told(of_run(&refused, &seen(None)));
    assert_eq!(
        (why, evidence.as_str()),
        (
            format!("{}…", "x".repeat(500)),
            "The record: the runtime never had it."
        )
    );
}

#[test]
fn a_stage_is_told_while_the_run_is_open() {
    let verifying = run(Phase::Collecting);
    let collecting = RunOverview {
        status: RunStatus::Completed,
        ..run(Phase::Collecting)
    };
    let stages = [
        stage(&run(Phase::Queued), false),
        stage(&run(Phase::Running), true),
        stage(&verifying, false),
        stage(&collecting, false),
        stage(&run(Phase::Closed), false),
    ];
    assert_eq!(
        stages,
        [
            Some(Stage::Queued),
            Some(Stage::Waiting),
            Some(Stage::Verifying),
            Some(Stage::Collecting),
            None
        ]
    );
}

fn offer() -> Offer<'static> {
    Offer {
        place: None,
        since: Some(Millis(5)),
        is_waited_for: false,
        queue_wait: None,
    }
}

#[test]
fn a_turn_that_waits_for_its_gateway_or_for_a_place_says_so() {
    let codex = codex();
    let preparing = Seen {
        awaited: Some("The gateway is away. The turn waits for it.".into()),
        ..seen(Some(&codex))
    };
    let told = of_run(&run(Phase::Preparing), &preparing);
    assert_eq!(
        (told.why.as_str(), told.next.as_str()),
        (
            "The gateway is away. The turn waits for it.",
            "It begins when Codex can be reached, and fails if that takes too long."
        )
    );
    let queued = Seen {
        wait: Some(Around {
            place: QueuePlace {
                position: 1,
                queued: 2,
            },
            own: false,
        }),
        queue_wait: Some(Duration::from_secs(60)),
        ..seen(Some(&codex))
    };
    assert_eq!(
        of_run(&run(Phase::Queued), &queued).next,
        "It begins by itself when a place is free and it is its turn. If it waits here for more than 1 minute, it fails (`lanes.queue_minutes`)."
    );
}

#[test]
fn a_runtime_says_how_much_it_takes() {
    let full = ProviderState {
        active: 2,
        queued: 3,
        ..codex()
    };
    let waits = ProviderState {
        queued: 1,
        ..full.clone()
    };
    let away = ProviderState {
        available: false,
        ..codex()
    };
    let next = |state: &ProviderState| of_runtime(state, &offer()).next;
    assert_eq!(
        [next(&codex()), next(&waits), next(&full), next(&away)],
        [
            "It takes 1 more at once.",
            "Every place is taken: further turns wait in line.",
            "Every place is taken and the line is full: further turns are turned away until one ends.",
            "Turns for it are turned away until it can be reached. It is looked at again whenever somebody asks.",
        ]
    );
    // A gateway that is away is waited for, and a limit of the line is told.
    let waited = Offer {
        is_waited_for: true,
        queue_wait: Some(Duration::from_secs(1800)),
        ..offer()
    };
    assert_eq!(
        of_runtime(&away, &waited).next,
        "A turn that is sent now waits for it, for two minutes at most, and then fails. It is looked at again whenever somebody asks. A turn that waits for a place for more than 30 minutes fails (`lanes.queue_minutes`)."
    );
    let known = of_runtime(
        &codex(),
        &Offer {
            since: None,
            ..offer()
        },
    );
    assert_eq!(
        (known.why.as_str(), known.since),
        ("It can take work: version 2.6.0.", Millis(90))
    );
    assert_eq!(of_runtime(&away, &offer()).why, "version 2.6.0");
}

#[test]
fn a_host_says_what_becomes_of_it() {
    let host = |state| AgentHost {
        session: SessionKey::new("acp:codex:draft:1").unwrap(),
        state,
        pid: 41,
        agent_pid: 42,
        began: Millis(3),
        seen_at: Millis(80),
        no_room_since: None,
        cleanup: None,
    };
    let rested = RunOverview {
        ended_at: Some(Millis(70)),
        ..run(Phase::Closed)
    };
    let processes = "Process 41 and its socket, with the agent in process 42.";
    assert_eq!(
        told(of_host(&host(HostState::Idle), Some(&rested))),
        words(
            "Its agent has nothing to do.",
            70,
            processes,
            80,
            "It ends by itself when nobody needs it for a while; the next message then starts another."
        )
    );
    let since = |state| of_host(&host(state), Some(&run(Phase::Running))).since.0;
    assert_eq!(
        [
            since(HostState::Working),
            since(HostState::Waiting),
            since(HostState::Silent)
        ],
        [20, 20, 3]
    );
}

#[test]
fn a_killed_host_tells_the_truth_about_its_turn_and_what_it_left() {
    let host = |ended: Option<usize>| AgentHost {
        session: SessionKey::new("acp:codex:draft:1").unwrap(),
        state: HostState::Lost,
        pid: 41,
        agent_pid: 42,
        began: Millis(3),
        seen_at: Millis(80),
        no_room_since: None,
        cleanup: ended.map(|ended| HostCleanup {
            at: Millis(75),
            ended,
        }),
    };
    let completed = RunOverview {
        status: RunStatus::Completed,
        ended_at: Some(Millis(70)),
        ..run(Phase::Closed)
    };
    let lost = RunOverview {
        status: RunStatus::Failed,
        code: Some(Code::AgentLost),
        ..completed.clone()
    };
    let cancelled = RunOverview {
        status: RunStatus::Cancelled,
        ..completed.clone()
    };
    let evidence = "Process 41 is gone and wrote down no end; its agent was process 42.";
    let goes_on = "The next message of its thread starts another and goes on with the session.";
    let cases = [
        (
            Some(2),
            Some(&completed),
            "It was killed. 2 processes that it left were ended.",
            75,
            format!("Its last turn had completed before. {goes_on}"),
        ),
        (
            Some(1),
            Some(&lost),
            "It was killed. One process that it left was ended.",
            75,
            format!("Its turn failed as AGENT_LOST. {goes_on}"),
        ),
        (
            Some(0),
            Some(&cancelled),
            "It was killed. Nothing of it is left.",
            75,
            format!("Its last turn had ended before. {goes_on}"),
        ),
        (
            None,
            Some(&run(Phase::Running)),
            "It was killed. What it left running is not ended yet.",
            80,
            "Its turn fails as AGENT_LOST. The next message of its thread, or the next start of the server, tries to end the rest again.".to_owned(),
        ),
    ];
    for (ended, last, why, since, next) in cases {
        let want = words(why, since, evidence, 80, &next);
        assert_eq!(told(of_host(&host(ended), last)), want);
    }
}

#[test]
fn what_waits_for_room_says_so_and_not_that_an_agent_works() {
    let provider = codex();
    for phase in [Phase::Running, Phase::Collecting] {
        let full = Seen {
            no_room_since: Some(Millis(60)),
            ..seen(Some(&provider))
        };
        let standing = of_run(&run(phase), &full);
        assert_eq!(
            (
                standing.why.as_str(),
                standing.since,
                standing.next.as_str()
            ),
            (
                "The disk is full: it waits for room, because what it does cannot be written down. Whether its agent has finished meanwhile is not known.",
                Millis(60),
                "Make room on the disk of the data folder (`threadline doctor` names it); it goes on by itself, and nothing is lost."
            )
        );
    }
    let host = AgentHost {
        session: SessionKey::new("acp:codex:draft:1").unwrap(),
        state: HostState::Working,
        pid: 41,
        agent_pid: 42,
        began: Millis(3),
        seen_at: Millis(80),
        no_room_since: Some(Millis(60)),
        cleanup: None,
    };
    let standing = of_host(&host, Some(&run(Phase::Running)));
    assert_eq!(
        (standing.why.as_str(), standing.since),
        (
            "The disk is full: what its agent says cannot be written down, so the agent waits.",
            Millis(60)
        )
    );
}
