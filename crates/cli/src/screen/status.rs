//! How a bridge stands, for its operator: a line for each run, session, runtime and host, and beneath it
//! why it is so, since when, on what evidence, and what happens next.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use threadline_app::api::{ThreadName, WaitsFor};
use threadline_contract::{
    AppThreadKey, Millis,
    operator::{HostLine, HostState, RunLine, RuntimeLine, SessionLine, Standing},
};

use super::{
    Terminal, queue, tables,
    words::{ago, clock, count, duration, line},
    wrap::hanging,
};
use crate::commands::Shown;

type Names = BTreeMap<AppThreadKey, ThreadName>;

/// What things are told with.
struct Page<'a> {
    now: Millis,
    zone: &'a TimeZone,
    to: Terminal,
}

/// Everything, one part after the other.
pub(crate) fn all(shown: &Shown, now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let page = Page { now, zone, to };
    let status = &shown.status.of;
    let mut out = format!(
        "{}  {}\n",
        to.bold(&headline(shown)),
        to.dim(&format!("version {}", status.version))
    );
    if !shown.questions.is_empty() {
        out.push_str(&page.title("Waiting for an answer"));
        out.push_str(&tables::questions(&shown.questions, now, zone, to));
    }
    if !shown.waiting.turns.is_empty() {
        out.push_str(&page.title("Waiting messages"));
        out.push_str(&queue::waiting(&shown.waiting.turns, now, zone, to));
    }
    out.push_str(&page.title("Runs"));
    if shown.runs.of.runs.is_empty() {
        out.push_str("None.\n");
    }
    for run in &shown.runs.of.runs {
        out.push_str(&page.run(run, &shown.runs.names));
    }
    // `--before` is about the sessions where they are asked for.
    if shown.sessions.is_none() {
        out.push_str(&page.more(shown.runs.of.next_cursor.as_deref()));
    }
    if let Some(sessions) = &shown.sessions {
        out.push_str(&page.title("Sessions"));
        for session in &sessions.of.sessions {
            out.push_str(&page.session(session, &sessions.names));
        }
        out.push_str(&page.more(sessions.of.next_cursor.as_deref()));
    }
    out.push_str(&page.title("Runtimes"));
    for runtime in &status.runtimes {
        out.push_str(&page.runtime(runtime, &shown.status.names));
    }
    if !status.hosts.is_empty() {
        out.push_str(&page.title("Agent processes"));
        let is_idle = |host: &&HostLine| host.state == HostState::Idle;
        for host in status.hosts.iter().filter(|host| !is_idle(host)) {
            out.push_str(&page.host(host, &shown.status.names));
        }
        let idle: Vec<&HostLine> = status.hosts.iter().filter(is_idle).collect();
        out.push_str(&page.idle(&idle, &shown.status.names));
    }
    out
}

/// How many of everything there is. What counts as running holds a place, of this account or of another.
fn headline(shown: &Shown) -> String {
    let status = &shown.status.of;
    let places: u64 = status
        .runtimes
        .iter()
        .map(|runtime| u64::from(runtime.state.active))
        .sum();
    let others = places.saturating_sub(status.open.running);
    let mut parts = vec![match others {
        0 => format!("{} running", status.open.running),
        n => format!(
            "{} running (and {n} of other accounts)",
            status.open.running
        ),
    }];
    parts.push(format!("{} queued", status.open.queued));
    if status.open.collecting > 0 {
        parts.push(format!("{} collecting files", status.open.collecting));
    }
    let behind = shown.waiting.turns.iter();
    let behind = behind.filter(|turn| turn.waits_for == WaitsFor::OwnThread);
    match behind.count() as u64 {
        0 => {}
        1 => parts.push("1 message waiting in its thread".to_owned()),
        n => parts.push(format!("{n} messages waiting in their threads")),
    }
    parts.push(count(status.questions.into(), "open question"));
    parts.join(", ")
}

impl Page<'_> {
    fn title(&self, text: &str) -> String {
        format!("\n{}\n", self.to.bold(text))
    }

    fn run(&self, run: &RunLine, names: &Names) -> String {
        let wall = match (run.started_at, run.ended_at) {
            (Some(began), Some(ended)) => Some(duration(ended.since(began))),
            (Some(began), None) => Some(duration(self.now.since(began))),
            (None, _) => None,
        };
        let mut facts = vec![run.runtime.to_string()];
        facts.extend(wall);
        facts.extend(run.usage.and_then(|usage| usage.in_words()));
        facts.extend(run.code.map(|code| code.to_string()));
        let more = [("Run", run.run_id.to_string())];
        self.told(
            &name(&run.thread_id, names),
            run.word(),
            &facts,
            &run.standing,
            &more,
        )
    }

    fn session(&self, session: &SessionLine, names: &Names) -> String {
        let state = if session.open { "open" } else { "ended" };
        let mut more = vec![("Session", session.session_key.to_string())];
        more.extend(session.working_directory.clone().map(|f| ("Works in", f)));
        more.extend(session.page.clone().map(|page| ("Page", page)));
        let facts = [session.runtime.to_string()];
        self.told(
            &name(&session.thread_id, names),
            state,
            &facts,
            &session.standing,
            &more,
        )
    }

    fn runtime(&self, runtime: &RuntimeLine, names: &Names) -> String {
        let provider = &runtime.state.provider;
        let state = match runtime.state.available {
            false => "cannot be reached",
            true if runtime.state.active >= provider.max_active => "full",
            true => "ready",
        };
        let lane = format!(
            "{} of {} places, {} of {} queued",
            runtime.state.active, provider.max_active, runtime.state.queued, provider.max_queued
        );
        let error = runtime.last_error.as_ref().map(|error| {
            let thread = name(&error.thread_id, names);
            let when = ago(self.now, error.at, self.zone);
            let code = error
                .code
                .map(|code| format!(" [{code}]"))
                .unwrap_or_default();
            (
                "Error",
                format!("{}{code} ({thread}, {when})", line(&error.message)),
            )
        });
        let more: Vec<_> = error.into_iter().collect();
        let facts = [runtime.runtime.to_string(), lane];
        self.told(&provider.label, state, &facts, &runtime.standing, &more)
    }

    fn host(&self, host: &HostLine, names: &Names) -> String {
        let facts = [host.runtime.to_string(), format!("process {}", host.pid)];
        let more = [("Session", host.session_key.to_string())];
        self.told(
            &name(&host.thread_id, names),
            host.state.word(),
            &facts,
            &host.standing,
            &more,
        )
    }

    /// Those that have nothing to do: there can be many, and of each the same would be said.
    fn idle(&self, hosts: &[&HostLine], names: &Names) -> String {
        let of = |host: &&HostLine| {
            let name = name(&host.thread_id, names);
            format!("{} (process {})", line(&name), host.pid)
        };
        let all: Vec<String> = hosts.iter().map(of).collect();
        match all.is_empty() {
            true => String::new(),
            false => {
                let text = format!(
                    "{} idle (each ends by itself): {}",
                    count(all.len() as u64, "process"),
                    all.join(", ")
                );
                format!("{}\n", hanging(&text, self.to.width, 2))
            }
        }
    }

    /// How the next page is shown.
    fn more(&self, cursor: Option<&str>) -> String {
        let more = cursor.map(|next| format!("There are more: --before {next} shows them."));
        more.map_or_else(String::new, |more| format!("{}\n", self.to.dim(&more)))
    }

    fn told(
        &self,
        name: &str,
        state: &str,
        facts: &[String],
        standing: &Standing,
        more: &[(&str, String)],
    ) -> String {
        let to = self.to;
        let state = match state {
            "done" | "ready" | "open" => to.good(state),
            "failed" | "not delivered" | "cannot be reached" | "does not answer" | "killed" => {
                to.bad(state)
            }
            "waits for an answer" | "full" => to.warn(state),
            other => other.to_owned(),
        };
        let facts = to.dim(&line(&facts.join(" · ")));
        let mut out = format!("{}  {state}  {facts}\n", to.bold(&line(name)));
        let since = format!(
            "{} ({})",
            clock(standing.since, self.zone),
            ago(self.now, standing.since, self.zone)
        );
        let evidence = format!(
            "{} ({})",
            standing.evidence,
            ago(self.now, standing.seen_at, self.zone)
        );
        let known = [
            ("Why", standing.why.clone()),
            ("Since", since),
            ("Evidence", evidence),
            ("Next", standing.next.clone()),
        ];
        for (word, text) in known.iter().chain(more) {
            let text = hanging(&line(text), to.width, 12);
            out.push_str(&format!(
                "  {}{:2$}{text}\n",
                to.dim(word),
                "",
                10 - word.len()
            ));
        }
        out
    }
}

fn name(thread: &AppThreadKey, names: &Names) -> String {
    names
        .get(thread)
        .map_or_else(|| thread.to_string(), |found| found.name.clone())
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
