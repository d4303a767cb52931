//! Runs as a person sees and steers them.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{up::Up, window::browse};

const ENTER: &str = "\u{e007}";

#[tokio::test]
async fn browser_starts_a_task_and_sees_it_to_its_end() {
    let up = Up::demonstrating().await;
    browse(up, |w, _| async move {
        w.go("/").await;
        assert_eq!(w.text("h1").await, "This browser is not known here");
        w.enter().await;
        assert_eq!(w.text("h1").await, "Nothing needs you");
        w.sees(".note", "No model is configured").await;
        w.press("Start a task").await;
        w.sees("h1", "New task").await;
        // The field has the focus already.
        w.keys("Count the rivers, the small rivers").await;
        w.press("Start").await;
        w.until("location.pathname.startsWith('/threads/')").await;
        assert_eq!(w.text(".you").await, "Count the rivers, the small rivers");
        w.sees(".aside", "No model is configured").await;
        // The steps come one by one, while it works.
        w.until("document.querySelector('details.steps[open] li .running, details.steps[open] li .done')").await;
        w.sees("#head .state", "done").await;
        w.sees(".said", "from your 6 words").await;
        w.sees(".proof", "3 of 3 verified").await;
        w.until("document.querySelector('details.steps:not([open])')").await;
        w.sees("details.steps summary", "Wrote 3 files").await;
        assert_eq!(w.texts(".file .name").await, ["notes.md", "words.csv", "words.svg"]);
        w.click("details.steps summary").await;
        assert_eq!(w.texts("details.steps li .title").await, ["Wrote notes.md", "Wrote words.csv", "Wrote words.svg"]);
        // Everything is still there when the page is opened anew.
        let path = w.path().await;
        w.go(&path).await;
        w.sees("details.steps summary", "Wrote 3 files").await;
        w.go("/").await;
        w.sees("section h2", "Done today").await;
        w.sees(".row .why", "3 files").await;
    })
    .await;
}

#[tokio::test]
async fn browser_answers_questions_where_they_stand() {
    let up = Up::with_model().await;
    browse(up, |w, up| async move {
        w.enter().await;
        assert_eq!(w.text("h1").await, "Nothing needs you");
        let first = up
            .send("[[ask Which forecast?|State agency|Weather service]] [[say Took it.]]")
            .await;
        // It shows by itself, and a number answers it.
        w.sees("h1", "1 thing needs you").await;
        w.sees(".need .what", "Which forecast?").await;
        assert_eq!(
            w.texts(".need .choice span").await,
            ["State agency", "Weather service"]
        );
        w.keys("j").await;
        tokio::time::sleep(std::time::Duration::from_millis(1_600)).await;
        w.keys("2").await;
        w.sees("h1", "Nothing needs you").await;
        w.go(&format!("/threads/{first}")).await;
        w.sees("#head .state", "done").await;
        // The question stays, with what was answered.
        assert_eq!(w.text(".answered .what").await, "Which forecast?");
        w.sees(".answered", "You answered Weather service").await;
        // In own words, on the thread's page.
        let second = up
            .send("[[ask What is it called?]] [[say It is called {last}]]")
            .await;
        w.go(&format!("/threads/{second}")).await;
        w.sees(".ask .what", "What is it called?").await;
        w.sees("#head .state", "waiting for you").await;
        w.write(".ask input[name=text]", &format!("The <b>Elde</b>{ENTER}"))
            .await;
        w.sees(".said", "The <b>Elde</b>").await;
        w.until("!document.querySelector('.ask')").await;
        w.sees(".answered", "You answered The <b>Elde</b>").await;
    })
    .await;
}

#[tokio::test]
async fn browser_stops_retries_follows_up_and_puts_away() {
    let up = Up::with_model().await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go("/new").await;
        w.write(
            "[name=prompt]",
            "[[write a.txt = one]] [[hang]] [[say never]]",
        )
        .await;
        w.press("Start").await;
        w.sees("details.steps li .title", "Wrote a.txt").await;
        w.js("document.activeElement.blur()").await;
        w.keys(".").await;
        w.click("#sure .danger").await;
        w.sees(".outcome .what", "Cancelled").await;
        w.sees("#head .state", "cancelled").await;
        w.click(".outcome button").await;
        w.until("document.querySelectorAll('.turn').length === 2")
            .await;
        w.sees("#head .state", "working").await;
        // What is written meanwhile waits, and goes out when the turn ends.
        w.write("[data-write]", "[[say Now it **works**.]]\u{e007}")
            .await;
        w.sees(".you.later", "Now it").await;
        w.sees(
            ".aside-you",
            "Waiting · goes out when the turn before it has ended",
        )
        .await;
        assert_eq!(
            w.js("document.querySelector('[data-write]').value").await,
            json!("")
        );
        // One of two that wait is changed, the other dropped, and what runs goes on.
        w.write("[data-write]", "[[say Not this.]]\u{e007}").await;
        w.until("document.querySelectorAll('.waits').length === 2")
            .await;
        w.click(".turn:last-child .waits > form button").await;
        w.sees(".aside-you", "Dropped").await;
        w.until("document.querySelectorAll('.waits').length === 1")
            .await;
        w.click(".waits summary").await;
        w.js("document.querySelector('[data-edit]').value = ''")
            .await;
        w.write("[data-edit]", "[[say Later.]]").await;
        w.press("Save").await;
        w.sees(".you.later", "Later.").await;
        w.sees("#head .state", "working").await;
        w.click("[data-cancel]").await;
        w.sees("#sure .told", "The message that waits is dropped.")
            .await;
        w.click("#sure .danger").await;
        // Cancelling drops what waits; sending again goes on at once.
        w.sees("#head .state", "cancelled").await;
        w.sees(
            ".aside-you",
            "Dropped · it was cancelled before its turn came",
        )
        .await;
        w.write("[data-write]", "[[say Now it **works**.]]\u{e007}")
            .await;
        w.sees(".said strong", "works").await;
        w.sees("#head .state", "done").await;
        assert_eq!(w.text(".files .calm").await, "This run made no files.");

        let path = w.path().await;
        w.click("details.menu summary").await;
        w.press("Archive").await;
        w.sees(".put-away", "This thread is archived.").await;
        w.go("/threads").await;
        w.sees(".empty", "No threads yet.").await;
        w.press("Archived").await;
        w.sees(".row .state", "archived").await;
        w.go(&path).await;
        w.click(".put-away button").await;
        w.sees("#head .state", "done").await;
        w.click("details.menu summary").await;
        w.press("Archive").await;
        w.sees(".put-away", "This thread is archived.").await;
        w.click("details.menu > summary").await;
        w.press("Delete…").await;
        w.press("Delete for good").await;
        w.until("location.pathname + location.search === '/threads?archived=1'")
            .await;
        w.sees(".empty", "Nothing is archived.").await;
        w.go(&path).await;
        assert_eq!(w.text("h1").await, "There is nothing here");
    })
    .await;
}

#[tokio::test]
async fn browser_says_in_place_why_something_is_refused() {
    let up = Up::with_model().await;
    let failed = up.finished("[[fail 401 99]] [[say x]]").await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.sees("h1", "1 thing needs you").await;
        w.sees(".need .why", "MODEL_FAILED").await;
        w.sees(".need .why", "This failure was asked for.").await;
        w.go("/new").await;
        w.write("[name=prompt]", "anything").await;
        w.press("More").await;
        w.write("[name=workingDirectory]", "/etc").await;
        w.press("Start").await;
        w.sees(".outcome, .error", "WORKDIR_NOT_ALLOWED").await;
        w.go(&format!("/threads/{failed}")).await;
        w.sees(".outcome .what", "The model answered with an error")
            .await;
        assert_eq!(w.texts(".outcome button").await, ["Retry"]);
    })
    .await;
}

#[tokio::test]
async fn browser_opens_a_long_log_at_its_end() {
    let up = Up::with_model().await;
    // Each of these is two events: it began, it is done.
    let many = format!("[[list]]{}", " [[also list]]".repeat(699));
    let prompt = format!("[[write first.txt = 1]] {many} [[write last.txt = 2]] [[say All.]]");
    let name = up.finished(&prompt).await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees("details.steps summary", "The last").await;
        w.click("details.steps summary").await;
        let titles = "details.steps li .title";
        w.sees(titles, "Wrote last.txt").await;
        assert_eq!(w.texts(titles).await.len(), 200);
        let streams = "performance.getEntriesByType('resource')
            .filter((e) => e.name.includes('until=')).length";
        assert_eq!(w.js(streams).await, json!(0));
        // The rest comes when somebody wants it.
        w.click("[data-earlier]").await;
        w.sees("details.steps summary", "Wrote 2 files").await;
        w.until("document.querySelector('[data-earlier]').hidden")
            .await;
        assert_eq!(w.js(streams).await, json!(1));
        w.click("[data-unroll]").await;
        w.sees(titles, "Wrote first.txt").await;
        let told = w.texts(titles).await;
        assert_eq!(
            (told.len(), told[0].as_str(), told[701].as_str()),
            (702, "Wrote first.txt", "Wrote last.txt")
        );
    })
    .await;
}

#[tokio::test]
async fn browser_shows_no_text_that_reads_as_another_one() {
    let up = Up::with_model().await;
    let name = up
        .send("[[write notes-\u{202e}txt.exe = x]] [[ask Is \u{202e}no\u{202c} fine?|Yes]] [[say ok]]")
        .await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees(".asked", "Is \u{fffd}no\u{fffd} fine?").await;
        // This one is drawn by the script, from the log.
        w.sees("details.steps li .title", "txt.exe").await;
        w.sees("h1", "notes-\u{fffd}txt.exe").await;
        let turned = "/[\\u202a-\\u202e]/.test(document.documentElement.textContent)";
        assert_eq!(w.js(turned).await, json!(false));
    })
    .await;
}

#[tokio::test]
async fn browser_keeps_unsaved_words_for_a_message_whose_turn_comes() {
    let up = Up::with_model().await;
    let name = up.send("[[ask Go on?|Yes]] [[say First.]]").await;
    browse(up, |w, up| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees(".asked", "Go on?").await;
        w.write("[data-write]", &format!("[[say Second.]]{ENTER}"))
            .await;
        w.click(".waits summary").await;
        w.write("[data-edit]", " And this.").await;
        w.write("[data-write]", "Half a thought").await;
        let view = up.app("app.show", json!({"thread": name})).await;
        let question = &view["questions"][0];
        let answer = json!({"questionId": question["questionId"], "optionId": question["options"][0]["optionId"]});
        up.app("app.answer", answer).await;
        w.sees(".said", "Second.").await;
        w.sees(".composer .error", "Your new words are here.").await;
        assert_eq!(
            w.js("document.querySelector('[data-write]').value").await,
            json!("Half a thought\n[[say Second.]] And this.")
        );
    })
    .await;
}

#[tokio::test]
async fn browser_shows_what_a_cancelled_run_had_said() {
    let up = Up::with_model().await;
    let name = up.send("[[slow 200]] [[count 1000]]").await;
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees(".saying", "1 2 3").await;
        w.click("[data-cancel]").await;
        w.click("#sure .danger").await;
        w.sees("#head .state", "cancelled").await;
        w.sees(".said", "1 2 3").await;
        w.sees(
            ".unfinished",
            "Unfinished: the run ended before it had said the rest.",
        )
        .await;
    })
    .await;
}
