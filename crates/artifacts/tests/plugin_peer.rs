//! What the earlier plugin left.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has failed"
)]

mod common;

use common::{
    host::{Host, each, texts, with},
    put,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

fn paths(result: &Value) -> Vec<&str> {
    each(&result["artifacts"], "relativePath")
}

/// P04, P05, P06.
#[test]
fn p04_p05_p06_what_the_earlier_plugin_left_can_be_read() {
    let host = Host::new();
    let long = "x".repeat(95);
    for (session, run, scope) in [
        (
            "agent::main:main",
            "run alpha",
            "tasks/agent_main_main/run_alpha".to_owned(),
        ),
        ("...", "r", "tasks/scope/r".into()),
        ("___", "r", "tasks/scope/r".into()),
        ("日本語", "r", "tasks/scope/r".into()),
        ("-a-", "a.", "tasks/a/a".into()),
        ("a..b", &format!("{long}-y"), format!("tasks/a..b/{long}-")),
    ] {
        put(&host.ws(), &format!("{scope}/reports/final.md"), "# Done\n");
        let plain = json!({"openclawSessionKey": session, "runId": run});
        // Nobody is given it unasked: several sessions may share the folder.
        let unasked = host.export(plain.clone()).unwrap();
        assert_eq!(
            (paths(&unasked), &unasked["emptyReason"]),
            (vec![], &json!("scope_missing"))
        );
        assert_eq!(
            texts(&unasked["warnings"])[1],
            format!("The earlier plugin left `{scope}`; name it in `artifactScope` to read it.")
        );
        let params = with(plain.clone(), json!({"artifactScope": format!("{scope}/")}));
        let result = host.export(params.clone()).unwrap();
        assert_eq!(
            (paths(&result), &result["artifactScope"]),
            (vec!["reports/final.md"], &json!(scope))
        );
        assert!(
            texts(&result["warnings"])[0]
                .starts_with(&format!("`{scope}` was made by the earlier plugin"))
        );
        let reference = &result["artifacts"][0]["artifactRef"];
        for by in [
            json!({"artifactRef": reference}),
            json!({"relativePath": "reports/final.md"}),
        ] {
            let read = host.read(with(params.clone(), by)).unwrap();
            assert_eq!(read["artifacts"][0]["content"], "IyBEb25lCg==");
        }
        // Nothing new goes there.
        let app = json!({"appThreadKey": "a"});
        for refusal in [
            host.prepare(with(params.clone(), app)),
            host.collect(params),
        ] {
            let (code, message) = refusal.unwrap_err();
            // The last one has the same name by both rules, but not our stamp.
            let want = if session == "a..b" {
                ["CONFLICT", "PREPARE_FAILED"]
            } else {
                ["INVALID_REQUEST"; 2]
            };
            assert!(want.contains(&code.as_str()), "{code}: {message}");
        }
    }
    assert!(
        !host.ws().join("tasks/agent_main_main/.xworkmate").exists(),
        "looking leaves nothing"
    );
}

/// Where both rules give one name, the owner's stamp tells whose the folder is.
#[test]
fn a_folder_of_ours_is_never_read_as_the_earlier_plugins() {
    let host = Host::new();
    let (s, r) = ("agent_main_main", "run_alpha");
    host.prepare(json!({"openclawSessionKey": s, "runId": r, "appThreadKey": "a"}))
        .unwrap();
    put(&host.ws(), "tasks/agent_main_main/run_alpha/mine.md", "x");
    let other = json!({"openclawSessionKey": "agent::main:main", "runId": "run alpha", "artifactScope": "tasks/agent_main_main/run_alpha"});
    let (code, _) = host.export(other).unwrap_err();
    assert_eq!(code, "CONFLICT");
    // An earlier folder under our own name, without a stamp, is read when it is named.
    put(&host.ws(), "tasks/s/r/old.md", "x");
    let plain = json!({"openclawSessionKey": "s", "runId": "r"});
    assert_eq!(
        paths(&host.export(plain.clone()).unwrap()),
        Vec::<&str>::new()
    );
    let named = host
        .export(with(plain, json!({"artifactScope": "tasks/s/r"})))
        .unwrap();
    assert_eq!(paths(&named), ["old.md"]);
}
