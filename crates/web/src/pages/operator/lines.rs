//! One line each for a run, a session, a runtime and a host: what it is, how it stands, and why.

use std::collections::BTreeMap;

use maud::{Markup, html};
use threadline_app::api::{self, ThreadName};
use threadline_contract::{
    Actor, AppThreadKey, Millis, RunStatus, Stage, Who,
    operator::{HostLine, HostState, RunLine, RuntimeLine, SessionLine, Standing},
};

use crate::{
    pages::thread::side::{fact, id},
    urls,
    words::{self, Look, State},
};

pub(super) type Names = BTreeMap<AppThreadKey, ThreadName>;

pub(super) fn run(run: &RunLine, names: &Names, unfolded: bool) -> Markup {
    let open = run.stage.is_some();
    let facts = html! {
        (fact("Run", &id(run.run_id.as_str())))
        (fact("Session", &id(run.session_key.as_str())))
        @if let Some(code) = run.code { (fact("Code", &html! { code { (code.as_str()) } })) }
        @if let Some(by) = &run.begun_by { (fact("Begun by", &who(by))) }
        @if let Some(by) = &run.cancel_requested_by { (fact("Stop asked by", &who(by))) }
        @if !open {
            (fact("Accepted", &words::moment(run.created_at)))
            (fact("Took", &took(run)))
        }
        @if !open || run.usage.is_some() { (fact("Used", &words::used(run.usage.as_ref()))) }
    };
    html! {
        div.line #(format!("run-{}", run.run_id)) {
            div.top {
                (thread(&run.thread_id, names))
                (state_of(run))
            }
            p.why { (words::runtime(&run.runtime)) " · " (brief(run)) }
            (standing(&run.standing, &facts, unfolded))
            @if open && !run.cancel_requested && !run.status.is_terminal() {
                (cancel(run))
            }
        }
    }
}

fn cancel(run: &RunLine) -> Markup {
    html! {
        form.act method="post" action="/do" data-rpc=(api::OPERATOR_CANCEL) data-guard data-run=(run.run_id)
            data-sure="Cancel this run?" data-yes="Cancel the run" data-no="Let it run"
            data-about={ "Run " (run.run_id) " stops now and does not go on later. None of its files are brought to its thread; what it changed in a folder of yours until then stays." } {
            input type="hidden" name="method" value=(api::OPERATOR_CANCEL);
            input type="hidden" name="threadId" value=(run.thread_id);
            input type="hidden" name="runId" value=(run.run_id);
            input type="hidden" name="back" value="/operator";
            button.button type="submit" { "Cancel" }
            p.error role="alert" data-own hidden {}
        }
    }
}

/// What a run cost, or since when it goes on, without unfolding anything.
fn brief(run: &RunLine) -> Markup {
    let usage = run.usage.and_then(|usage| usage.in_words());
    html! {
        @match (run.started_at, run.ended_at) {
            (Some(_), Some(ended)) => { "ended " (words::ago(ended)) " · took " (took(run)) },
            (None, Some(ended)) => { "ended " (words::ago(ended)) " · never began" },
            (Some(began), None) => { "running for " (words::since(began)) },
            (None, None) => { "waiting for " (words::since(run.created_at)) },
        }
        @if let Some(usage) = usage { " · " (usage) }
    }
}

fn took(run: &RunLine) -> Markup {
    match (run.started_at, run.ended_at) {
        (Some(began), Some(ended)) => html! { (words::duration(ended.since(began))) },
        (Some(began), None) => words::since(began),
        (None, _) => html! { span.muted { "never began" } },
    }
}

fn state_of(run: &RunLine) -> State {
    let look = match (run.status, run.stage) {
        (RunStatus::Running, Some(Stage::Queued)) => Look::Quiet,
        (RunStatus::Running, Some(Stage::Waiting)) if !run.cancel_requested => Look::Waiting,
        (RunStatus::Running, _) | (_, Some(_)) => Look::Running,
        (RunStatus::Completed, None) => Look::Done,
        (RunStatus::Failed | RunStatus::ArtifactMissing, None) => Look::Failed,
        (RunStatus::Cancelled, None) => Look::Quiet,
    };
    State::new(look, run.word())
}

/// Somebody, by the name that people know.
fn who(actor: &Actor) -> Markup {
    let kind = match actor.who {
        Who::Person(_) => "person",
        Who::Agent(_) => "agent",
        Who::Token(_) => "token",
        Who::Server => "this server",
    };
    html! { (actor.label) " " span.muted { "(" (kind) ")" } }
}

pub(super) fn session(session: &SessionLine, names: &Names) -> Markup {
    let state = match session.open {
        true => State::new(Look::Done, "open"),
        false => State::new(Look::Quiet, "ended"),
    };
    let facts = html! {
        (fact("Session", &id(session.session_key.as_str())))
        (fact("Thread", &id(session.thread_id.as_str())))
        @if let Some(run) = &session.last_run { (fact("Last run", &id(run.as_str()))) }
        @if let Some(folder) = &session.working_directory { (fact("Works in", &html! { code { (folder) } })) }
        (fact("Made", &words::moment(session.created_at)))
        @if let Some(by) = &session.closed_by { (fact("Closed by", &who(by))) }
    };
    html! {
        div.line #(format!("session-{}", session.session_key)) {
            div.top { (thread(&session.thread_id, names)) (state) }
            p.why {
                (words::runtime(&session.runtime)) " · " code { (session.session_key) }
                @if let Some(page) = &session.page {
                    " · " a href=(page) target="_blank" rel="noreferrer" { "Open in OpenClaw" }
                }
            }
            (standing(&session.standing, &facts, false))
        }
    }
}

pub(super) fn runtime(runtime: &RuntimeLine, names: &Names) -> Markup {
    let provider = &runtime.state.provider;
    let full = runtime.state.active >= provider.max_active;
    let state = match (runtime.state.available, full) {
        (false, _) => State::new(Look::Failed, "cannot be reached"),
        (true, true) => State::new(Look::Waiting, "full"),
        (true, false) => State::new(Look::Done, "ready"),
    };
    let error = runtime.last_error.as_ref();
    let facts = html! {
        (fact("Name", &html! { code { (runtime.runtime) } }))
        @if let Some(error) = error {
            (fact("Last error", &html! {
                (words::ticked(&error.message)) " "
                @if let Some(code) = error.code { code { (code.as_str()) } " " }
                (thread(&error.thread_id, names)) " " (words::moment(error.at))
            }))
        }
    };
    html! {
        div.line #(format!("runtime-{}", runtime.runtime)) {
            div.top { b { (provider.label) } (state) }
            p.why {
                (runtime.state.active) " of " (provider.max_active) " places taken · "
                (runtime.state.queued) " of " (provider.max_queued) " queued"
                @if let Some(error) = error {
                    " · " span.bad { "last error " (words::ago(error.at)) }
                }
            }
            (standing(&runtime.standing, &facts, !runtime.state.available))
        }
    }
}

pub(super) fn host(host: &HostLine, names: &Names) -> Markup {
    let look = match host.state {
        HostState::Working => Look::Running,
        HostState::Waiting => Look::Waiting,
        HostState::Idle => Look::Quiet,
        HostState::Silent | HostState::Lost => Look::Failed,
    };
    let state = State::new(look, host.state.word());
    let facts = html! {
        (fact("Session", &id(host.session_key.as_str())))
        (fact("Started", &words::moment(host.started_at)))
    };
    html! {
        div.line #(format!("host-{}", host.session_key)) {
            div.top { (thread(&host.thread_id, names)) (state) }
            p.why {
                (words::runtime(&host.runtime)) " · process " span.num { (host.pid) }
                ", agent " span.num { (host.agent_pid) }
            }
            (standing(&host.standing, &facts, false))
        }
    }
}

/// Why, and beneath it, when it is unfolded, since when, on what evidence, and what happens next.
fn standing(standing: &Standing, more: &Markup, unfolded: bool) -> Markup {
    html! {
        details.standing open[unfolded] {
            summary { (words::ticked(&standing.why)) }
            dl {
                (fact("Since", &since(standing.since)))
                (fact("Evidence", &html! {
                    (words::ticked(&standing.evidence)) " " span.muted { "Seen " (words::ago(standing.seen_at)) "." }
                }))
                (fact("Next", &html! { (words::ticked(&standing.next)) }))
                (more)
            }
        }
    }
}

fn since(at: Millis) -> Markup {
    html! { (words::moment(at)) " " span.muted { "(" (words::ago(at)) ")" } }
}

/// A thread of this app leads to its page; another app's is only named.
fn thread(key: &AppThreadKey, names: &Names) -> Markup {
    match names.get(key) {
        Some(found) => {
            html! { a.what href=(urls::thread(&found.name)) { (words::shortly(&found.title)) } }
        }
        None => html! { span.what { code { (key) } } },
    }
}
