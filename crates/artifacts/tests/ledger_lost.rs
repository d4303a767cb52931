//! The record of who took which file, emptied, cut short or gone: nobody gets another's file.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use std::{fs, path::Path};

use common::{
    host::{Host, call, moment, texts, turn},
    put,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use threadline_artifacts::Service;
use threadline_contract::plugin::{CollectParams, PrepareParams};

fn other(run: &str, session: &str) -> Value {
    json!({"schemaVersion": 1, "appThreadKey": session, "runId": run,
        "openclawSessionKey": format!("agent:main:{session}")})
}

fn collect(service: &Service, params: Value) -> Value {
    call(params, |p: CollectParams| service.collect(&p)).unwrap()
}

fn prepare(service: &Service, params: Value) {
    call(params, |p: PrepareParams| service.prepare(&p)).unwrap();
}

/// What a person would have to do by hand, or a disk by itself.
type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 6] = [
    ("emptied", |state| {
        fs::write(state.join("claims.journal"), "").unwrap();
    }),
    ("zeroed", |state| {
        let size = fs::metadata(state.join("claims.journal")).unwrap().len();
        fs::write(state.join("claims.journal"), vec![0; size as usize]).unwrap();
    }),
    ("deleted", |state| {
        fs::remove_file(state.join("claims.journal")).unwrap();
    }),
    ("deleted with its mark", |state| {
        fs::remove_dir_all(state).unwrap();
    }),
    ("cut in half", |state| {
        let path = state.join("claims.journal");
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
    }),
    ("without its last line", |state| {
        let path = state.join("claims.journal");
        let text = fs::read_to_string(&path).unwrap();
        let end = text.trim_end().rfind('\n').unwrap() + 1;
        fs::write(&path, &text[..end]).unwrap();
    }),
];

#[test]
fn nobody_gets_anothers_file_when_the_record_is_lost() {
    for (what, damage) in DAMAGES {
        let host = Host::prepared();
        prepare(&host.service, other("r", "beside"));
        moment();
        put(&host.media(), "secret.txt", "of the first alone");
        let named = json!({"writtenFiles": [host.media().join("secret.txt")]});
        let taken = host.collect(turn(named)).unwrap();
        assert_eq!(texts(&taken["copiedFiles"]), ["artifacts/media/secret.txt"]);
        moment();
        damage(&host.temp.path().join("state"));

        let service = host.restarted();
        // Also when its runtime names it, or says that nobody was beside it.
        for more in [
            json!({}),
            json!({"overlapped": false}),
            json!({"writtenFiles": [host.media().join("secret.txt")]}),
        ] {
            let result = collect(&service, common::host::with(other("r", "beside"), more));
            assert_eq!(result["copiedFiles"], json!([]), "{what}");
            assert_eq!(
                result["omitted"]["byReason"],
                json!({"ambiguous_owner": 1}),
                "{what}"
            );
            assert!(
                texts(&result["warnings"])
                    .iter()
                    .any(|w| w.contains("begun anew")),
                "{what}: {}",
                result["warnings"]
            );
        }
    }
}

#[test]
fn runs_are_known_again_when_the_record_is_lost() {
    for (what, damage) in DAMAGES {
        let host = Host::prepared();
        prepare(&host.service, other("r", "beside"));
        damage(&host.temp.path().join("state"));

        // The run that was going on writes; one that begins now must not get it.
        let service = host.restarted();
        prepare(&service, other("r", "new"));
        moment();
        put(&host.media(), "late.txt", "whose?");
        let result = collect(&service, other("r", "new"));
        assert_eq!(result["copiedFiles"], json!([]), "{what}");
        assert_eq!(
            result["omitted"]["byReason"],
            json!({"ambiguous_owner": 1}),
            "{what}"
        );
        // Work goes on: what is written from here on and named is taken, once.
        let named = json!({"writtenFiles": [host.media().join("late.txt")]});
        let taken = collect(&service, turn(named.clone()));
        assert_eq!(
            texts(&taken["copiedFiles"]),
            ["artifacts/media/late.txt"],
            "{what}"
        );
        let again = collect(&service, common::host::with(other("r", "new"), named));
        assert_eq!(again["copiedFiles"], json!([]), "{what}");
    }
}

#[test]
fn a_record_that_is_whole_says_nothing() {
    let host = Host::prepared();
    moment();
    put(&host.media(), "a.txt", "a");
    for _ in 0..3 {
        let result = collect(&host.restarted(), turn(json!({})));
        assert_eq!(result["warnings"], json!([]));
        assert_eq!(result["omitted"]["count"], json!(0));
    }
}
