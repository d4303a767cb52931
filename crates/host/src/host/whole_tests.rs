use pretty_assertions::assert_eq;

use super::*;
use crate::Spec;

#[test]
fn a_task_that_breaks_ends_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let spec = Spec::new("s", vec!["agent".into()], folder.path().to_owned());
    let place = Place::at(folder.path().to_owned());
    let shared = Rc::new(Shared::new(&place, &spec, "boot".into()).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        whole(&shared, async {}).await.unwrap();
        assert_eq!(*shared.end.borrow(), None);
        let broken = whole(&shared, async { panic!("as if by mistake") }).await;
        assert!(broken.is_err());
    });
    assert_eq!(*shared.end.borrow(), Some(EndCause::Broken));
}
