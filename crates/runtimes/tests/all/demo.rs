//! The demonstration, end to end.

use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use threadline_contract::{Step, StepState, context};
use threadline_runtimes::{
    Availability, Readiness, Registry, RuntimeInfo as _, Turns as _, Update,
    builtin::{Found, Looking, Server},
};

use crate::world::{World, completed, files, finish, plan, updates};

const TEXT: &str = "I made notes.md, words.csv and words.svg from your 4 words (3 different). The most frequent is “tea”. With a model configured, I would do what you asked instead.";

fn step(number: u32, title: &str, state: StepState) -> Update {
    Update::Step(Step {
        step_id: format!("demo-{number}"),
        title: title.into(),
        tool: Some("write_file".into()),
        state,
        detail: None,
        duration_ms: (state == StepState::Done).then_some(0),
    })
}

#[tokio::test]
async fn it_names_a_most_frequent_word_only_where_there_is_one() {
    let said = [
        ("one two three", " Each occurs once."),
        ("one one two", " The most frequent is “one”."),
        ("one one two two", ""),
        ("word", ""),
    ];
    for (prompt, most) in said {
        let world = World::new();
        let (_, end) = finish(&world.builtin(), &plan("run-1", prompt)).await;
        let text = end.text.unwrap();
        let told = text.split_once(").").unwrap().1;
        let told =
            told.strip_suffix(" With a model configured, I would do what you asked instead.");
        assert_eq!(told, Some(most), "{text}");
    }
}

#[tokio::test]
async fn the_demonstration_says_so_and_makes_three_files_from_the_users_words() {
    let mut world = World::new();
    world.config.looking = Looking::Told(Found {
        servers: vec![Server {
            name: "Ollama",
            port: 11434,
            models: vec!["qwen3".into()],
        }],
        ..Found::default()
    });
    let builtin = world.builtin();
    let plan = plan(
        "run-1",
        &context::join(["key: t"], "More tea. Tea & <cake>!"),
    );
    let (frames, end) = finish(&builtin, &plan).await;
    use StepState::{Done, Running};
    assert_eq!(
        updates(&frames),
        vec![
            Update::Note("No model is configured, so this is a demonstration: it counts your words and makes three real files from them.".into()),
            Update::Note("Found Ollama on 127.0.0.1:11434. To work with it, set THREADLINE_MODEL_URL=http://127.0.0.1:11434/v1 THREADLINE_MODEL=qwen3 and start again.".into()),
            step(1, "Writing down what you asked", Running),
            step(1, "Wrote notes.md", Done),
            step(2, "Counting the words", Running),
            step(2, "Wrote words.csv", Done),
            step(3, "Drawing the most frequent words", Running),
            step(3, "Wrote words.svg", Done),
            Update::Text(TEXT.into()),
        ]
    );
    assert_eq!(
        end,
        completed(TEXT, &["notes.md", "words.csv", "words.svg"])
    );
    let registry = builtin.ask_registry(&plan.run_ref()).await.unwrap();
    assert_eq!(registry, Registry::Ended(end.clone()));

    let files = files(&builtin, &plan, &end).await;
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["notes.md", "words.csv", "words.svg"]
    );
    assert_eq!(
        files["notes.md"],
        "# Notes\n\nYou wrote:\n\n> More tea. Tea & <cake>!\n\n## Sentence by sentence\n\n\
         1. More tea.\n2. Tea & <cake>!\n\n## Counted\n\n- 2 sentences\n- 4 words, 3 different\n\
         - 23 characters\n- the longest word is “more”\n\n\
         This file comes from the demonstration of Threadline: no model read your words.\n"
    );
    assert_eq!(
        files["words.csv"],
        "word,count,length\r\ntea,2,3\r\ncake,1,4\r\nmore,1,4\r\n"
    );
    assert_eq!(files["words.svg"].matches("class=\"bar\"").count(), 3);
}

#[tokio::test]
async fn the_same_words_give_the_same_bytes() {
    let prompt = "Write a report about lighthouses, with a table of lighthouses.";
    let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
    for _ in 0..2 {
        let world = World::new();
        let builtin = world.builtin();
        let plan = plan("run-1", prompt);
        let (_, end) = finish(&builtin, &plan).await;
        seen.push(files(&builtin, &plan, &end).await);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn a_second_turn_delivers_its_own_files_under_the_same_names() {
    let world = World::new();
    let builtin = world.builtin();
    for (run, prompt) in [("run-1", "one"), ("run-2", "two"), ("run-3", "two")] {
        let plan = plan(run, prompt);
        let (_, end) = finish(&builtin, &plan).await;
        let files = files(&builtin, &plan, &end).await;
        assert_eq!(
            files["words.csv"],
            format!("word,count,length\r\n{prompt},1,3\r\n"),
            "{run}"
        );
    }
}

#[tokio::test]
async fn in_a_folder_of_the_users_own_nothing_of_theirs_is_replaced() {
    let world = World::new();
    let theirs = world.path().join("project");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("notes.md"), "mine").unwrap();
    let builtin = world.builtin();
    let mut plan = plan("run-1", "hello");
    plan.working_directory = Some(theirs.clone());
    let (_, end) = finish(&builtin, &plan).await;
    let files = files(&builtin, &plan, &end).await;
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        [
            "threadline-demo/notes.md",
            "threadline-demo/words.csv",
            "threadline-demo/words.svg"
        ]
    );
    assert_eq!(
        std::fs::read_to_string(theirs.join("notes.md")).unwrap(),
        "mine"
    );
}

#[tokio::test]
async fn it_is_always_available_and_says_what_it_is() {
    let world = World::new();
    assert_eq!(
        world.builtin().probe().await,
        Availability::new(
            Readiness::Demonstration,
            "demonstration only: no model configured",
            None
        )
    );
}
