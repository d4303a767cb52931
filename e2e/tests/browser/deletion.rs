//! Deleting a thread in whose folder the user has files.

use std::{fs, path::PathBuf};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::{up::Up, window::browse};

#[tokio::test]
async fn browser_deletes_only_files_it_has_shown_and_says_which_stayed() {
    let up = Up::with_model().await;
    let name = up.finished("[[write a.txt = one]] [[say done]]").await;
    let view = up.app("app.archive", json!({"thread": name})).await;
    let folder = &view["thread"]["workspaceBinding"]["workspacePath"];
    let folder = PathBuf::from(folder.as_str().unwrap());
    browse(up, |w, _| async move {
        w.enter().await;
        w.go(&format!("/threads/{name}")).await;
        w.sees(".put-away", "This thread is archived.").await;
        // It came after the page: the question names it all the same.
        fs::write(folder.join("mine.txt"), "mine").unwrap();
        w.click("details.menu > summary").await;
        w.press("Delete…").await;
        w.sees("details.sure li", "mine.txt").await;
        w.click("details.sure input[type=checkbox]").await;
        // This one comes after the question.
        fs::write(folder.join("later.txt"), "later").unwrap();
        w.press("Delete for good").await;
        w.sees("details.sure .error", "Nothing was deleted.").await;
        w.sees("details.sure li", "later.txt").await;
        assert!(folder.join("mine.txt").exists() && folder.join("a.txt").exists());
        w.click("details.sure input[type=checkbox]").await;
        w.press("Delete for good").await;
        w.until("location.pathname + location.search === '/threads?archived=1'")
            .await;
        let told = "main > .note";
        w.sees(told, "The thread is deleted here.").await;
        assert_eq!(
            w.text(told).await,
            format!(
                "The thread is deleted here. 2 files that you made or edited stayed in {}: later.txt, mine.txt.",
                folder.display()
            )
        );
        assert!(folder.join("mine.txt").exists() && !folder.join("a.txt").exists());
    })
    .await;
}
