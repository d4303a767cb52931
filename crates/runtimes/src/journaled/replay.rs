//! Checks that replaying a journal is the same as having listened, for whichever runtime's lines.

use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
};

use pretty_assertions::assert_eq;
use proptest::sample::Index;
use threadline_files::{Durability, JournalReader};

use super::{Past, Record, follow::follow, read};
use crate::Signal;

/// Where a journal is looked at, cut and gone on with.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// When a listener came, in lines that were there.
    pub(crate) came: Index,
    /// What a reader that comes later has logged.
    pub(crate) logged: Index,
    /// The byte at which a kill cuts the journal.
    pub(crate) cut: Index,
    /// How many frames had been handed over that the cut took away.
    pub(crate) lost: u8,
}

impl Moments {
    pub(crate) fn any() -> impl proptest::strategy::Strategy<Value = Self> {
        use proptest::prelude::*;
        let at = any::<Index>;
        (at(), at(), at(), 0u8..4).prop_map(|(came, logged, cut, lost)| Self {
            came,
            logged,
            cut,
            lost,
        })
    }
}

/// Writes the lines and checks every way to hear of them. `next` makes the line of a frame of this number.
/// Lines after the one that ends the run are not written.
pub(crate) fn check<P>(lines: Vec<P::Line>, moments: &Moments, next: impl Fn(i64) -> P::Line)
where
    P: Past + Debug + PartialEq,
    P::Line: Clone + Debug,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(checked::<P>(lines, moments, next));
}

async fn checked<P>(lines: Vec<P::Line>, moments: &Moments, next: impl Fn(i64) -> P::Line)
where
    P: Past + Debug + PartialEq,
    P::Line: Clone + Debug,
{
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.journal");
    let lines = until_the_end::<P>(lines);

    let record = std::sync::Arc::new(Record::<P>::open(&path).unwrap());
    let came = moments.came.index(lines.len() + 1);
    let mut listener = (came == 0).then(|| follow::<P>(path.clone(), 0, record.bell()));
    let mut ends = vec![];
    for (written, line) in (1..).zip(&lines) {
        record.write(line.clone(), Durability::Later).await.unwrap();
        ends.push(fs::metadata(&path).unwrap().len());
        if written == came {
            listener = Some(follow::<P>(path.clone(), 0, record.bell()));
        }
    }
    // Nobody writes any more: whoever listens hears the rest, and that it is over.
    drop(record);
    let mut listener = listener.unwrap();
    let mut heard = vec![];
    while let Some(signal) = listener.recv().await {
        heard.push(signal);
    }
    assert_eq!(heard, signals::<P>(&lines), "what a listener heard");

    let last = last_frame(&heard);
    let logged = moments.logged.index(usize::try_from(last).unwrap() + 1) as i64;
    assert_eq!(
        replayed::<P>(&path, logged).await,
        after(&heard, logged),
        "what is replayed after frame {logged}"
    );

    let size = ends.last().copied().unwrap_or_default();
    let cut = moments.cut.index(usize::try_from(size).unwrap() + 1) as u64;
    let whole = ends.iter().filter(|end| **end <= cut).count();
    cut_at::<P>(&path, cut, &lines[..whole], moments, next).await;
}

/// A kill cut the journal in the middle of a write, or a power cut took lines that had been handed over.
async fn cut_at<P>(
    path: &Path,
    cut: u64,
    whole: &[P::Line],
    moments: &Moments,
    next: impl Fn(i64) -> P::Line,
) where
    P: Past + Debug + PartialEq,
    P::Line: Clone + Debug,
{
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(cut).unwrap();
    drop(file);
    let expected = signals::<P>(whole);
    let folded = fold::<P>(whole);
    assert_eq!(
        read::<P>(path).unwrap().unwrap(),
        folded,
        "a torn line says nothing"
    );
    let last = last_frame(&expected);
    let logged = moments.logged.index(usize::try_from(last).unwrap() + 1) as i64;
    assert_eq!(replayed::<P>(path, logged).await, after(&expected, logged));

    let record = std::sync::Arc::new(Record::<P>::open(path).unwrap());
    record.look(|past| assert_eq!(past, &folded));
    if folded.run().ended.is_some() {
        return;
    }
    // It goes on: what was handed over is never handed over again, also under another content.
    let told = last + i64::from(moments.lost);
    record.told_until(told);
    let more: Vec<P::Line> = (told + 1..told + 4).map(next).collect();
    let mut going_on = follow::<P>(path.to_owned(), told, record.bell());
    for line in &more {
        record.write(line.clone(), Durability::Later).await.unwrap();
    }
    drop(record);
    let mut heard = vec![];
    while let Some(signal) = going_on.recv().await {
        heard.push(signal);
    }
    assert_eq!(heard, signals::<P>(&more), "what came after the cut");
}

/// What a reader hears who has logged frames up to this one, when nobody writes.
async fn replayed<P: Past>(path: &Path, logged: i64) -> Vec<Signal> {
    let end = end_of::<P>(path);
    let (bell, listening) = tokio::sync::watch::channel(end);
    let mut signals = follow::<P>(PathBuf::from(path), logged, listening);
    drop(bell);
    let mut heard = vec![];
    while let Some(signal) = signals.recv().await {
        heard.push(signal);
    }
    heard
}

fn end_of<P: Past>(path: &Path) -> u64 {
    let reader = JournalReader::open(path).unwrap();
    let records = reader.read_after::<P::Line>(0).unwrap();
    records.map(|r| r.unwrap().next).last().unwrap_or_default()
}

fn until_the_end<P: Past>(lines: Vec<P::Line>) -> Vec<P::Line>
where
    P::Line: Clone,
{
    let ends = |line: &P::Line| {
        let said = P::signals(line.clone());
        said.iter().any(|s| matches!(s, Signal::End(_)))
    };
    let last = lines.iter().position(ends).unwrap_or(lines.len());
    lines.into_iter().take(last + 1).collect()
}

fn signals<P: Past>(lines: &[P::Line]) -> Vec<Signal>
where
    P::Line: Clone,
{
    lines.iter().cloned().flat_map(P::signals).collect()
}

fn fold<P: Past>(lines: &[P::Line]) -> P
where
    P::Line: Clone,
{
    let mut past = P::default();
    for line in lines {
        past.apply(line.clone());
    }
    past
}

fn last_frame(signals: &[Signal]) -> i64 {
    let numbers = signals.iter().filter_map(|signal| match signal {
        Signal::Frame(frame) => Some(frame.no),
        Signal::End(_) => None,
    });
    numbers.max().unwrap_or_default()
}

fn after(signals: &[Signal], logged: i64) -> Vec<Signal> {
    let is_new = |signal: &&Signal| match signal {
        Signal::Frame(frame) => frame.no > logged,
        Signal::End(_) => true,
    };
    signals.iter().filter(is_new).cloned().collect()
}
