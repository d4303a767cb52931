use std::{fs, os::unix::fs::symlink};

use pretty_assertions::assert_eq;

use super::*;

struct Host {
    temp: tempfile::TempDir,
    sources: WorkspaceSources,
}

impl Host {
    fn new(folders: &[&str]) -> Self {
        let temp = tempfile::tempdir().unwrap();
        for folder in folders {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        let sources = WorkspaceSources {
            home: temp.path().join("home"),
            current_dir: temp.path().join("cwd"),
            ..WorkspaceSources::default()
        };
        Self { temp, sources }
    }

    fn at(&self, folder: &str) -> PathBuf {
        fs::canonicalize(self.temp.path()).unwrap().join(folder)
    }

    fn found(&self, request: Option<&str>, agent: Option<&str>) -> (PathBuf, WorkspaceSource) {
        let found = self.sources.resolve(request, agent).unwrap();
        assert_eq!(found.warnings, Vec::<String>::new());
        (found.path, found.source)
    }
}

#[test]
fn the_first_source_that_speaks_counts() {
    use WorkspaceSource as S;
    let mut host = Host::new(&[
        "home/.openclaw/workspace",
        "home/.openclaw/workspace-old",
        "home/.openclaw-new/workspace",
        "home/.openclaw/workspace-new",
        "state/workspace",
        "env",
        "agent",
        "plugin",
        "request",
        "cwd/relative",
        "home/mine",
    ]);
    let text = |folder: &str| Some(host.at(folder).to_str().unwrap().to_owned());
    let (env, state, agent, plugin, request) = (
        text("env"),
        text("state"),
        text("agent"),
        text("plugin"),
        text("request"),
    );
    let (agent, request) = (agent.as_deref(), request.as_deref());

    assert_eq!(
        host.found(None, None),
        (host.at("home/.openclaw/workspace"), S::Default)
    );
    host.sources.profile = Some(" Default ".into());
    assert_eq!(
        host.found(None, None),
        (host.at("home/.openclaw/workspace"), S::Default)
    );
    host.sources.profile = Some("old".into());
    assert_eq!(
        host.found(None, None),
        (host.at("home/.openclaw/workspace-old"), S::Profile)
    );
    host.sources.profile = Some("new".into());
    assert_eq!(
        host.found(None, None),
        (host.at("home/.openclaw-new/workspace"), S::Profile)
    );
    host.sources.state_dir = state;
    assert_eq!(
        host.found(None, None),
        (host.at("state/workspace"), S::Profile)
    );
    host.sources.workspace_dir = env;
    assert_eq!(host.found(None, None), (host.at("env"), S::Profile));
    assert_eq!(host.found(None, agent), (host.at("agent"), S::AgentConfig));
    host.sources.plugin_config = plugin;
    assert_eq!(
        host.found(None, agent),
        (host.at("plugin"), S::PluginConfig)
    );
    assert_eq!(host.found(request, agent), (host.at("request"), S::Params));
    assert_eq!(
        host.found(Some("  "), agent),
        (host.at("plugin"), S::PluginConfig)
    );
    assert_eq!(
        host.found(Some("relative"), None),
        (host.at("cwd/relative"), S::Params)
    );
    assert_eq!(host.found(Some("~"), None), (host.at("home"), S::Params));
    assert_eq!(
        host.found(Some("~/mine"), None),
        (host.at("home/mine"), S::Params)
    );
}

#[test]
fn a_workspace_that_is_named_must_exist() {
    let mut host = Host::new(&["home/.openclaw/workspace", "cwd"]);
    let refused = host
        .sources
        .resolve(Some("/no/such/folder"), None)
        .unwrap_err();
    assert!(
        matches!(&refused, Error::NoWorkspace { folder, named_by: WorkspaceSource::Params } if folder == Path::new("/no/such/folder")),
        "{refused}"
    );
    assert_eq!(refused.code(), threadline_contract::Code::InvalidRequest);
    // A file is no folder, and `~name` is somebody else's home, which we do not know.
    fs::write(host.temp.path().join("cwd/file"), "x").unwrap();
    for text in ["file", "~root/x"] {
        assert!(matches!(
            host.sources.resolve(Some(text), None),
            Err(Error::NoWorkspace { .. })
        ));
    }
    host.sources.profile = Some("gone".into());
    let refused = host.sources.resolve(None, None).unwrap_err();
    assert_eq!(refused.code(), threadline_contract::Code::PrepareFailed);
    host.sources.profile = Some("../../etc".into());
    assert_eq!(host.found(None, None).1, WorkspaceSource::Default);
}

/// P30.
#[test]
fn p30_an_apps_reference_never_becomes_a_root() {
    let mut host = Host::new(&["home/.openclaw/workspace", "cwd"]);
    for hint in [
        "/owners/local/user/x/threads/y",
        "/owners",
        "/owners/",
        "//owners//x",
        "/./owners/x",
        "/tmp/../owners/x",
        " /owners/x ",
    ] {
        let found = host.sources.resolve(Some(hint), Some(hint)).unwrap();
        assert_eq!(
            (found.path, found.source, found.warnings.len()),
            (
                host.at("home/.openclaw/workspace"),
                WorkspaceSource::Default,
                2
            ),
            "{hint}"
        );
    }
    host.sources.plugin_config = Some("/owners/x".into());
    assert_eq!(
        host.sources.resolve(None, None).unwrap().source,
        WorkspaceSource::Default
    );
    // Names that only look alike are folders like any other.
    for name in ["owners", "cwd/owners", "ownersx"] {
        fs::create_dir_all(host.temp.path().join(name)).unwrap();
        let path = host.at(name);
        let found = host.sources.resolve(path.to_str(), None).unwrap();
        assert_eq!((found.path, found.source), (path, WorkspaceSource::Params));
    }
    // A link resolves to where it leads.
    symlink(host.at("owners"), host.temp.path().join("link")).unwrap();
    let found = host
        .sources
        .resolve(host.at("link").to_str(), None)
        .unwrap();
    assert_eq!(found.path, host.at("owners"));
}
