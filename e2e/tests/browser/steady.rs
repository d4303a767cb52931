//! What has just moved cannot be meant: no key and no click gives a permission or stops a run by accident.

use std::{
    fs,
    time::{Duration, Instant},
};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::{
    up::Up,
    window::{Window, browse},
};

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";

/// Every key that does something on a page or to what has the focus there, except those that leave the page
/// and Tab, which walks to a button on purpose.
const KEYS: [&str; 18] = [
    "1",
    "2",
    "3",
    "4",
    "5",
    "6",
    "7",
    "8",
    "9",
    ".",
    "j",
    "k",
    "y",
    "a",
    " ",
    "Enter",
    "Escape",
    "ArrowDown",
];

impl Up {
    /// With the scripted model, and an agent that asks before it writes.
    async fn with_asking_agent() -> Self {
        Self::with_model_and(|world| {
            let folder = world.path().join("home/.config/threadline");
            fs::create_dir_all(&folder).unwrap();
            let program = env!("CARGO_BIN_EXE_scripted-agent");
            let config = format!("[agents.scripted]\ncommand = [{program:?}]\nmax_active = 20\n");
            fs::write(folder.join("threadline.toml"), config).unwrap();
        })
        .await
    }

    /// Asks something; gives the question.
    async fn asks(&self, text: &str) -> Value {
        let prompt = format!("[[ask {text}|red|blue]] [[say ok]]");
        let sent = self
            .app("app.send", json!({"prompt": prompt, "runtime": "builtin"}))
            .await;
        self.question_of(&sent).await
    }

    /// Asks for a permission; gives the question.
    async fn wants(&self, file: &str) -> Value {
        let prompt = format!("[[write {file} = x]] [[say ok]]");
        let sent = self
            .app(
                "app.send",
                json!({"prompt": prompt, "runtime": "acp:scripted"}),
            )
            .await;
        self.question_of(&sent).await
    }

    async fn question_of(&self, sent: &Value) -> Value {
        let name = &sent["thread"]["name"];
        let begun = Instant::now();
        loop {
            let view = self.app("app.show", json!({"thread": name})).await;
            if let Some(question) = view["questions"].get(0) {
                return question.clone();
            }
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{view:#}\n{}",
                self.world.log()
            );
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Answers it as another window or the command line would.
    async fn answers_elsewhere(&self, question: &Value) {
        let answer = json!({"questionId": question["questionId"], "optionId": question["options"][0]["optionId"]});
        // A key that was meant for this one may have answered it already.
        self.world.app("app.answer", answer).await;
    }

    /// The ids of the permissions that still wait.
    async fn open_permissions(&self) -> Vec<Value> {
        let home = self.app("app.home", json!({})).await;
        let questions = home["questions"].as_array().unwrap().iter();
        let mut open: Vec<Value> = questions
            .filter(|question| question["kind"] == "permission")
            .map(|question| question["questionId"].clone())
            .collect();
        open.sort_by_key(Value::to_string);
        open
    }
}

fn card(question: &Value) -> String {
    format!("#q-{}", question["questionId"].as_str().unwrap())
}

/// The case that was found: the question above is answered elsewhere, and the next one moves under the key.
#[tokio::test]
async fn browser_answers_only_the_chosen_question_with_a_number() {
    let up = Up::with_asking_agent().await;
    browse(up, |w, up| async move {
        w.enter().await;
        for (number, wait) in [100, 400, 700, 1000, 1300].into_iter().enumerate() {
            let first = up.asks(&format!("Which {number}?")).await;
            let wanted = up.wants(&format!("f{number}.txt")).await;
            w.until(&format!("document.querySelector({:?})", card(&wanted)))
                .await;
            w.hit("j").await;
            tokio::time::sleep(Duration::from_millis(1_600)).await;
            up.answers_elsewhere(&first).await;
            tokio::time::sleep(Duration::from_millis(wait)).await;
            w.hit("1").await;
            w.hit("2").await;
            w.until(&format!("!document.querySelector({:?})", card(&first)))
                .await;
            w.hit("1").await;
            w.hit("2").await;
            // Chosen, and nothing moves any more: a permission still has no number.
            w.hit("j").await;
            tokio::time::sleep(Duration::from_millis(1_600)).await;
            w.hit("1").await;
            w.hit("2").await;
            assert_eq!(
                up.open_permissions().await,
                [wanted["questionId"].clone()],
                "after {wait} ms"
            );
            up.app(
                "app.answer",
                json!({"questionId": wanted["questionId"], "optionId": "no"}),
            )
            .await;
            w.until("!document.querySelector('[data-card]')").await;
        }
        // A question that was chosen is answered by its number.
        let asked = up.asks("Which colour?").await;
        w.until(&format!("document.querySelector({:?})", card(&asked)))
            .await;
        w.hit("2").await;
        w.hit("j").await;
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        w.hit("2").await;
        w.until("!document.querySelector('[data-card]')").await;
    })
    .await;
}

/// Fifty times every key, at any moment, while questions come and go above what must not be given.
#[tokio::test]
async fn browser_gives_and_cancels_nothing_by_accident() {
    let up = Up::with_asking_agent().await;
    let hangs = up
        .send("[[write a.txt = one]] [[hang]] [[say never]]")
        .await;
    let mut wanted = [up.wants("one.txt").await, up.wants("two.txt").await];
    wanted.sort_by_key(|question| question["questionId"].to_string());
    let ids: Vec<Value> = wanted.iter().map(|q| q["questionId"].clone()).collect();
    let thread = wanted[0]["threadId"].as_str().unwrap().to_owned();
    browse(up, |w, up| async move {
        w.enter().await;
        let of = up.app("app.show", json!({"thread": thread})).await;
        let asking = format!("/threads/{}", of["thread"]["name"].as_str().unwrap());
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for page in [
            "/",
            "/operator",
            asking.as_str(),
            &format!("/threads/{hangs}"),
        ] {
            w.go(page).await;
            let mut order: Vec<&str> = KEYS.iter().flat_map(|key| [*key; 50]).collect();
            shuffle(&mut order, &mut random);
            let mut above = Vec::new();
            for (number, keys) in order.chunks(6).enumerate() {
                if number % 12 == 0 {
                    above.push(up.asks(&format!("Which {number}?")).await);
                } else if number % 12 == 6
                    && let Some(question) = above.pop()
                {
                    up.answers_elsewhere(&question).await;
                }
                for key in keys {
                    w.hit(key).await;
                }
                tokio::time::sleep(Duration::from_millis(next(&mut random) % 40)).await;
            }
            for question in above {
                up.answers_elsewhere(&question).await;
            }
            assert_eq!(up.open_permissions().await, ids, "on {page}");
            let view = up.app("app.show", json!({"thread": hangs})).await;
            assert_eq!(
                view["thread"]["lifecycleState"]["status"], "running",
                "on {page}"
            );
        }
    })
    .await;
}

/// A page that was just opened has not changed under anybody.
#[tokio::test]
async fn browser_drops_a_waiting_message_right_after_its_page_was_opened() {
    let up = Up::with_asking_agent().await;
    let hangs = up
        .send("[[write a.txt = one]] [[write b.txt = two]] [[hang]] [[say never]]")
        .await;
    browse(up, |w, up| async move {
        w.enter().await;
        for number in 0..3 {
            let prompt = format!("Wait {number}");
            up.app("app.send", json!({"thread": hangs, "prompt": prompt}))
                .await;
            w.go(&format!("/threads/{hangs}")).await;
            // The steps above it push it down when they are drawn.
            w.until("document.querySelector('.work').childElementCount > 0")
                .await;
            w.js("[...document.querySelectorAll('.waits button')].find((b) => b.innerText.trim() === 'Drop').click()")
                .await;
            w.until("!document.querySelector('.waits')").await;
            let queue = up.app("app.queue.list", json!({})).await;
            assert_eq!(queue["turns"], json!([]), "{number}");
        }
    })
    .await;
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

fn shuffle(order: &mut [&str], random: &mut u64) {
    for at in (1..order.len()).rev() {
        let other = usize::try_from(next(random) % (at as u64 + 1)).unwrap();
        order.swap(at, other);
    }
}

/// Presses the mouse where it is, whatever lies there by now.
async fn press_at(w: &Window, at: &Value) {
    for kind in ["mousePressed", "mouseReleased"] {
        let event =
            json!({"type": kind, "x": at[0], "y": at[1], "button": "left", "clickCount": 1});
        w.cdp("Input.dispatchMouseEvent", event).await;
    }
}

#[tokio::test]
async fn browser_holds_a_button_that_moved_under_the_pointer() {
    let up = Up::with_asking_agent().await;
    browse(up, |w, up| async move {
        w.enter().await;
        let first = up.asks("Which?").await;
        let wanted = up.wants("f.txt").await;
        w.until(&format!("document.querySelector({:?})", card(&wanted))).await;
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        up.answers_elsewhere(&first).await;
        w.until(&format!("!document.querySelector({:?})", card(&first))).await;
        // Where the permission's first button has come to lie.
        let middle = "(() => { const r = document.querySelector('[data-grants]').getBoundingClientRect(); \
                      return [r.x + r.width / 2, r.y + r.height / 2]; })()";
        let at = w.js(middle).await;
        for _ in 0..3 {
            press_at(&w, &at).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(up.open_permissions().await, [wanted["questionId"].clone()]);
        w.until("!document.querySelector('[data-settling]')").await;
        press_at(&w, &w.js(middle).await).await;
        w.until("!document.querySelector('[data-card]')").await;
        assert_eq!(up.open_permissions().await, Vec::<Value>::new());
    })
    .await;
}

#[tokio::test]
async fn browser_asks_once_more_before_a_key_gives_a_permission_or_stops_a_run() {
    let up = Up::with_asking_agent().await;
    let wanted = up.wants("f.txt").await;
    let hangs = up.send("[[hang]] [[say never]]").await;
    browse(up, |w, up| async move {
        w.enter().await;
        w.until(&format!("document.querySelector({:?})", card(&wanted)))
            .await;
        w.js("document.querySelector('[data-grants]').focus()")
            .await;
        w.keys(ENTER).await;
        w.sees("#sure[open] h2", "Yes").await;
        // The way back has the focus.
        w.keys(ENTER).await;
        w.until("!document.querySelector('#sure[open]')").await;
        assert_eq!(up.open_permissions().await, [wanted["questionId"].clone()]);
        w.js("document.querySelector('[data-grants]').focus()")
            .await;
        w.keys(ENTER).await;
        w.click("#sure .danger").await;
        w.until("!document.querySelector('[data-card]')").await;

        w.go(&format!("/threads/{hangs}")).await;
        w.sees("#head .state", "working").await;
        for back in [ENTER, ESCAPE, "."] {
            w.js("document.activeElement.blur()").await;
            w.keys(".").await;
            w.sees("#sure[open] h2", "Cancel this run?").await;
            w.keys(back).await;
            if back == "." {
                w.press("Let it run").await;
            }
            w.until("!document.querySelector('#sure[open]')").await;
        }
        w.sees("#head .state", "working").await;
        w.js("document.activeElement.blur()").await;
        w.keys(".").await;
        w.click("#sure .danger").await;
        w.sees("#head .state", "cancelled").await;

        // A run that ends while it is asked about takes the question away.
        let soon = up.send("[[sleep 3000]] [[say done]]").await;
        w.go(&format!("/threads/{soon}")).await;
        w.keys(".").await;
        w.sees("#sure[open] h2", "Cancel this run?").await;
        w.until("!document.querySelector('#sure[open]')").await;
        w.sees("#head .state", "done").await;
    })
    .await;
}

/// Enter in a field presses the first button of its form, which must not be an answer.
#[tokio::test]
async fn browser_takes_own_words_before_the_first_option() {
    let up = Up::with_asking_agent().await;
    browse(up, |w, up| async move {
        w.enter().await;
        let asked = up.asks("Which colour?").await;
        w.write(
            &format!("{} input[name=text]", card(&asked)),
            &format!("green{ENTER}"),
        )
        .await;
        w.until("!document.querySelector('[data-card]')").await;
        let thread = asked["threadId"].as_str().unwrap();
        let view = up.app("app.show", json!({"thread": thread})).await;
        let closed = &view["thread"]["contextState"]["closedQuestions"][0];
        assert_eq!(closed["answer"]["text"], "green", "{closed:#}");
    })
    .await;
}
