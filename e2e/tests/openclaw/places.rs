//! Where a run may leave files, with two runs at once: each gets its own from every place, and what
//! nobody can tell the owner of is named and not delivered.

use std::path::Path;

use pretty_assertions::assert_eq;

use super::bench::{Bench, TURN, outcome};

/// With these as the gateway's media and temporary folders.
pub(crate) async fn each_run_brings_its_own_files_home(bench: &Bench, media: &Path, tmp: &Path) {
    let (media, tmp) = (media.display(), tmp.display());
    let one = |n: usize| {
        let thread = format!("draft:places-{n}");
        // Long enough for the other's command to have ended, and for its own turn alone.
        let alone = 2_500 + (n - 1) * 3_000;
        let prompt = format!(
            "[[shell cd tasks/*places-{n}*/* && echo own > own-{n}.txt]] \
             [[write reports/shared-{n}.md = shared {n}]] \
             [[write elsewhere/named-{n}.md = named {n}]] \
             [[write {media}/media-{n}.txt = media {n}]] \
             [[write {tmp}/tmp-{n}.txt = tmp {n}]] \
             [[shell cd {tmp} && sleep 4 && whose=nobodys && echo whose > $whose-{n}.txt && sleep 4]] \
             [[sleep {alone}]] [[shell cd {tmp} && whose=script && echo whose > $whose-{n}.txt]] \
             [[say I am {n}]]"
        );
        async move {
            bench.send(&thread, &prompt).await;
            let ended = bench.world.ended_within(&thread, TURN).await;
            let omitted = ended["artifacts"]["omitted"].clone();
            (outcome(&ended), omitted)
        }
    };
    let (first, second) = tokio::join!(one(1), one(2));
    for (n, (ended, omitted)) in [(1, first), (2, second)] {
        assert_eq!(
            (ended.status.as_str(), ended.text.as_deref()),
            ("completed", Some(format!("I am {n}").as_str()))
        );
        let mut files = ended.files;
        files.sort();
        let mut names: Vec<&str> = files.iter().filter_map(|f| f.rsplit('/').next()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                format!("media-{n}.txt"),
                format!("named-{n}.md"),
                format!("own-{n}.txt"),
                format!("script-{n}.txt"),
                format!("shared-{n}.md"),
                format!("tmp-{n}.txt"),
            ],
            "{files:?} {omitted:#}"
        );
        // No tool call names it (a command that puts its name together does not), and a command of the
        // other run was running too.
        let text = omitted.to_string();
        assert!(text.contains(&format!("nobodys-{n}.txt")), "{omitted:#}");
        assert!(text.contains("ambiguous_owner"), "{omitted:#}");
    }
}
