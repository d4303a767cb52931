//! Live views of an owner's log: the whole log for those who watch, one run for its caller.
//!
//! The log is the truth. A feed is a cursor into it, so that a cut costs nothing: whoever comes
//! back with the last number it saw gets the rest, once and in order.

use std::collections::VecDeque;

use threadline_contract::{
    Code, Fault, Millis, Owner, Principal, Progress, RunId, RuntimeId, SessionKey, SessionUpdate,
    Snapshot, Stage, UpdateKind,
};
use threadline_store::{Phase, Run, StoredEvent, StreamId, Subscription};
use tokio::time::Instant;

use crate::{Engine, run::stall, wire};

/// Events read from the log at once.
const PAGE: u32 = 256;

/// What comes out of a feed.
pub enum FeedItem {
    /// A logged notification: its number, and the JSON of a `SessionUpdate`.
    Update(StoredEvent),
    /// The result, last.
    Result(Box<Snapshot>),
}

/// A feed.
pub struct Feed {
    engine: Engine,
    live: Subscription,
    /// Events that came together and are handed over one by one.
    ready: VecDeque<StoredEvent>,
    run: Option<Box<OneRun>>,
    /// The run whose waiting is told: the feed's own, or the last of its owner.
    waiting: Option<Box<WaitingRun>>,
    /// A run of the owner that was heard of and is not known yet.
    heard_of: Option<RunId>,
}

/// A run that may wait for something that no log can tell.
struct WaitingRun {
    id: RunId,
    owner: Owner,
    runtime: RuntimeId,
    session: SessionKey,
    /// What it was last told to wait for.
    waits: Option<String>,
}

impl WaitingRun {
    /// The run, unless it is over.
    fn of(run: Run) -> Option<Box<Self>> {
        (run.phase != Phase::Closed).then(|| {
            Box::new(Self {
                id: run.id,
                owner: run.owner,
                runtime: run.runtime,
                session: run.session_key,
                waits: None,
            })
        })
    }
}

/// What a feed of one run keeps.
struct OneRun {
    caller: Principal,
    id: RunId,
    stream: StreamId,
    cursor: i64,
    head: i64,
    /// When the result goes out even if the files are still being collected.
    result_due: Option<Instant>,
    /// The record should be looked at: something about the run's end was heard.
    look: bool,
    done: bool,
}

impl Engine {
    /// The log of an owner after number `after`, for as long as somebody listens.
    pub async fn owner_feed(
        &self,
        caller: &Principal,
        owner: &Owner,
        after: i64,
    ) -> Result<Feed, Fault> {
        self.known_owner(caller, owner).await?;
        let stream = StreamId::of(&caller.account, owner);
        let live = self.store().subscribe(&stream, after);
        let latest = self.store().latest_run(&caller.account, owner).await?;
        Ok(Feed {
            engine: self.clone(),
            live,
            ready: VecDeque::new(),
            run: None,
            waiting: latest.and_then(WaitingRun::of),
            heard_of: None,
        })
    }

    /// The number after which the last `count` events of an owner's log stand.
    pub async fn owner_tail(
        &self,
        caller: &Principal,
        owner: &Owner,
        count: u32,
    ) -> Result<i64, Fault> {
        self.known_owner(caller, owner).await?;
        let stream = StreamId::of(&caller.account, owner);
        let head = self.store().last_seq(&stream).await?;
        Ok((head - i64::from(count)).max(0))
    }

    /// One page of an owner's log, for those who poll.
    pub async fn owner_page(
        &self,
        caller: &Principal,
        owner: &Owner,
        after: i64,
    ) -> Result<Vec<StoredEvent>, Fault> {
        self.known_owner(caller, owner).await?;
        let stream = StreamId::of(&caller.account, owner);
        Ok(self.store().events_after(&stream, after, PAGE).await?)
    }

    /// The events of one run after number `after`, then its result.
    pub async fn run_feed(
        &self,
        caller: &Principal,
        run: &RunId,
        after: i64,
    ) -> Result<Feed, Fault> {
        let record = self.store().run(&caller.account, run).await?;
        let stream = record.stream();
        let head = self.store().last_seq(&stream).await?;
        // Only the run's own part of the log is read, however long the log has become.
        let until = record.log_to.map_or(head, |to| to.min(head));
        let one = OneRun {
            caller: caller.clone(),
            id: run.clone(),
            stream: stream.clone(),
            cursor: after.max(record.log_from),
            head: until,
            result_due: None,
            look: true,
            done: false,
        };
        Ok(Feed {
            engine: self.clone(),
            live: self.store().subscribe(&stream, head.max(after)),
            ready: VecDeque::new(),
            run: Some(Box::new(one)),
            waiting: WaitingRun::of(record),
            heard_of: None,
        })
    }
}

impl Feed {
    /// The next item. Thousands wait here at once, so what is rarely awaited is boxed and costs
    /// nothing while it is not. `None` after the result of a run; an owner's feed has no end. Dropping this
    /// future loses nothing.
    pub async fn next(&mut self) -> Result<Option<FeedItem>, Fault> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if let Some(run) = &mut self.run {
                    run.saw(&self.engine, &event);
                }
                return Ok(Some(FeedItem::Update(event)));
            }
            let Some(run) = &mut self.run else {
                if let Some(heard_of) = &self.heard_of {
                    let known = Box::pin(self.engine.store().run_any(heard_of)).await;
                    // One that was deleted waits for nothing.
                    self.waiting = known.ok().and_then(WaitingRun::of);
                    self.heard_of = None;
                }
                self.ready.extend(self.live.next().await?.iter().cloned());
                let last = self.ready.back().and_then(|event| event.run.as_ref());
                let known = self.waiting.as_ref().map(|run| &run.id);
                self.heard_of = last.filter(|last| Some(*last) != known).cloned();
                continue;
            };
            if run.done {
                return Ok(None);
            }
            if run.cursor < run.head {
                let range = (run.cursor, run.head);
                let store = self.engine.store();
                let page = store.run_events(&run.stream, &run.id, range, PAGE);
                let page = Box::pin(page).await?;
                run.cursor = page.last().map_or(run.head, |e| e.seq);
                self.ready = page.into();
                continue;
            }
            if run.look && Box::pin(run.is_over(&self.engine)).await? {
                run.done = true;
                let result = Box::pin(self.engine.result(&run.caller, &run.id)).await?;
                return Ok(Some(FeedItem::Result(Box::new(result))));
            }
            let due = run.result_due;
            let waited = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                events = self.live.next() => {
                    let own = |e: &&StoredEvent| e.run.as_ref() == Some(&run.id);
                    self.ready.extend(events?.iter().filter(own).cloned());
                }
                () = waited => run.look = true,
            }
        }
    }
}

impl Feed {
    /// What the run waits for that no log can tell, once for each change: a full disk takes no events. It is not
    /// logged.
    pub fn progress(&mut self) -> Option<SessionUpdate> {
        if self.run.as_ref().is_some_and(|run| run.done) {
            return None;
        }
        let run = self.waiting.as_mut()?;
        let since = self
            .engine
            .waits_for_room(&run.runtime, &run.session, &run.id);
        let now = Millis::now();
        let waits = since.map(|since| stall::sentence(since, now));
        if waits == run.waits {
            return None;
        }
        run.waits.clone_from(&waits);
        let (kind, event) = (UpdateKind::Status, "task.progress");
        let mut update = wire::update(&run.owner, &run.id, kind, event, now);
        update.code = since.map(|_| Code::StorageFull);
        update.progress = Some(Progress {
            stage: Stage::Working,
            message: waits,
            elapsed_ms: None,
        });
        Some(update)
    }
}

impl OneRun {
    fn saw(&mut self, engine: &Engine, event: &StoredEvent) {
        if &*event.kind == "task.ended" {
            self.result_due = Some(Instant::now() + engine.0.config.result_wait);
        }
        self.look |= &*event.kind == "completed";
    }

    /// Closed, or ended long enough ago that the result no longer waits for files.
    async fn is_over(&mut self, engine: &Engine) -> Result<bool, Fault> {
        let record = engine.store().run(&self.caller.account, &self.id).await?;
        if record.phase == Phase::Closed {
            return Ok(true);
        }
        self.look = false;
        if record.status.is_terminal() && self.result_due.is_none() {
            self.result_due = Some(Instant::now() + engine.0.config.result_wait);
        }
        Ok(self.result_due.is_some_and(|due| due <= Instant::now()))
    }
}
