use pretty_assertions::assert_eq;

use super::*;

fn known(name: &str) -> AgentConfig {
    let mut all = AgentConfig::known().into_iter();
    all.find(|agent| agent.name == name).unwrap()
}

fn seen(agent: &AgentConfig, ours: &[(&str, &str)]) -> Vec<(String, String)> {
    let ours = ours.iter().map(|(name, value)| (name.into(), value.into()));
    agent.environment(ours).into_iter().collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

#[test]
fn what_a_person_sets_counts_more_than_what_a_profile_suggests() {
    let mut codex = known("codex");
    let suggested = [
        ("INITIAL_AGENT_MODE", "workspace-write"),
        ("NO_BROWSER", "1"),
    ];
    assert_eq!(seen(&codex, &[]), pairs(&suggested));
    let ours = [
        ("INITIAL_AGENT_MODE", "read-only"),
        ("CODEX_HOME", "/c"),
        ("GEMINI_API_KEY", "not for it"),
        ("THREADLINE_TOKEN", "nor this"),
    ];
    let want = [
        ("CODEX_HOME", "/c"),
        ("INITIAL_AGENT_MODE", "read-only"),
        ("NO_BROWSER", "1"),
    ];
    assert_eq!(seen(&codex, &ours), pairs(&want));
    codex
        .env
        .insert("INITIAL_AGENT_MODE".into(), "agent".into());
    let want = [
        ("CODEX_HOME", "/c"),
        ("INITIAL_AGENT_MODE", "agent"),
        ("NO_BROWSER", "1"),
    ];
    assert_eq!(seen(&codex, &ours), pairs(&want));
}

#[test]
fn a_program_is_found_on_the_path_that_the_agent_has() {
    let agent = |command: &str| AgentConfig::new("a", vec![command.into()]);
    let path = |path: &str| BTreeMap::from([("PATH".to_owned(), path.to_owned())]);
    let found = |command: &str, at: &str| agent(command).program(&path(at));
    assert_eq!(found("sh", "/nowhere:/bin"), Some("/bin/sh".into()));
    assert_eq!(found("sh", "bin:."), None, "only where a path is absolute");
    assert_eq!(found("/bin/sh", ""), Some("/bin/sh".into()));
    assert_eq!(found("/etc/passwd", "/bin"), None, "it cannot be run");
    assert_eq!(agent("sh").program(&BTreeMap::new()), None);
}

#[test]
fn keys_are_told_by_the_names_of_their_variables() {
    let env = pairs(&[
        ("A_API_KEY", "12345678"),
        ("HOME", "/home/of/me"),
        ("MY_TOKEN", "short"),
    ]);
    assert_eq!(secrets(&env.into_iter().collect()), ["12345678"]);
}
