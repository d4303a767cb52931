//! What proves a folder, and what makes room: reports of `verify` and `artifacts gc`.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use threadline_app::api::GcView;
use threadline_artifacts::{Finding, Report, What};
use threadline_contract::{
    AppThreadKey, Millis, RemovedFor,
    method::{GcRemoved, KeptFor},
};

use super::{
    Terminal,
    words::{ago, columns, count, line, size},
};

/// Every file that is not as it should be, and what that comes to.
pub(crate) fn report(report: &Report, to: Terminal) -> String {
    let several = report.receipts.len() > 1;
    let paths = report.findings.iter().map(|f| columns(&line(&f.path)));
    let width = paths.max().unwrap_or(0).min(to.width / 2);
    let mut out = String::new();
    // First of all: what it would have said about the files is not known.
    for refused in &report.refused {
        let (path, why) = (line(&refused.path), line(&refused.why));
        out.push_str(&format!("{} {path}  {why}\n", to.bad("✗")));
    }
    if !report.refused.is_empty() {
        out.push_str("  `threadline sync THREAD` writes it anew.\n");
    }
    for finding in &report.findings {
        let name = line(&finding.path);
        let space = " ".repeat(width.saturating_sub(columns(&name)));
        let run = match &finding.run_id {
            Some(run) if several => to.dim(&format!("  (run {run})")),
            _ => String::new(),
        };
        let sign = match finding.what {
            What::Extra { .. } => to.warn("+"),
            What::Unchecked => to.warn("?"),
            _ => to.bad("✗"),
        };
        out.push_str(&format!("{sign} {name}{space}  {}{run}\n", matter(finding)));
    }
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(&verdict(report, to));
    for receipt in &report.receipts {
        let digest = receipt.digest.to_hex();
        let held = format!("{} of {}", receipt.intact, count(receipt.files, "file"));
        let text = format!("Receipt {}  run {}, {held}", &digest[..12], receipt.run_id);
        out.push_str(&format!("{}\n", to.dim(&text)));
    }
    out
}

/// What is the matter with one file.
fn matter(finding: &Finding) -> String {
    match &finding.what {
        What::Differs {
            size, found_size, ..
        } if size == found_size => "differs: as many bytes, but others".to_owned(),
        What::Differs {
            size, found_size, ..
        } => format!("differs: {found_size} bytes, delivered were {size}"),
        What::NotAFile => "is not a file: something else stands in its place".to_owned(),
        What::Missing => "is missing".to_owned(),
        What::Unreadable => "cannot be read".to_owned(),
        What::Unchecked => {
            "cannot be checked: the receipt that may name it cannot be used".to_owned()
        }
        What::Extra { file: true } => "is extra: no receipt names it".to_owned(),
        What::Extra { file: false } => "is extra, and not a file".to_owned(),
    }
}

fn verdict(report: &Report, to: Terminal) -> String {
    let files: u64 = report.receipts.iter().map(|r| r.files).sum();
    let intact: u64 = report.receipts.iter().map(|r| r.intact).sum();
    let extra = report
        .findings
        .iter()
        .filter(|f| matches!(f.what, What::Extra { .. }))
        .count() as u64;
    let extra = match extra {
        0 => String::new(),
        n => format!(" {}.", count(n, "extra file")),
    };
    if report.is_intact() {
        let what = match files {
            0 => "Nothing was delivered, and nothing is missing.".to_owned(),
            1 => "The 1 file that was delivered is here, byte for byte.".to_owned(),
            n => format!("All {n} files that were delivered are here, byte for byte."),
        };
        return format!("{} {what}{extra}\n", to.good("✓"));
    }
    let mut parts = Vec::new();
    if !report.refused.is_empty() {
        let receipts = count(report.refused.len() as u64, "receipt");
        parts.push(format!("{receipts} cannot be used."));
    }
    if !report.receipts.is_empty() {
        parts.push(format!(
            "{intact} of {} as delivered.",
            count(files, "file")
        ));
    }
    let unchecked = report.findings.iter();
    let unchecked = unchecked.filter(|f| f.what == What::Unchecked).count() as u64;
    if unchecked > 0 {
        parts.push(format!("{} cannot be checked.", count(unchecked, "file")));
    }
    format!("{} {}{extra}\n", to.bad("Not intact:"), parts.join(" "))
}

/// How much there is of the files of runs, thread by thread what could go, and how to say what may.
pub(crate) fn stock(view: &GcView, now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let gc = &view.gc;
    let all = gc.freed_bytes.saturating_add(gc.bytes_after);
    let runs = gc.removed_runs.saturating_add(gc.kept_runs);
    let mut out = format!("The files of {} have {}", count(runs, "run"), size(all));
    if let Some(oldest) = gc.removed.iter().map(|run| run.changed_at).min() {
        out.push_str(&format!("; the oldest changed {}", ago(now, oldest, zone)));
    }
    out.push_str(".\n");
    // Of each thread: how many runs, how many bytes, and when the oldest changed.
    let mut threads: BTreeMap<&AppThreadKey, (u64, u64, Millis)> = BTreeMap::new();
    for run in &gc.removed {
        let of = threads
            .entry(&run.thread_id)
            .or_insert((0, 0, run.changed_at));
        *of = (of.0 + 1, of.1 + run.bytes, of.2.min(run.changed_at));
    }
    let mut threads: Vec<_> = threads.into_iter().collect();
    threads.sort_by_key(|(_, (_, bytes, _))| std::cmp::Reverse(*bytes));
    let rows = threads.iter().map(|(thread, (runs, bytes, oldest))| {
        let name = view.names.get(*thread);
        let name = name.map_or(thread.as_str(), String::as_str);
        let (runs, oldest) = (count(*runs, "run"), ago(now, *oldest, zone));
        [line(name), runs, size(*bytes), oldest]
    });
    out.push_str(&table(&rows.collect::<Vec<_>>()));
    out.push_str(&staying(view, to));
    if gc.kept_runs > 0 {
        let stay = format!("{} stay in any case.", size(gc.bytes_after));
        out.push_str(&format!("{}\n", to.dim(&stay)));
    }
    out.push_str(
        "Say what may go: --older-than 30d, --keep-bytes 10GB, or both. The settings\n\
         artifacts.keep_days and artifacts.keep_bytes say it once and for all.\n",
    );
    out
}

/// What went to make room, or would, and what stays.
pub(crate) fn room(view: &GcView, now: Millis, zone: &TimeZone, to: Terminal) -> String {
    let gc = &view.gc;
    let rows = gc.removed.iter().map(|run| row(run, view, now, zone));
    let mut out = table(&rows.collect::<Vec<_>>());
    let unnamed = gc.removed_runs.saturating_sub(gc.removed.len() as u64);
    if unnamed > 0 {
        out.push_str(&format!("  and those of {}\n", count(unnamed, "more run")));
    }
    let runs = count(gc.removed_runs, "run");
    let freed = size(gc.freed_bytes);
    out.push_str(&match (gc.removed_runs, gc.dry_run) {
        (0, true) => "Nothing would go.\n".to_owned(),
        (0, false) => "Nothing went.\n".to_owned(),
        (_, true) => format!("The files of {runs} would go: {freed}. Nothing was touched.\n"),
        (_, false) => {
            format!("The files of {runs} went: {freed}. What they were stays on record.\n")
        }
    });
    out.push_str(&staying(view, to));
    out.push_str(&to.dim(&format!("{} stay in all.", size(gc.bytes_after))));
    out.push('\n');
    out
}

/// Columns side by side.
fn table(rows: &[[String; 4]]) -> String {
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.max().unwrap_or(0)
    });
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| {
            let space = " ".repeat(width - columns(cell));
            format!("{cell}{space}")
        });
        let cells: Vec<String> = cells.collect();
        out.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
    }
    out
}

/// What stays whatever the rule, and why.
fn staying(view: &GcView, to: Terminal) -> String {
    let gc = &view.gc;
    let mut out = String::new();
    for (why, words) in [
        (KeptFor::Live, "because it goes on"),
        (KeptFor::Held, "because links to them are still good"),
        (KeptFor::Grace, "because they changed within the last day"),
    ] {
        let runs = gc.kept.iter().filter(|kept| kept.why == why).count() as u64;
        if runs > 0 {
            let runs = count(runs, "run");
            out.push_str(&to.dim(&format!("The files of {runs} stay {words}.")));
            out.push('\n');
        }
    }
    if gc.unknown > 0 {
        let folders = count(gc.unknown, "folder");
        out.push_str(&to.dim(&format!("{folders} not of Threadline's making stay.")));
        out.push('\n');
    }
    out
}

fn row(run: &GcRemoved, view: &GcView, now: Millis, zone: &TimeZone) -> [String; 4] {
    let name = view.names.get(&run.thread_id);
    let name = name.map_or(run.thread_id.as_str(), String::as_str);
    let why = match run.why {
        RemovedFor::Age => "old",
        RemovedFor::Bytes => "the oldest, and there is too much",
        RemovedFor::Unfinished => "left by an interrupted removal",
    };
    let files = format!("{}, {}", count(run.files, "file"), size(run.bytes));
    [
        line(name),
        ago(now, run.changed_at, zone),
        files,
        why.to_owned(),
    ]
}

#[cfg(test)]
#[path = "proof_tests.rs"]
mod tests;
