//! Which content coding a client gets (RFC 9110 section 12.5.3). Where the coded files are is told in `root`; nothing
//! is compressed here.

use tidegate_wire::preferences::{Quality, preferences};

/// A coding, as a file beside the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Zstandard,
    Brotli,
    Gzip,
}

impl Coding {
    /// In the order that decides when a client does not mind.
    pub const ALL: [Coding; 3] = [Coding::Zstandard, Coding::Brotli, Coding::Gzip];

    /// The name in `content-encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstandard => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// What is appended to the name of the original.
    pub fn suffix(self) -> &'static str {
        match self {
            Coding::Zstandard => ".zst",
            Coding::Brotli => ".br",
            Coding::Gzip => ".gz",
        }
    }

    fn is_called(self, name: &[u8]) -> bool {
        // Section 8.4.1.3: `x-gzip` is the same as `gzip`.
        name.eq_ignore_ascii_case(self.name().as_bytes()) || (self == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// The coding to send out of those that are there; None is the original.
///
/// The original is also what a client gets that accepts nothing at all: section 12.5.3 prefers that to an error.
pub(crate) fn choose(accept_encoding: Option<&[u8]>, available: &[Coding]) -> Option<Coding> {
    let accepted = Accepted::parse(accept_encoding?);
    // Nobody who names codings expects the original to win unless its weight says so.
    let original = accepted.identity.or(accepted.any).unwrap_or(0);
    let mut best = None;
    for coding in Coding::ALL.into_iter().filter(|coding| available.contains(coding)) {
        let quality = accepted.codings[coding as usize].or(accepted.any).unwrap_or(0);
        if quality > 0 && quality >= original && best.is_none_or(|(_, before)| quality > before) {
            best = Some((coding, quality));
        }
    }
    best.map(|(coding, _)| coding)
}

/// Weights of the codings that we know; the first mention counts.
#[derive(Debug, Default)]
struct Accepted {
    codings: [Option<Quality>; Coding::ALL.len()],
    identity: Option<Quality>,
    /// `*`, which stands for all that are not named.
    any: Option<Quality>,
}

impl Accepted {
    fn parse(list: &[u8]) -> Accepted {
        let mut accepted = Accepted::default();
        for (name, quality) in preferences(list) {
            let place = match Coding::ALL.into_iter().find(|coding| coding.is_called(name)) {
                Some(coding) => &mut accepted.codings[coding as usize],
                None if name == b"*" => &mut accepted.any,
                None if name.eq_ignore_ascii_case(b"identity") => &mut accepted.identity,
                None => continue,
            };
            place.get_or_insert(quality);
        }
        accepted
    }
}

#[cfg(test)]
mod tests {
    use super::{Coding, choose};

    #[test]
    fn weights_decide_then_our_order() {
        let check = |accept_encoding: &str, available: &[Coding], expected: Option<Coding>| {
            assert_eq!(choose(Some(accept_encoding.as_bytes()), available), expected, "{accept_encoding}");
        };
        let all = &Coding::ALL;
        let only_gzip = &[Coding::Gzip];
        check("", all, None);
        check("gzip, deflate, br, zstd", all, Some(Coding::Zstandard));
        check("gzip, deflate, br", all, Some(Coding::Brotli));
        check("GZIP", all, Some(Coding::Gzip));
        check("x-gzip", all, Some(Coding::Gzip));
        check("deflate", all, None);
        check("gzip;q=1, br;q=0.9", all, Some(Coding::Gzip));
        check("gzip;q=0", all, None);
        check("*", all, Some(Coding::Zstandard));
        check("zstd;q=0, *", all, Some(Coding::Brotli));
        check("*;q=0", all, None);
        check("gzip, *;q=0", all, Some(Coding::Gzip));
        check("identity", all, None);
        check("identity;q=0", all, None);
        check("identity;q=0, *", only_gzip, Some(Coding::Gzip));
        check("identity;q=0, br", only_gzip, None);
        check("identity;q=1, gzip;q=0.5", all, None);
        check("identity;q=0.5, gzip;q=0.5", all, Some(Coding::Gzip));
        check("gzip;q=0.5, *;q=1", only_gzip, None);
        check("gzip;q=x", all, None);
        check("gzip;q=0, gzip", all, None);
        check("br, gzip", &[], None);
        check("br, gzip", only_gzip, Some(Coding::Gzip));
        assert_eq!(choose(None, all), None);
    }

    #[test]
    fn no_header_panics_and_only_what_is_there_is_chosen() {
        bolero::check!().with_type::<(Vec<u8>, u8)>().for_each(|(header, there): &(Vec<u8>, u8)| {
            let available: Vec<Coding> = Coding::ALL.into_iter().filter(|coding| there >> (*coding as u8) & 1 == 1).collect();
            if let Some(coding) = choose(Some(header), &available) {
                assert!(available.contains(&coding));
            }
        });
    }
}
