//! `Accept-Encoding` (RFC 9110 section 12.5.3): which codings a client takes, and how gladly. Foreign input; what is
//! malformed counts for nothing.

use tidegate_model::Coding;
use tidegate_wire::preferences::{Quality, preferences};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Accepted {
    zstd: Option<Quality>,
    brotli: Option<Quality>,
    gzip: Option<Quality>,
    identity: Option<Quality>,
    /// `*`: each that is not named.
    others: Option<Quality>,
}

impl Accepted {
    pub fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Accepted {
        let mut accepted = Accepted::default();
        for (name, quality) in values.flat_map(preferences) {
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            let place = match () {
                () if is(b"zstd") => &mut accepted.zstd,
                () if is(b"br") => &mut accepted.brotli,
                () if is(b"gzip") || is(b"x-gzip") => &mut accepted.gzip,
                () if is(b"identity") => &mut accepted.identity,
                () if name == b"*" => &mut accepted.others,
                () => continue,
            };
            // Said twice: a refusal is not to be overheard.
            *place = Some(place.map_or(quality, |known| known.min(quality)));
        }
        accepted
    }

    /// The one that the client likes best, and of those it likes equally the first of `offered`. `None`: as it is,
    /// which a client also gets that has refused that and everything else (RFC 9110 section 12.5.3 leaves it to the
    /// server).
    pub fn best(&self, offered: &[Coding]) -> Option<Coding> {
        let mut best: Option<(Quality, Coding)> = None;
        for coding in offered {
            let quality = self.quality(*coding);
            if quality > best.map_or(0, |(known, _)| known) {
                best = Some((quality, *coding));
            }
        }
        // One that would rather have it as it is says so.
        best.filter(|(quality, _)| self.identity.is_none_or(|identity| identity <= *quality)).map(|(_, coding)| coding)
    }

    fn quality(&self, coding: Coding) -> Quality {
        let named = match coding {
            Coding::Zstd => self.zstd,
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
        };
        named.or(self.others).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Accepted;
    use tidegate_model::Coding;

    #[test]
    fn the_client_chooses_and_then_the_server() {
        let check = |values: &[&str], expected: Option<Coding>| {
            let accepted = Accepted::of(values.iter().map(|value| value.as_bytes()));
            assert_eq!(accepted.best(&Coding::ALL), expected, "{values:?}");
        };
        check(&[], None);
        check(&[""], None);
        check(&["gzip, deflate, br, zstd"], Some(Coding::Zstd));
        check(&["gzip, deflate, br"], Some(Coding::Brotli));
        check(&["gzip", "br"], Some(Coding::Brotli));
        check(&["GZIP;Q=0.5, x"], Some(Coding::Gzip));
        check(&["x-gzip"], Some(Coding::Gzip));
        check(&["gzip;q=1.0, br;q=0.9, zstd;q=0.1"], Some(Coding::Gzip));
        check(&["zstd;q=0, *"], Some(Coding::Brotli));
        check(&["*;q=0.1"], Some(Coding::Zstd));
        check(&["*;q=0"], None);
        check(&["identity"], None);
        check(&["identity;q=1, gzip;q=0.5"], None);
        check(&["identity;q=0.5, gzip"], Some(Coding::Gzip));
        check(&["identity;q=0"], None);
        check(&["identity;q=0, gzip;q=0.001"], Some(Coding::Gzip));
        check(&["gzip;q=0.0001"], None);
        check(&["gzip;q=2"], None);
        check(&["gzip;q="], None);
        check(&["gzip;level=9;q=0.3"], Some(Coding::Gzip));
        check(&["gzip, gzip;q=0"], None);
        check(&["deflate, compress"], None);
        check(&[",,;;=, ;q=1,\u{e4}"], None);
    }

    #[test]
    fn of_those_that_are_offered_the_first_wins() {
        let accepted = Accepted::of([&b"gzip, br, zstd"[..]].into_iter());
        assert_eq!(accepted.best(&[Coding::Gzip, Coding::Zstd]), Some(Coding::Gzip));
        assert_eq!(accepted.best(&[]), None);
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().for_each(|text: &[u8]| {
            let _ = Accepted::of([text].into_iter()).best(&Coding::ALL);
        });
    }
}
