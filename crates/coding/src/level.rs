//! How hard to try, by what the thread has left. Pure: who measures is the caller.

use tidegate_model::{Coding, CompressLevel};

/// The share of the last moments in which a thread was at work, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Busy(pub u8);

impl Busy {
    /// Below, half the core is free: the better levels cost nobody anything.
    const CALM: Busy = Busy(40);
    /// Above, each request waits for those before it, and what an answer costs is what all of them wait.
    const PRESSED: Busy = Busy(75);
}

/// The codec's own level. What is fixed stays fixed, within what the codec has.
pub fn level_now(level: CompressLevel, coding: Coding, busy: Busy) -> u8 {
    match (level, coding) {
        (CompressLevel::Fixed(level), _) => level.clamp(1, CompressLevel::MOST),
        (CompressLevel::Auto, _) if busy >= Busy::PRESSED => 1,
        (CompressLevel::Auto, coding) if busy >= Busy::CALM => match coding {
            Coding::Zstd => 2,
            Coding::Brotli => 3,
            Coding::Gzip => 3,
        },
        // About what each codec means by its ordinary level, br aside: its own, 11, is for files that are compressed
        // once.
        (CompressLevel::Auto, coding) => match coding {
            Coding::Zstd => 3,
            Coding::Brotli => 4,
            Coding::Gzip => 5,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{Busy, level_now};
    use tidegate_model::{Coding, CompressLevel};

    #[test]
    fn a_busy_thread_tries_less_hard() {
        let check = |coding: Coding, expected: [u8; 3]| {
            let levels = [10, 50, 90].map(|busy| level_now(CompressLevel::Auto, coding, Busy(busy)));
            assert_eq!(levels, expected, "{coding:?}");
        };
        check(Coding::Zstd, [3, 2, 1]);
        check(Coding::Brotli, [4, 3, 1]);
        check(Coding::Gzip, [5, 3, 1]);
    }

    #[test]
    fn what_is_fixed_stays() {
        let check = |level: u8, expected: u8| {
            for busy in [0, 100] {
                assert_eq!(level_now(CompressLevel::Fixed(level), Coding::Gzip, Busy(busy)), expected);
            }
        };
        check(1, 1);
        check(9, 9);
        check(0, 1);
        check(200, 9);
    }
}
