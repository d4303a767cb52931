use pretty_assertions::assert_eq;

use super::{super::Health, *};

#[test]
fn a_folder_that_others_can_enter_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d");
    let mode =
        |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    assert_eq!(data_folder(&path).health, Health::Ok);
    std::fs::create_dir(&path).unwrap();
    mode(0o750);
    let found = data_folder(&path);
    assert_eq!(
        (found.health, found.found),
        (
            Health::Warn,
            format!("{} can be entered by others (mode 750)", path.display())
        )
    );
    mode(0o700);
    assert_eq!(
        data_folder(&path),
        Check::ok("data folder", path.display().to_string())
    );
    assert_eq!(
        std::fs::read_dir(&path).unwrap().count(),
        0,
        "nothing is left behind"
    );
    std::fs::write(path.join("f"), "").unwrap();
    assert_eq!(data_folder(&path.join("f")).health, Health::Bad);
}
