use std::path::PathBuf;

use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;

fn read(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let path = Path::new(OsStr::from_bytes(bytes));
    parts(path).map(|all| all.into_iter().map(|part| part.as_bytes()).collect())
}

#[test]
fn one_spelling_per_file() {
    let none: &[&[u8]] = &[
        b"/", b"/a", b"a/", b"a//b", b".", b"./a", b"a/.", b"a/./b", b"..", b"a/../b", b"a\0b",
    ];
    for bad in none {
        assert_eq!(read(bad), None, "{:?}", OsStr::from_bytes(bad));
    }
    assert_eq!(read(b""), Some(vec![]));
    assert_eq!(read(b"a/...b/ \n"), Some(vec![&b"a"[..], b"...b", b" \n"]));
    assert_eq!(read(b"\xff/\xfe"), Some(vec![&b"\xff"[..], b"\xfe"]));
}

proptest! {
    /// Whatever is accepted stays below any folder it is joined to, and reads back as it was.
    #[test]
    fn accepted_paths_never_climb(bytes in proptest::collection::vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(0u8), any::<u8>()], 0..24))
    {
        if let Some(found) = read(&bytes) {
            prop_assert_eq!(found.join(&b'/'), bytes.clone());
            let joined = PathBuf::from("/root").join(OsStr::from_bytes(&bytes));
            prop_assert!(joined.starts_with("/root"));
            prop_assert!(joined.components().all(|c| c != std::path::Component::ParentDir));
        }
    }

    /// Parts that are fine alone are fine together.
    #[test]
    fn plain_parts_join(names in proptest::collection::vec("[a-z.\\\\ :*\u{e9}]{3,8}", 1..6)) {
        let dots = |n: &&String| n.as_str() == "..";
        prop_assume!(!names.iter().any(|n| dots(&n)));
        let path = names.join("/");
        let want: Vec<&[u8]> = names.iter().map(|n| n.as_bytes()).collect();
        prop_assert_eq!(read(path.as_bytes()), Some(want));
    }
}
