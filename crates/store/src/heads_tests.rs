use pretty_assertions::assert_eq;

use super::*;

fn stream(n: usize) -> StreamId {
    StreamId::new(format!("s{n}"))
}

#[test]
fn each_layer_can_be_dropped_alone() {
    let (mut heads, s) = (Heads::default(), stream(0));
    assert_eq!(heads.get(&s), None);
    heads.set(&s, 1);
    heads.keep_work();
    heads.committed();
    heads.set(&s, 2);
    heads.keep_work();
    heads.set(&s, 3);
    assert_eq!(heads.get(&s), Some(3));
    heads.drop_work();
    assert_eq!(heads.get(&s), Some(2));
    heads.committed();
    assert_eq!(heads.get(&s), Some(2));
    heads.forget();
    assert_eq!(heads.get(&s), None);
}

#[test]
fn the_memory_is_bounded_and_keeps_the_newest_batch() {
    let mut heads = Heads::default();
    for n in 0..3 * MOST {
        heads.set(&stream(n), 1);
        heads.keep_work();
        heads.committed();
        assert!(heads.committed.len() <= MOST);
        assert_eq!(heads.get(&stream(n)), Some(1));
    }
}
