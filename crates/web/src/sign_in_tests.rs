use super::*;

#[test]
fn wrong_tokens_are_slowed_down_and_forgotten_again() {
    let tries = Tries::default();
    let begin = Instant::now();
    for _ in 0..WRONG_TRIES {
        assert_eq!(tries.wait(begin), None);
        tries.wrong(begin);
    }
    assert_eq!(tries.wait(begin), Some(TRY_EVERY));
    let soon = begin + Duration::from_secs(1);
    assert_eq!(tries.wait(soon), Some(Duration::from_secs(2)));
    // One more after each pause, and no more than that.
    let later = begin + TRY_EVERY;
    assert_eq!(tries.wait(later), None);
    tries.wrong(later);
    assert_eq!(tries.wait(later), Some(TRY_EVERY));
    let much_later = later + TRY_EVERY * (WRONG_TRIES + 1);
    tries.wrong(much_later);
    assert_eq!(tries.wait(much_later), None);
}
