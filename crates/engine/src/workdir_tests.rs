use std::time::Duration;

use pretty_assertions::assert_eq;
use threadline_contract::RuntimeId;

use super::*;

fn config(root: &Path) -> EngineConfig {
    EngineConfig {
        node: "n".into(),
        renamed: false,
        advertise: None,
        data: root.join("home/data"),
        protected: vec![root.join("home/settings")],
        attachments: root.join("attachments"),
        work_roots: vec![root.join("home")],
        thread_folders: root.join("home/.xworkmate/threads"),
        auto_runtime: RuntimeId::Builtin,
        link_ttl: Duration::from_secs(1),
        lease_ttl: Duration::from_secs(1),
        result_wait: Duration::from_secs(1),
        keep: crate::Keep::FOR_EVER,
        cache_bytes: 0,
        verify_wait: Duration::from_secs(1),
        rules: crate::Rules::default(),
    }
}

#[test]
fn only_real_folders_beneath_a_root_count() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let config = config(&root);
    std::fs::create_dir_all(root.join("home/project")).unwrap();
    std::fs::create_dir_all(root.join("elsewhere")).unwrap();
    std::fs::create_dir_all(root.join("home/data/tasks")).unwrap();
    std::fs::create_dir_all(root.join("home/settings/deep")).unwrap();
    std::fs::write(root.join("home/file"), "x").unwrap();
    std::os::unix::fs::symlink(root.join("elsewhere"), root.join("home/link")).unwrap();
    let text = |p: &str| root.join(p).display().to_string();

    assert_eq!(check(None, &config), Ok(None));
    assert_eq!(
        check(Some(&text("home/project")), &config),
        Ok(Some(root.join("home/project")))
    );
    // References of the app, not places to work in.
    assert_eq!(
        // B26
        check(Some("/owners/local/user/x/threads/y"), &config),
        Ok(None)
    );
    assert_eq!(
        check(Some(&text("home/.xworkmate/threads/draft-1")), &config),
        Ok(None)
    );
    for bad in [
        "relative".to_owned(),
        text("home/data/tasks"),
        text("home/data"),
        text("home/settings/deep"),
        text("home/missing"),
        text("home/file"),
        text("elsewhere"),
        text("home/link"),
        text("home/project/../../elsewhere"),
        "/".into(),
    ] {
        assert_eq!(
            check(Some(&bad), &config).map_err(|f| f.code),
            Err(Code::WorkdirNotAllowed),
            "{bad}"
        );
    }
}
