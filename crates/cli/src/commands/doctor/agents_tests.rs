use pretty_assertions::assert_eq;

use super::*;

#[tokio::test]
async fn a_folder_without_hosts_is_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for root in [folder.path().to_owned(), folder.path().join("none")] {
        let hosts = hosts(&root).unwrap();
        let want = Check::ok(WHAT, "none running, nothing left over");
        assert_eq!(look(&hosts).await.unwrap(), [want]);
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("deadbeefdeadbeef");
    std::fs::create_dir(&host).unwrap();
    std::fs::write(host.join("state.json"), "{\"pid\":1").unwrap();
    let found = look(&hosts(folder.path()).unwrap()).await.unwrap();
    let known = Check::ok(WHAT, "none running, nothing left over");
    assert_eq!((found.len(), &found[0]), (2, &known));
    let said = format!("{:?}", found[1]);
    assert!(said.contains("deadbeefdeadbeef cannot be read"), "{said}");
    assert!(said.contains("remove the folder"), "{said}");
}
