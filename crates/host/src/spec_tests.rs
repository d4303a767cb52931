use pretty_assertions::assert_eq;

use super::*;

#[test]
fn only_what_is_allowed_gets_through() {
    let variables = [
        ("PATH", "/bin"),
        ("PATHS", "no"),
        ("LC_ALL", "C"),
        ("THREADLINE_TOKEN", "secret"),
        ("OPENAI_API_KEY", "key"),
        ("GEMINI_API_KEY", "no"),
        ("MY_ONE", "1"),
    ];
    let variables = variables.map(|(name, value)| (name.into(), value.into()));
    let got = allowed(variables, &["OPENAI_API_KEY", "MY_*"]);
    let expected = [
        ("LC_ALL", "C"),
        ("MY_ONE", "1"),
        ("OPENAI_API_KEY", "key"),
        ("PATH", "/bin"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(got, BTreeMap::from(expected));
}

#[test]
fn a_bad_description_is_refused() {
    let good = Spec::new("s", vec!["cat".into()], "/tmp".into());
    assert_eq!(good.check(), Ok(()));
    let bad = |change: &dyn Fn(&mut Spec)| {
        let mut spec = good.clone();
        change(&mut spec);
        spec.check().unwrap_err()
    };
    bad(&|spec| spec.session.clear());
    bad(&|spec| spec.command.clear());
    bad(&|spec| spec.command = vec![String::new()]);
    bad(&|spec| spec.command = vec!["a\0b".into()]);
    bad(&|spec| spec.folder = "here".into());
    bad(&|spec| _ = spec.env.insert("A=B".into(), "1".into()));
    bad(&|spec| _ = spec.env.insert("A".into(), "\0".into()));
    bad(&|spec| spec.lead_bytes = 0);
    bad(&|spec| spec.lead_entries = 0);
}
