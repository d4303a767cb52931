use pretty_assertions::assert_eq;

use super::*;

#[tokio::test]
async fn a_folder_without_hosts_is_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for root in [folder.path().to_owned(), folder.path().join("none")] {
        let hosts = hosts(&root).unwrap();
        let want = Check::ok(WHAT, "none running, nothing left over");
        assert_eq!(look(&hosts).await.unwrap(), want);
    }
}
