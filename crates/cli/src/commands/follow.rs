//! Following a run on the screen until it is over, a person leaves, or it cannot be heard any more.

use std::{
    io::{BufRead as _, IsTerminal as _},
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use threadline_app::api::{self, AppEvent, CancelParams, ThreadView, TurnParams, TurnView};
use threadline_contract::{Code, Fault, Question};
use threadline_files::complain;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    time::Instant,
};

use super::{
    Context, answer,
    out::Out,
    print_json,
    run::{tell_dropped, tell_end},
};
use crate::{
    client::{Client, Heard},
    exit::Exit,
    output::reader_gone,
    screen::{
        ending::{self, Given},
        live::Screen,
        story::{Say, Story, Which},
        tables,
        words::{self, quoted},
    },
};

/// How long the log may lag behind the result.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How long a bridge may take to say that it has a task, before a person is told what is waited for.
const HEARD_OF: Duration = Duration::from_secs(3);

/// What threads call the bridge of this machine.
const LOCAL: &str = "local";

/// What Ctrl-C does the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// It cancels the run: whoever started it may.
    Cancels,
    /// It leaves: whoever only watches may not.
    Leaves,
}

/// What is followed, and how.
pub(super) struct Follow<'a> {
    pub(super) context: &'a Context,
    pub(super) client: Arc<Client>,
    pub(super) view: ThreadView,
    /// The thread as it was before, where that was shown already.
    pub(super) before: Option<ThreadView>,
    pub(super) which: Which,
    pub(super) after: i64,
    pub(super) interrupt: Interrupt,
    pub(super) out: Option<Out>,
    pub(super) given: Given,
    /// When the task was handed over.
    pub(super) begun: Instant,
}

impl<'a> Follow<'a> {
    /// Watches what a thread is doing, from its beginning.
    pub(super) fn of(context: &'a Context, client: Arc<Client>, view: ThreadView) -> Self {
        Self {
            context,
            client,
            view,
            before: None,
            which: Which::Current,
            after: 0,
            interrupt: Interrupt::Leaves,
            out: None,
            given: Given::default(),
            begun: Instant::now(),
        }
    }
}

/// Follows a run to its end.
pub(super) async fn follow(follow: Follow<'_>) -> Result<Exit, Fault> {
    let Follow {
        context,
        client,
        view,
        before,
        which,
        after,
        interrupt,
        out,
        given,
        begun,
    } = follow;
    let key = view.thread.thread_id.clone();
    let mut events = client.events(&key, after);
    let mut silence = client.watch_over();
    let mut unheard = Some(begun + HEARD_OF);
    let mut scene = Scene {
        context,
        client,
        screen: Screen::new(context.out, context.err),
        story: Story::new(which, view.clone()).knowing(before.as_ref()),
        latest: view.clone(),
        lines: None,
        interrupt,
        cancelling: false,
        given_up: None,
        given,
    };
    let mut ctrl_c = signal(SignalKind::interrupt())
        .map_err(|e| Fault::invalid(format!("Signals cannot be heard: {e}.")))?;
    scene.begin(view);
    let mut patience: Option<Instant> = None;
    let ended = loop {
        // Nobody reads what would be told, so there is nobody to stay for.
        if reader_gone() {
            break Ok(false);
        }
        let over = scene.story.is_over(&scene.latest);
        if over && scene.story.is_told(&scene.latest) {
            break Ok(true);
        }
        // A log that cannot be read any more must not hold back a result that is there.
        let until = over.then(|| *patience.get_or_insert_with(|| Instant::now() + LAST_WORDS));
        tokio::select! {
            () = reached(until) => break Ok(true),
            event = events.recv() => match event {
                Some(Ok(Heard::Event(event))) => scene.hear(event),
                Some(Ok(Heard::Back)) => scene.back(),
                Some(Err(fault)) => break Err(fault),
                // The thread was deleted while we looked.
                None => break Ok(true),
            },
            () = reached(unheard) => {
                unheard = None;
                scene.unheard();
            },
            Some(fault) = silence.recv() => scene.silent(&fault),
            line = line(&mut scene.lines) => scene.typed(line).await,
            _ = ctrl_c.recv() => if scene.interrupted(&mut ctrl_c).await {
                break Ok(false);
            },
        }
    };
    scene.screen.finish();
    match ended {
        Ok(true) => Box::pin(scene.end(out)).await,
        Ok(false) => {
            scene.left();
            Ok(Exit::Detached)
        }
        Err(fault) => Err(fault),
    }
}

async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The next line that a person types; never, when nobody is asked.
async fn line(lines: &mut Option<mpsc::Receiver<String>>) -> Option<String> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

struct Scene<'a> {
    context: &'a Context,
    client: Arc<Client>,
    screen: Screen,
    story: Story,
    /// The thread as it stands, also when it has moved on to another turn.
    latest: ThreadView,
    /// What a person types, once somebody was asked.
    lines: Option<mpsc::Receiver<String>>,
    interrupt: Interrupt,
    cancelling: bool,
    /// What is true of a run that was cancelled while its bridge could not be asked.
    given_up: Option<String>,
    given: Given,
}

impl Scene<'_> {
    fn begin(&mut self, view: ThreadView) {
        if self.context.json {
            return print_json(&json!({"event": "accepted", "data": view}));
        }
        self.screen.begin(&view.thread.name);
        let mut says = Vec::new();
        self.story.see(view, &mut says);
        self.tell(says);
    }

    fn hear(&mut self, event: AppEvent) {
        if self.context.json {
            match event.data() {
                Ok(data) => {
                    print_json(&json!({"event": event.name(), "id": event.id(), "data": data}))
                }
                Err(e) => complain!("error: an event could not be written as JSON: {e}"),
            }
        }
        if let AppEvent::Thread(view) = &event {
            self.latest = (**view).clone();
        }
        let says = self.story.hear(event);
        if !self.context.json {
            self.tell(says);
        }
    }

    fn tell(&mut self, says: Vec<Say>) {
        for say in says {
            let asked = matches!(say, Say::Asked(_));
            let closed = matches!(say, Say::Closed(_));
            self.screen.say(say);
            if asked {
                self.invite();
            } else if closed && self.lines.is_some() && self.story.question().is_some() {
                self.screen.prompt();
            }
        }
    }

    /// Lets a person answer here, or says how it is done elsewhere.
    fn invite(&mut self) {
        if std::io::stdin().is_terminal() && self.context.err.person {
            if self.lines.is_none() {
                self.lines = Some(read_lines());
            }
            self.screen.prompt();
        } else {
            let name = &self.latest.thread.name;
            let how = tables::how_to_answer(name, self.context.err);
            self.screen.line(how.trim_end());
        }
    }

    async fn typed(&mut self, line: Option<String>) {
        let Some(line) = line else {
            // End of input: the question waits for an answer from elsewhere.
            self.lines = None;
            self.screen.unprompt();
            let how = tables::how_to_answer(&self.latest.thread.name, self.context.err);
            return self.screen.line(how.trim_end());
        };
        self.screen.typed();
        let Some(question) = self.story.question().cloned() else {
            return;
        };
        if line.trim().is_empty() {
            return self.screen.prompt();
        }
        let answered = match answer::chosen(&question, &line) {
            Ok(params) => self.client.call::<Question>(api::ANSWER, params).await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = answered {
            self.screen
                .line(ending::error(&fault, self.context.err).trim_end());
            self.screen.prompt();
        }
    }

    fn back(&mut self) {
        if !self.context.json {
            self.screen.line(&format!(
                "  {}",
                self.context
                    .err
                    .dim("The connection broke and stands again.")
            ));
        }
    }

    /// The task was handed over and nobody has said a word about it.
    fn unheard(&mut self) {
        if self.context.json || !self.story.is_unheard() || self.story.is_away() {
            return;
        }
        let bridge = match &self.context.config.bridge {
            Some(bridge) if self.latest.thread.execution_binding.endpoint_id != LOCAL => {
                bridge.url.clone()
            }
            _ => "the bridge".to_owned(),
        };
        let way = match self.interrupt {
            Interrupt::Cancels => "Ctrl-C cancels the run",
            Interrupt::Leaves => "Ctrl-C leaves",
        };
        self.screen.say(Say::Note(format!(
            "No answer from {bridge} yet, so it is tried again. {way}."
        )));
    }

    fn silent(&mut self, fault: &Fault) {
        if !self.context.json {
            self.screen.say(Say::Note(fault.message.clone()));
        }
    }

    /// True when it is time to leave.
    async fn interrupted(&mut self, ctrl_c: &mut Signal) -> bool {
        if self.interrupt == Interrupt::Leaves || self.cancelling {
            return true;
        }
        self.cancelling = true;
        let waits = self.story.waits(&self.latest);
        self.given_up = ending::given_up(&self.latest).filter(|_| !waits);
        if !self.context.json {
            self.screen.line(match waits {
                true => "  Dropping the message, which has not begun.",
                false => "  Cancelling the run. Ctrl-C again leaves without waiting for it.",
            });
        }
        // What this command sent, and nothing else: the thread may be busy with another's.
        let params = CancelParams {
            thread: self.latest.thread.thread_id.to_string(),
            request_id: self.story.request().cloned(),
        };
        let asked = tokio::select! {
            asked = self.client.call::<ThreadView>(api::CANCEL, params) => asked,
            _ = ctrl_c.recv() => return true,
        };
        match asked {
            Ok(view) => self.hear(AppEvent::Thread(Box::new(view))),
            // It may have ended by itself meanwhile; what happens is told by its events.
            Err(fault) => self
                .screen
                .line(ending::error(&fault, self.context.err).trim_end()),
        }
        false
    }

    fn left(&self) {
        if reader_gone() {
            return;
        }
        let name = quoted(&self.latest.thread.name);
        if self.context.json {
            return print_json(
                &json!({"event": "detached", "data": {"exitCode": Exit::Detached.number()}}),
            );
        }
        match self.cancelling {
            true => complain!(
                "Left. The run is being cancelled; to see its end: threadline watch {name}"
            ),
            false => complain!("Left. The run goes on; to watch it: threadline watch {name}"),
        }
    }

    /// What came of the turn that was followed; the thread may be busy with another one by now.
    async fn turn(&self) -> Result<TurnView, Fault> {
        match self.story.request() {
            Some(request) if self.latest.thread.turn(request).is_some() => {
                let params = TurnParams {
                    thread: self.latest.thread.thread_id.to_string(),
                    request_id: request.clone(),
                };
                match self.client.call(api::TURN, params).await {
                    // It was deleted while we looked: what was seen last is all there is.
                    Err(fault) if fault.code == Code::ThreadNotFound => {
                        Ok(TurnView::current(self.story.view()))
                    }
                    found => found,
                }
            }
            _ => Ok(TurnView::current(self.story.view())),
        }
    }

    async fn end(mut self, out: Option<Out>) -> Result<Exit, Fault> {
        let context = self.context;
        if self.story.is_dropped(&self.latest) {
            let exit = Exit::Cancelled;
            match context.json {
                true => tell_dropped(exit, &self.latest, self.story.request()),
                false => complain!(
                    "{} The message was dropped before it began. {}",
                    context.err.bad("✗"),
                    ending::goes_on(&self.latest)
                ),
            }
            return Ok(exit);
        }
        let turn = self.turn().await?;
        let view = &self.latest;
        let exit = Exit::of_result(turn.result.result_code, turn.result.artifact_sync_status);
        let copied = out.map_or(Ok(None), |out| out.fill(&turn));
        if let Ok(copied) = &copied {
            self.given.copied.clone_from(copied);
        }
        if context.json {
            tell_end(exit, view, &turn);
        } else {
            let given_up = self.given_up.as_deref().filter(|_| exit == Exit::Cancelled);
            let trouble = match given_up {
                Some(what) => Some(words::sentence(what)),
                None => ending::trouble(&turn, self.story.last_words()),
            };
            let home = context.home.as_deref();
            let summary = ending::summary(view, &turn, &self.given, context.out, home);
            if let Some(trouble) = trouble {
                complain!("{} {trouble}\n", context.err.bad("✗"));
            }
            complain!("{}", ending::warnings(&turn.warnings, context.err));
            self.screen.write(&summary);
        }
        copied.map(|_| exit)
    }
}

/// Lines of standard input, read by a thread of its own: nothing can wake it from a read, and the
/// program does not wait for it.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
