//! How long to wait before the next try. Decided here, waited elsewhere.

use std::time::Duration;

use threadline_retry::{
    Backoff,
    table::{GATEWAY_AWAY, GATEWAY_NEAR, GATEWAY_REFUSES},
};

/// For so long after a gateway that worked went away it is looked for closely: it is restarting. One that is
/// ready may turn the first try away, and is to be found within a second and a half.
const CLOSE: Duration = Duration::from_secs(120);

/// The pause before a gateway that refused us is tried again. `tries`: how often it refused us in a row
/// before; `soon`: how soon it may be tried at all.
pub(super) fn after_refusal(tries: u32, soon: Duration, dice: f64) -> Duration {
    let refuses = Backoff {
        first: soon.min(GATEWAY_REFUSES.first),
        ..GATEWAY_REFUSES
    };
    refuses.thrown(refuses.at_most(tries), dice)
}

/// Whether the gateway is looked for closely.
pub(super) fn is_close(gone: Option<Duration>) -> bool {
    gone.is_some_and(|gone| gone < CLOSE)
}

/// The pause before the next try. `close`: it is looked for closely, because it worked lately or a turn
/// waits for it. `tries`: how many failed since it was last looked for closely. `asked`: what the gateway itself
/// asked for.
pub(super) fn pause(close: bool, tries: u32, asked: Option<Duration>, dice: f64) -> Duration {
    match close {
        true => {
            let most = GATEWAY_NEAR.longest;
            GATEWAY_NEAR.thrown(asked.unwrap_or(most).min(most), dice)
        }
        false => {
            let grown = GATEWAY_AWAY.at_most(tries).max(asked.unwrap_or_default());
            GATEWAY_AWAY.thrown(grown.min(GATEWAY_AWAY.longest), dice)
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_gateway_that_worked_is_looked_for_closely_for_two_minutes() {
        let gone = |s| is_close(Some(Duration::from_secs(s)));
        assert_eq!(pause(gone(0), 0, None, 1.0), ms(600));
        assert_eq!(pause(gone(0), 0, None, 0.0), ms(240));
        assert_eq!(pause(gone(119), 500, None, 1.0), ms(600));
        // Also when it asks for more.
        assert_eq!(pause(gone(60), 3, Some(ms(5000)), 1.0), ms(600));
        assert_eq!(pause(gone(60), 3, Some(ms(200)), 1.0), ms(200));
        assert_eq!(pause(gone(120), 0, None, 1.0), ms(500));
    }

    #[test]
    fn a_gateway_that_refused_us_is_tried_again_more_and_more_rarely() {
        let pauses = |soon: u64| -> Vec<u64> {
            let soon = Duration::from_secs(soon);
            let tries = (0..6).map(|tries| after_refusal(tries, soon, 1.0));
            tries.map(|pause| pause.as_secs()).collect()
        };
        assert_eq!(pauses(60), [5, 10, 20, 40, 60, 60]);
        assert_eq!(pauses(3), [3, 6, 12, 24, 48, 60]);
        assert_eq!(after_refusal(0, Duration::from_secs(60), 0.0), ms(4000));
    }

    #[test]
    fn then_ever_more_rarely_up_to_half_a_minute() {
        let far: Vec<u64> = (0..9)
            .map(|tries| pause(false, tries, None, 1.0).as_millis() as u64)
            .collect();
        assert_eq!(
            far,
            [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]
        );
        assert_eq!(pause(false, u32::MAX, None, 0.0), ms(15000));
        assert_eq!(pause(false, 0, Some(ms(9000)), 1.0), ms(9000));
        assert_eq!(pause(false, 0, Some(ms(90_000)), 1.0), ms(30_000));
    }
}
