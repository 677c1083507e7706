//! A server that comes into use gets its share of the requests little by little: caches fill, code is compiled,
//! connections are opened.

use std::time::Duration;

/// All of its weight, in 1/256.
pub const WHOLE_SHARE: u32 = 256;
/// What a server begins with, a tenth: with less it would hardly be warmed by the requests that it gets.
const SHARE_LEAST: u32 = 26;

/// The share of its weight that a server has `elapsed` after it came into use, in 1/256: grows in a straight line from
/// a tenth to all of it over `whole`. A `whole` of zero is no slow start.
pub fn share(elapsed: Duration, whole: Duration) -> u32 {
    if elapsed >= whole {
        return WHOLE_SHARE;
    }
    let grown = u128::from(WHOLE_SHARE - SHARE_LEAST) * elapsed.as_nanos() / whole.as_nanos();
    SHARE_LEAST + grown as u32
}

#[cfg(test)]
mod tests {
    use super::share;
    use std::time::Duration;

    #[test]
    fn the_share_grows_in_a_straight_line_from_a_tenth() {
        let check = |elapsed_ms: u64, whole_ms: u64, expected: u32| {
            let seen = share(Duration::from_millis(elapsed_ms), Duration::from_millis(whole_ms));
            assert_eq!(seen, expected, "{elapsed_ms} ms of {whole_ms}");
        };
        check(0, 30_000, 26);
        check(15_000, 30_000, 141);
        check(29_999, 30_000, 255);
        check(30_000, 30_000, 256);
        check(u64::MAX, 30_000, 256);
        check(0, 0, 256);
        check(0, u64::MAX, 26);
    }
}
