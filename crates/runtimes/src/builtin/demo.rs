//! The demonstration: what runs when no model is configured. It makes three real files from the
//! user's own words, the same bytes for the same words, and goes on after a kill at the scene it had
//! reached.

mod chart;
mod notes;
mod words;

use std::{path::PathBuf, sync::Arc, time::Instant};

use threadline_contract::{Fault, Step, StepState};
use threadline_files::{Access, Durability, Root};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;

use self::words::Words;
use super::{
    config::BuiltinConfig,
    past::{Begun, Fact, Said},
    prompt::own_words,
    work::{Record, Stop, unless},
};
use crate::{TurnPlan, Update, local::storage_fault};

const PLAIN: &str = "No model is configured, so this is a demonstration: it counts your words and makes three real files from them.";
/// In a folder of the user's own, the demonstration keeps to itself.
const APART: &str = "threadline-demo";

/// One file of the demonstration.
struct Scene {
    name: &'static str,
    begins: &'static str,
    make: fn(&Words<'_>) -> String,
}

const SCENES: [Scene; 3] = [
    Scene {
        name: "notes.md",
        begins: "Writing down what you asked",
        make: notes::notes,
    },
    Scene {
        name: "words.csv",
        begins: "Counting the words",
        make: notes::table,
    },
    Scene {
        name: "words.svg",
        begins: "Drawing the most frequent words",
        make: chart::chart,
    },
];

/// Plays what was not played yet.
pub(super) async fn play(
    config: &BuiltinConfig,
    record: &Arc<Record>,
    begun: &Begun,
    cancel: &CancellationToken,
) -> Result<(), Stop> {
    let mut stage = Stage {
        record,
        played: record.look(|past| past.scenes),
        at: 0,
    };
    if record.look(|past| !past.said.is_empty()) {
        return Ok(());
    }
    stage.note(|| async { PLAIN.to_owned() }).await?;
    let look = || async { config.looking.look().await.line() };
    unless(cancel, stage.note(look)).await??;
    for (index, scene) in SCENES.iter().enumerate() {
        let file = match begun.plan.working_directory {
            Some(_) => format!("{APART}/{}", scene.name),
            None => scene.name.to_owned(),
        };
        let step = |state, title: &str, took: Option<Instant>| Step {
            step_id: format!("demo-{}", index + 1),
            title: title.to_owned(),
            tool: Some("write_file".into()),
            state,
            detail: None,
            duration_ms: took.map(|t| i64::try_from(t.elapsed().as_millis()).unwrap_or(i64::MAX)),
        };
        if stage.is_next() {
            unless(cancel, sleep(config.pause)).await?;
            let running = step(StepState::Running, scene.begins, None);
            stage.show(running, None).await?;
        }
        if stage.is_next() {
            unless(cancel, sleep(config.pause)).await?;
            let since = Instant::now();
            let words = own_words(&begun.plan.prompt).to_owned();
            let made = move || (scene.make)(&Words::of(&words));
            write(begun.places.work_folder.clone(), file.clone(), made).await?;
            let done = step(StepState::Done, &format!("Wrote {file}"), Some(since));
            stage.show(done, Some(file)).await?;
        }
    }
    let text = summary(&begun.plan);
    let said = Said {
        text: text.clone(),
        ..Said::default()
    };
    let fact = Some(Fact::Said(said));
    record
        .frame(Update::Text(text), fact, Durability::Now)
        .await?;
    Ok(())
}

fn summary(plan: &TurnPlan) -> String {
    let words = Words::of(own_words(&plan.prompt));
    let folder = match plan.working_directory {
        Some(_) => format!(" in {APART}"),
        None => String::new(),
    };
    let most = match words.counted.as_slice() {
        [most, next, ..] if most.count > next.count => {
            format!(" The most frequent is “{}”.", most.word)
        }
        [first, _, ..] if first.count == 1 => " Each occurs once.".to_owned(),
        _ => String::new(),
    };
    format!(
        "I made notes.md, words.csv and words.svg{folder} from your {} ({} different).{most} \
         With a model configured, I would do what you asked instead.",
        words::several(words.total, "word"),
        words.counted.len()
    )
}

/// Counts the frames of the demonstration, so that each is played once over all lives of the run.
struct Stage<'a> {
    record: &'a Arc<Record>,
    played: u32,
    at: u32,
}

impl Stage<'_> {
    /// Whether the next frame is to be played; one that was played already is passed over.
    fn is_next(&mut self) -> bool {
        self.at += 1;
        self.at > self.played
    }

    async fn note<F: Future<Output = String>>(
        &mut self,
        text: impl FnOnce() -> F,
    ) -> Result<(), Fault> {
        if !self.is_next() {
            return Ok(());
        }
        let update = Update::Note(text().await);
        self.play(update, None).await
    }

    async fn show(&mut self, step: Step, wrote: Option<String>) -> Result<(), Fault> {
        self.play(Update::Step(step), wrote).await
    }

    async fn play(&self, update: Update, wrote: Option<String>) -> Result<(), Fault> {
        let durability = match wrote {
            Some(_) => Durability::Now,
            None => Durability::Later,
        };
        let no = self.at - 1;
        let fact = Fact::Scene { no, wrote };
        self.record.frame(update, Some(fact), durability).await
    }
}

async fn write(
    folder: PathBuf,
    file: String,
    make: impl FnOnce() -> String + Send + 'static,
) -> Result<(), Fault> {
    let written = spawn_blocking(move || {
        let root = Root::open(folder)?;
        if let Some((above, _)) = file.rsplit_once('/') {
            root.create_dir_all(above, Access::Shared)?;
        }
        root.write_atomic(&file, make().as_bytes(), Access::Shared)
    });
    match written.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(e)) => Err(storage_fault(e)),
        Err(e) => {
            tracing::error!(error = %e, "the demonstration broke");
            Err(Fault::internal())
        }
    }
}
