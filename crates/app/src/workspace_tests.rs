use pretty_assertions::assert_eq;

use super::*;

fn key(text: &str) -> AppThreadKey {
    AppThreadKey::new(text).unwrap()
}

#[test]
fn a01_the_folder_is_named_after_the_key() {
    let cases = [
        ("draft:1780658097668838-1", "draft-1780658097668838-1"),
        ("draft:main:1-1", "draft-main-1-1"),
        ("a  b//c", "a-b-c"),
        ("..a..", "a"),
        ("日本語", "thread"),
        ("--", "thread"),
        ("A.b_c", "A.b_c"),
    ];
    for (text, want) in cases {
        assert_eq!(folder_name(&key(text)), want, "{text}");
    }
    assert_eq!(folder_name(&key(&"x".repeat(480))).len(), 200);
}

#[test]
fn two_keys_that_want_one_folder_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join(".xworkmate/threads");
    let first = claim(&base, &key("a:b")).unwrap();
    let second = claim(&base, &key("a/b")).unwrap();
    assert_eq!(first, base.join("a-b"));
    assert_eq!(second, base.join("a-b-2"));
    // Found again, not made anew.
    assert_eq!(claim(&base, &key("a/b")).unwrap(), second);
    assert_eq!(open(&first, &key("a/b")).unwrap_err().code, Code::Conflict);
    // A stamp that cannot be read is somebody's.
    std::fs::write(first.join(OWNER), "no stamp").unwrap();
    assert_eq!(claim(&base, &key("a:b")).unwrap(), base.join("a-b-3"));
}

#[test]
fn only_our_own_folder_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join(".xworkmate/threads");
    let ours = claim(&base, &key("a:b")).unwrap();
    std::fs::write(ours.join("x"), "1").unwrap();
    let custom = home.path().join("custom");
    std::fs::create_dir(&custom).unwrap();
    assert!(!remove(&base, &custom, &key("a:b")).unwrap());
    assert!(!remove(&base, &ours, &key("a/b")).unwrap());
    assert!(ours.exists() && custom.exists());
    assert!(remove(&base, &ours, &key("a:b")).unwrap());
    assert!(!ours.exists());
    assert!(!remove(&base, &ours, &key("a:b")).unwrap());
}

#[test]
fn a_link_in_place_of_the_folder_is_not_followed() {
    let home = tempfile::tempdir().unwrap();
    let base = home.path().join(".xworkmate/threads");
    std::fs::create_dir_all(&base).unwrap();
    std::os::unix::fs::symlink(home.path(), base.join("a")).unwrap();
    assert_eq!(claim(&base, &key("a")).unwrap(), base.join("a-2"));
    assert!(!home.path().join(OWNER).exists());
}
