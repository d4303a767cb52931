//! Lives of a run: killed anywhere, it goes on, and nothing is lost, doubled or done twice.

use std::{collections::BTreeMap, path::Path};

use pretty_assertions::assert_eq;
use threadline_contract::{EmptyReason, OmitReason, Omitted, Step, StepState};
use threadline_runtimes::{
    End, EndStatus, Files as _, Frame, Logged, Signal, TurnPlan, Turns as _, Update,
    builtin::Builtin,
};

use crate::world::{World, begin, completed, files, finish, plan, rest, signal, updates};

const SCRIPT: &str = "[[say First the report.]] [[also write reports/final.md 3000]] [[ask Which colour?|red|blue]] [[write a.txt = two]] [[also write b.txt = three]] [[say It is {last}]]";

/// Follows a run after a frame, answering what it asks, until its end or until so many more frames
/// were seen. Gives everything seen, this life's frames included.
async fn live(
    builtin: &Builtin,
    plan: &TurnPlan,
    seen: &mut Vec<Frame>,
    most: usize,
) -> Option<End> {
    let after = seen.last().map_or(0, |f| f.no);
    // A question that an earlier life asked waits under the same id.
    let asked = seen.iter().rev().find_map(question);
    if let Some(id) = asked {
        builtin
            .answer(&plan.run_ref(), &id, Some("red"))
            .await
            .unwrap();
    }
    let mut follow = builtin
        .follow(&plan.run_ref(), Logged::up_to(after))
        .await
        .unwrap();
    for _ in 0..most {
        match signal(&mut follow).await.expect("an end or a frame") {
            Signal::End(end) => return Some(end),
            Signal::Frame(frame) => {
                let asked = question(&frame);
                seen.push(frame);
                if let Some(id) = asked
                    && seen.len() < most
                {
                    builtin
                        .answer(&plan.run_ref(), &id, Some("red"))
                        .await
                        .unwrap();
                }
            }
        }
    }
    None
}

fn question(frame: &Frame) -> Option<threadline_contract::QuestionId> {
    match &frame.update {
        Update::Asked(ask) => Some(ask.id.clone()),
        _ => None,
    }
}

/// Frames without what a restart adds, and questions without their ids.
fn told(frames: &[Frame]) -> Vec<Update> {
    let note = Update::Note("Resumed after a restart.".into());
    let mut all = updates(frames);
    all.retain(|u| *u != note);
    for update in &mut all {
        if let Update::Asked(ask) = update {
            ask.id = threadline_contract::QuestionId::new("q").unwrap();
        }
    }
    all
}

/// What a follower shows of the text.
fn text(frames: &[Frame]) -> String {
    let mut shown = String::new();
    for frame in frames {
        match &frame.update {
            Update::Text(text) => shown.push_str(text),
            Update::Reset { keep } => {
                shown = shown
                    .chars()
                    .take(usize::try_from(*keep).unwrap())
                    .collect();
            }
            _ => {}
        }
    }
    shown
}

fn numbered_once(frames: &[Frame]) {
    let numbers: Vec<i64> = frames.iter().map(|f| f.no).collect();
    assert_eq!(numbers, (1..=frames.len() as i64).collect::<Vec<_>>());
}

/// A run that nobody disturbed.
async fn undisturbed(
    world: &World,
    plan: &TurnPlan,
) -> (Vec<Frame>, End, BTreeMap<String, String>) {
    let builtin = world.builtin();
    drop(begin(&builtin, plan).await);
    let mut frames = Vec::new();
    let end = live(&builtin, plan, &mut frames, usize::MAX).await.unwrap();
    let files = files(&builtin, plan, &end).await;
    (frames, end, files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_frame_a_run_ends_as_if_nothing_had_happened() {
    let world = World::with_model("scripted").await;
    let plan = plan("run-1", SCRIPT);
    let (frames, end, made) = undisturbed(&world, &plan).await;
    for kill_after in 0..frames.len() {
        let world = World::with_model("scripted").await;
        let mut seen = Vec::new();
        let first = world.builtin();
        drop(begin(&first, &plan).await);
        let early = live(&first, &plan, &mut seen, kill_after).await;
        drop(first);
        let second = world.builtin();
        let last = match early {
            Some(end) => end,
            None => live(&second, &plan, &mut seen, usize::MAX).await.unwrap(),
        };
        numbered_once(&seen);
        assert_eq!(last, end, "killed after {kill_after}");
        assert_eq!(
            files(&second, &plan, &last).await,
            made,
            "killed after {kill_after}"
        );
        // A message that was cut is taken back and told again; everything else is told once.
        assert_eq!(text(&seen), text(&frames), "killed after {kill_after}");
        let (before, after) = (told(&frames), told(&seen));
        let not_text = |u: &&Update| !matches!(u, Update::Text(_) | Update::Reset { .. });
        let before: Vec<_> = before.iter().filter(not_text).collect();
        let after: Vec<_> = after.iter().filter(not_text).collect();
        assert_eq!(after, before, "killed after {kill_after}");
    }
}

/// Every prefix of a journal is what a kill could have left, with the effects of what follows done
/// or not.
fn prefixes(journal: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(journal).unwrap();
    let ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
    let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
    let mut all = Vec::new();
    for end in ends {
        all.push(bytes[..end].to_vec());
        // The next line was on its way.
        all.push(bytes[..(end + 9).min(bytes.len())].to_vec());
    }
    all
}

async fn every_prefix_goes_on(world: World, plan: TurnPlan) {
    let (frames, end, made) = undisturbed(&world, &plan).await;
    let journal = world.journal(&plan);
    for prefix in prefixes(&journal) {
        std::fs::write(&journal, &prefix).unwrap();
        let builtin = world.builtin();
        let mut seen = Vec::new();
        // What an earlier life told is told again to who asks from the beginning.
        let last = live(&builtin, &plan, &mut seen, usize::MAX).await.unwrap();
        numbered_once(&seen);
        assert_eq!(last, end, "{} bytes", prefix.len());
        assert_eq!(text(&seen), text(&frames), "{} bytes", prefix.len());
        assert_eq!(
            files(&builtin, &plan, &last).await,
            made,
            "{} bytes",
            prefix.len()
        );
        let (again, same) = rest(
            builtin
                .follow(&plan.run_ref(), Logged::up_to(0))
                .await
                .unwrap(),
        )
        .await;
        assert_eq!((again, same), (seen, Some(last)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_prefix_of_a_journal_goes_on_to_the_same_end() {
    let world = World::with_model("scripted").await;
    every_prefix_goes_on(world, plan("run-1", SCRIPT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_prefix_of_a_demonstration_goes_on_to_the_same_end() {
    every_prefix_goes_on(World::new(), plan("run-1", "More tea. Tea & cake!")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_demonstration_shows_every_scene_once_over_many_lives() {
    let world = World::new();
    let plan = plan("run-1", "More tea");
    let (frames, end, _) = undisturbed(&world, &plan).await;
    let world = World::new();
    let builtin = world.builtin();
    drop(begin(&builtin, &plan).await);
    drop(builtin);
    let mut seen = Vec::new();
    let mut lives = 0;
    let last = loop {
        lives += 1;
        let builtin = world.builtin();
        if let Some(end) = live(&builtin, &plan, &mut seen, 2).await {
            break end;
        }
        builtin.stop().await;
        assert!(lives < 100);
    };
    numbered_once(&seen);
    assert_eq!((told(&seen), last), (told(&frames), end));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_may_have_happened_is_not_made_twice() {
    let world = World::with_model("no-usage").await;
    let plan = plan(
        "run-1",
        "[[write a.md = one]] [[edit a.md|one|one one]] [[say {last}]]",
    );
    let (frames, end) = finish(&world.builtin(), &plan).await;
    assert_eq!(end, completed("Edited a.md (now 7 bytes).", &["a.md"]));
    // Killed after the edit began: the line with its result never made it.
    let journal = world.journal(&plan);
    let bytes = std::fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let began = lines
        .iter()
        .rposition(|l| String::from_utf8_lossy(l).contains("\"running\""));
    std::fs::write(&journal, lines[..=began.unwrap()].concat()).unwrap();
    let builtin = world.builtin();
    let (again, end) = rest(
        builtin
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    let sentence = "This call was interrupted by a restart, so it is not known whether it took effect. Read the file before you go on.";
    let end = end.unwrap();
    assert_eq!(end, completed(sentence, &["a.md"]));
    assert_eq!(again[..3], frames[..3]);
    assert_eq!(
        updates(&again[3..]),
        [
            Update::Note("Resumed after a restart.".into()),
            Update::Step(Step {
                step_id: "call-2-1".into(),
                title: "Edited a.md".into(),
                tool: Some("edit_file".into()),
                state: StepState::Failed,
                detail: Some("Interrupted by a restart.".into()),
                duration_ms: Some(0),
            }),
            Update::Text(sentence.into()),
        ]
    );
    assert_eq!(files(&builtin, &plan, &end).await["a.md"], "one one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_power_cut_took_from_the_journal_is_neither_lost_nor_doubled() {
    let world = World::with_model("no-usage").await;
    let plan = plan(
        "run-1",
        "[[slow 60]] [[say one two three four five six seven]]",
    );
    let first = world.builtin();
    drop(begin(&first, &plan).await);
    let mut seen = Vec::new();
    assert_eq!(live(&first, &plan, &mut seen, 3).await, None);
    first.stop().await;
    // Text is not synced one by one: its last lines were told, but never reached the disk.
    let journal = world.journal(&plan);
    let bytes = std::fs::read(&journal).unwrap();
    let lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    std::fs::write(&journal, lines[..2].concat()).unwrap();

    let second = world.builtin();
    let end = live(&second, &plan, &mut seen, usize::MAX).await;
    assert_eq!(
        end,
        Some(completed("one two three four five six seven", &[]))
    );
    numbered_once(&seen);
    assert_eq!(text(&seen), "one two three four five six seven");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_runtime_leaves_its_runs_to_the_next() {
    let world = World::with_model("no-usage").await;
    let plan = plan("run-1", "[[write a.md = x]] [[sleep 200]] [[say done]]");
    let first = world.builtin();
    let follow = begin(&first, &plan).await;
    first.stop().await;
    assert_eq!(rest(follow).await.1, None);
    // The same one can go on, too.
    let (_, end) = rest(
        first
            .follow(&plan.run_ref(), Logged::up_to(0))
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(end.map(|e| e.status), Some(EndStatus::Completed));
}

#[tokio::test]
async fn what_was_shown_is_the_result() {
    let world = World::with_model("no-usage").await;
    let builtin = world.builtin();
    let mut plan = plan(
        "run-1",
        "[[read in.txt]] [[say {last}]] [[also list]] [[read in.txt]] [[say {last}]]",
    );
    let own = world.path().join("project");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("in.txt"), " \n two  words \n\n ").unwrap();
    plan.working_directory = Some(own);
    let (frames, end) = finish(&builtin, &plan).await;
    let result = end.text.unwrap();
    assert!(result.contains("two  words"), "{result:?}");
    assert_eq!(text(&frames), result);
}

#[tokio::test]
async fn files_that_somebody_took_away_are_named() {
    for link in [false, true] {
        let world = World::with_model("no-usage").await;
        let plan = plan(
            "run-1",
            "[[write a/one.md = x]] [[write two.md = y]] [[ask Go on?]] [[say done]]",
        );
        let first = world.builtin();
        let places = first.prepare(&plan).await.unwrap();
        let mut follow = begin(&first, &plan).await;
        let id = crate::world::until(&mut follow, |update| match update {
            Update::Asked(ask) => Some(ask.id.clone()),
            _ => None,
        })
        .await;
        first.stop().await;
        std::fs::remove_dir_all(&places.work_folder).unwrap();
        if link {
            let elsewhere = world.path().join("elsewhere");
            std::fs::create_dir(&elsewhere).unwrap();
            std::os::unix::fs::symlink(&elsewhere, &places.work_folder).unwrap();
        }
        let second = world.builtin();
        second
            .answer(&plan.run_ref(), &id, Some("yes"))
            .await
            .unwrap();
        let (_, end) = rest(
            second
                .follow(&plan.run_ref(), Logged::up_to(0))
                .await
                .unwrap(),
        )
        .await;
        let end = end.unwrap();
        assert_eq!(end.wrote, ["a/one.md", "two.md"]);
        let manifest = second.collect(&plan, &end).await.unwrap();
        let gone = |path: &str| Omitted {
            path: path.into(),
            reason: OmitReason::Vanished,
        };
        assert_eq!(
            (manifest.artifacts, manifest.omitted, manifest.empty_reason),
            (
                vec![].into(),
                vec![gone("a/one.md"), gone("two.md")],
                Some(EmptyReason::AllOmitted)
            )
        );
    }
}
