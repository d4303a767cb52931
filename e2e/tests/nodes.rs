//! Several servers on one PostgreSQL, each with a data folder of its own, and one is killed without a word. Its runs
//! wait for it, whatever works on them: what tells how they stand lies with it. Nothing runs twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should say where"
)]

#[path = "nodes/clients.rs"]
mod clients;

use std::{fs, time::Duration};

use futures_util::future::join_all;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_e2e::{
    gateway::{Gateway, Options},
    postgres::{self, Postgres},
    scripted_model::Model,
    world::{self, World},
};

/// How long a lease holds that nobody renews, and until the other server has looked for such.
const TAKEN_UP: Duration = Duration::from_secs(45);

/// Two servers that know the scripted agent.
fn nodes() -> [World; 2] {
    let server = std::env::var("THREADLINE_TEST_POSTGRES")
        .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server (./dev test starts one)");
    let database = postgres::fresh_database(&server);
    std::array::from_fn(|_| {
        let mut world = World::new();
        let folder = world.path().join("home/.config/threadline");
        fs::create_dir_all(&folder).unwrap();
        let program = env!("CARGO_BIN_EXE_scripted-agent");
        let config = format!("[agents.scripted]\ncommand = [{program:?}]\n");
        fs::write(folder.join("threadline.toml"), config).unwrap();
        world.set("THREADLINE_DATABASE", &database);
        world
    })
}

fn turn(agent: &str, thread: &str, prompt: &str) -> Value {
    let mut turn = World::turn_on(agent, thread, prompt);
    turn["requestId"] = json!(format!("request-{thread}"));
    if agent == "openclaw" {
        turn["routing"] = json!({
            "explicitExecutionTarget": "gateway", "preferredGatewayProviderId": "openclaw",
        });
    }
    turn
}

async fn run_of(world: &World, turn: Value) -> Value {
    let sent = world.rpc("session.start", turn).await;
    let run = sent["result"]["runId"].clone();
    assert!(run.is_string(), "{sent:#}\n{}", world.log());
    run
}

async fn status(world: &World, thread: &str) -> Value {
    let params = json!({"appThreadKey": thread});
    let got = world.rpc("xworkmate.tasks.get", params).await;
    got["result"]["status"].clone()
}

/// The other server starts nothing in place of a killed one's runs: not when a request comes again, and not when
/// their leases have run out.
async fn leaves(second: &World, agent: &str, runs: &[Value], prompt: impl Fn(usize) -> String) {
    let begun = std::time::Instant::now();
    while begun.elapsed() < TAKEN_UP {
        for (n, run) in runs.iter().enumerate() {
            let thread = format!("draft:{n}");
            let again = run_of(second, turn(agent, &thread, &prompt(n))).await;
            assert_eq!(
                (&again, status(second, &thread).await),
                (run, json!("running"))
            );
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// One end, and a log without a gap or a twin.
async fn ended_once(world: &World, thread: &str) {
    let events = world.events(thread).await;
    let ids: Vec<i64> = events.iter().map(|e| e["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
    let ends = events
        .iter()
        .filter(|e| e["update"]["event"] == json!("task.ended"));
    assert_eq!(ends.count(), 1, "{events:#?}");
}

#[tokio::test]
async fn runs_on_a_killed_node_wait_for_it_on_postgres() {
    let [mut first, mut second] = nodes();
    first.start().await;
    second.start().await;
    let witness = first.path().join("witness");
    fs::create_dir_all(&witness).unwrap();
    let prompt = |n: usize| {
        let seen = format!("[[shell echo {n} >> {}/{n}]]", witness.display());
        format!(
            "{seen} [[sleep 3000]] [[shell echo over >> {}/{n}]] [[say number {n}]]",
            witness.display()
        )
    };
    let mut runs = Vec::new();
    for n in 0..3 {
        let turn = turn("scripted", &format!("draft:{n}"), &prompt(n));
        runs.push(run_of(&first, turn).await);
    }
    while (0..3).any(|n| !witness.join(n.to_string()).exists()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.kill();
    // The agents' hosts work on.
    leaves(&second, "scripted", &runs, prompt).await;
    // It takes work of its own meanwhile.
    run_of(&second, turn("scripted", "draft:own", "[[say mine]]")).await;
    let own = second.ended("draft:own").await;
    assert_eq!(own["status"], json!("completed"), "{own:#}");
    first.start().await;
    for n in 0..3 {
        let thread = format!("draft:{n}");
        let ended = first.ended(&thread).await;
        assert_eq!(
            (&ended["status"], &ended["text"]),
            (&json!("completed"), &json!(format!("number {n}"))),
            "{ended:#}"
        );
        assert_eq!(status(&second, &thread).await, json!("completed"));
        ended_once(&second, &thread).await;
        let seen = fs::read_to_string(witness.join(n.to_string())).unwrap();
        assert_eq!(seen, format!("{n}\nover\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_on_a_gateway_wait_for_their_node_on_postgres() {
    let model = Model::start().await;
    let options = Options::with_our_plugin(model.v1(), &world::binary(), &json!({}));
    let Some(gateway) = Gateway::start(&options).await else {
        return;
    };
    let [mut first, mut second] = nodes();
    for world in [&mut first, &mut second] {
        world.set("THREADLINE_OPENCLAW_URL", &gateway.url());
        world.set("THREADLINE_OPENCLAW_TOKEN", gateway.token());
        world.start().await;
    }
    let prompt = |n: usize| format!("[[sleep 8000]] [[say number {n} is done.]]");
    let mut runs = Vec::new();
    for n in 0..2 {
        let turn = turn("openclaw", &format!("draft:{n}"), &prompt(n));
        runs.push(run_of(&first, turn).await);
    }
    let begun = std::time::Instant::now();
    while model.seen.open() < 2 {
        assert!(begun.elapsed() < 2 * TAKEN_UP, "{}", first.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    first.kill();
    // The gateway works on. What was sent to it is known to the killed server alone.
    leaves(&second, "openclaw", &runs, prompt).await;
    first.start().await;
    for (n, run) in runs.iter().enumerate() {
        let thread = format!("draft:{n}");
        let ended = first.ended_within(&thread, 2 * TAKEN_UP).await;
        let words = format!("number {n} is done.");
        assert_eq!(
            (&ended["runId"], &ended["status"], &ended["text"]),
            (run, &json!("completed"), &json!(words)),
            "{ended:#}\n{}",
            first.log()
        );
        assert_eq!(status(&second, &thread).await, json!("completed"));
        ended_once(&second, &thread).await;
        let prompts = model.seen.prompts();
        let ran = prompts.iter().filter(|prompt| prompt.contains(&words));
        assert_eq!(ran.count(), 1, "{prompts:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_on_an_empty_postgres_all_start() {
    let server = std::env::var("THREADLINE_TEST_POSTGRES")
        .expect("THREADLINE_TEST_POSTGRES names a PostgreSQL server (./dev test starts one)");
    for round in 0..3 {
        let database = postgres::fresh_database(&server);
        let token = format!("token-that-all-share-{round}");
        let mut worlds: Vec<World> = (0..6).map(|_| World::new()).collect();
        for world in &mut worlds {
            world.set("THREADLINE_DATABASE", &database);
            world.set("THREADLINE_TOKEN", &token);
        }
        join_all(worlds.iter_mut().map(World::start)).await;
        for world in &worlds {
            let asked = world.http.get(format!("{}/api/ping", world.url));
            let answer = asked.bearer_auth(&token).send().await.unwrap();
            assert_eq!(answer.status(), 200, "{}", world.log());
        }
    }
}

/// Two servers that know where the other is, on a database of their own.
async fn pair(database: &Postgres, model: &Model) -> [World; 2] {
    let mut worlds = [World::new(), World::new()];
    for world in &mut worlds {
        let address = format!("127.0.0.1:{}", postgres::free_port());
        world.set("THREADLINE_DATABASE", &database.url());
        world.set("THREADLINE_LISTEN", &address);
        world.set("THREADLINE_ADVERTISE", &format!("http://{address}"));
        world.set("THREADLINE_MODEL_URL", &model.v1());
        world.set("THREADLINE_MODEL", "scripted");
        world.set("THREADLINE_BUILTIN_MAX_ACTIVE", "30");
        world.set("THREADLINE_BUILTIN_MAX_QUEUED", "1000");
        world.start().await;
    }
    worlds
}

/// Clients send each turn to either server, ask either how it stands, and try again what did not come through,
/// while both servers and the database are killed under them.
#[tokio::test(flavor = "multi_thread")]
async fn clients_at_either_server_lose_nothing_through_kills_on_postgres() {
    const THREADS: usize = 30;
    const TURNS: usize = 7;
    let model = Model::start().await;
    let mut database = Postgres::start().await;
    let [mut a, mut b] = pair(&database, &model).await;
    let clients = clients::Clients::new(&[&a, &b]);
    let working = join_all((0..THREADS).map(|n| tokio::spawn(clients.clone().work(n, TURNS))));
    let mut working = std::pin::pin!(working);
    for kill in 0..4 {
        let pause = tokio::time::sleep(Duration::from_millis(1000));
        tokio::select! {
            _ = &mut working => panic!("there was nothing left to kill: {kill}"),
            () = pause => {}
        }
        match kill {
            0 | 3 => {
                a.kill();
                a.start().await;
            }
            1 => {
                b.kill();
                b.start().await;
            }
            _ => database.cut(Duration::from_millis(300)).await,
        }
    }
    for (n, ended) in working.await.into_iter().enumerate() {
        let runs = ended.unwrap();
        let thread = clients::thread(n);
        // What both servers tell is the same, and stays so.
        for world in [&a, &b] {
            assert_eq!(
                clients::told(world, &thread, &runs).await,
                clients::wanted(&runs)
            );
            let events = world.events(&thread).await;
            let ids: Vec<i64> = events.iter().map(|e| e["id"].as_i64().unwrap()).collect();
            assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
            let ended: Vec<&Value> = events
                .iter()
                .filter(|e| e["update"]["event"] == json!("task.ended"))
                .map(|e| &e["update"]["runId"])
                .collect();
            assert_eq!(ended, runs.iter().collect::<Vec<_>>(), "{thread}");
        }
        // One folder, at one of them.
        let folder = format!("data/tasks/builtin-main-{}/work", thread.replace(':', "-"));
        let there = [&a, &b].map(|world| world.path().join(&folder).exists());
        assert_eq!(there.iter().filter(|there| **there).count(), 1, "{thread}");
    }
}
