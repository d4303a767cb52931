use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use threadline_contract::Code;

use super::*;

#[test]
fn a_link_where_our_own_folder_was_is_named_and_never_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (space, elsewhere) = (folder.path().join("space"), folder.path().join("elsewhere"));
    for dir in [&space, &elsewhere] {
        std::fs::create_dir(dir).unwrap();
    }
    symlink(&elsewhere, space.join(".xworkmate")).unwrap();
    let root = Root::open(&space).unwrap();
    let codes = [
        Ledger::read(&root).unwrap_err().code,
        Ledger::default().write(&root).unwrap_err().code,
    ];
    assert_eq!(codes, [Code::StateDamaged; 2]);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}
