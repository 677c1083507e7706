//! The `Range` header (RFC 9110 section 14): which bytes of a representation a client wants. Whether it may have only
//! those is decided in `conditions`, and how several are sent in `representation`.

/// A header that names more is answered with everything: many small parts cost more than they save (section 17.15).
const RANGES_MAX: usize = 16;
/// How many ranges may overlap another one. Section 17.15 calls more than two an attack or a mistake.
const OVERLAPS_MAX: usize = 2;

/// Bytes from `first` up to and including `last`, both within the representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    pub fn length(self) -> u64 {
        self.last - self.first + 1
    }

    fn overlaps(self, other: ByteRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether both together have no gap.
    fn joins(self, other: ByteRange) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    fn union(self, other: ByteRange) -> ByteRange {
        ByteRange { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selection {
    /// No range, a malformed one, or too much to ask for.
    Whole,
    Part(ByteRange),
    /// At least two, with gaps between them, in the order in which the client named them (section 15.3.7.2).
    Parts(Vec<ByteRange>),
    Unsatisfiable,
}

/// Reads a `Range` header for a representation of `length` bytes.
pub(crate) fn select(header: &[u8], length: u64) -> Selection {
    let Some(specs) = parse(header) else { return Selection::Whole };
    let has_suffix = specs.iter().any(|spec| matches!(spec, Spec::Suffix(1..)));
    if length == 0 && has_suffix {
        // The last bytes of nothing are satisfiable (section 14.1.2), but `Content-Range` cannot express them.
        return Selection::Whole;
    }
    let ranges: Vec<ByteRange> = specs.into_iter().filter_map(|spec| spec.within(length)).collect();
    match coalesced(&ranges).as_deref() {
        None => Selection::Whole,
        Some([]) => Selection::Unsatisfiable,
        Some([range]) => Selection::Part(*range),
        Some(ranges) => Selection::Parts(ranges.to_vec()),
    }
}

#[derive(Debug, Clone, Copy)]
enum Spec {
    Between { first: u64, last: u64 },
    From(u64),
    Suffix(u64),
}

impl Spec {
    /// `1-5`, `1-` or `-5`.
    fn parse(text: &[u8]) -> Option<Spec> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        match (&text[..dash], &text[dash + 1..]) {
            (b"", suffix) => Some(Spec::Suffix(number(suffix)?)),
            (first, b"") => Some(Spec::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Spec::Between { first, last })
            }
        }
    }

    fn within(self, length: u64) -> Option<ByteRange> {
        let end = length.checked_sub(1)?;
        let (first, last) = match self {
            Spec::Between { first, last } => (first, last.min(end)),
            Spec::From(first) => (first, end),
            Spec::Suffix(0) => return None,
            Spec::Suffix(count) => (length.saturating_sub(count), end),
        };
        (first <= end).then_some(ByteRange { first, last })
    }
}

/// The ranges of a header; None when it is to be ignored (section 14.2).
fn parse(header: &[u8]) -> Option<Vec<Spec>> {
    let header = header.trim_ascii();
    let equals = header.iter().position(|byte| *byte == b'=')?;
    if !header[..equals].eq_ignore_ascii_case(b"bytes") {
        return None;
    }
    let mut specs = Vec::new();
    // Section 5.6.1: empty elements of a list are skipped.
    for element in header[equals + 1..].split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
    {
        if specs.len() == RANGES_MAX {
            return None;
        }
        specs.push(Spec::parse(element)?);
    }
    (!specs.is_empty()).then_some(specs)
}

/// Any number of digits; what is beyond 64 bits is beyond the end of every file.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// Joins ranges that overlap or touch, each at the place of the first of them; None when too many overlap.
fn coalesced(ranges: &[ByteRange]) -> Option<Vec<ByteRange>> {
    let mut kept: Vec<ByteRange> = Vec::with_capacity(ranges.len());
    let mut overlaps = 0;
    for range in ranges {
        overlaps += usize::from(kept.iter().any(|other| other.overlaps(*range)));
        // Those kept have gaps between them, so what the union gains can join no further one.
        let union = kept.iter().filter(|other| other.joins(*range)).fold(*range, |union, other| union.union(*other));
        let place = kept.iter().position(|other| other.joins(*range)).unwrap_or(kept.len());
        kept.retain(|other| !other.joins(*range));
        kept.insert(place, union);
    }
    (overlaps <= OVERLAPS_MAX).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, Selection, select};
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};

    fn selection(ranges: &[(u64, u64)]) -> Selection {
        match ranges {
            [(first, last)] => Selection::Part(ByteRange { first: *first, last: *last }),
            ranges => Selection::Parts(ranges.iter().map(|(first, last)| ByteRange { first: *first, last: *last }).collect()),
        }
    }

    #[test]
    fn ranges_are_cut_to_the_representation() {
        let check = |header: &str, expected: &[(u64, u64)]| {
            assert_eq!(select(header.as_bytes(), 100), selection(expected), "{header}");
        };
        check("bytes=0-0", &[(0, 0)]);
        check("bytes=0-99", &[(0, 99)]);
        check("bytes=10-200", &[(10, 99)]);
        check("bytes=10-99999999999999999999999", &[(10, 99)]);
        check("bytes=99-", &[(99, 99)]);
        check("bytes=-1", &[(99, 99)]);
        check("bytes=-1000", &[(0, 99)]);
        check(" Bytes=5-6 ", &[(5, 6)]);
        check("bytes=,5-6, ,", &[(5, 6)]);
        check("bytes=0005-6", &[(5, 6)]);
        check("bytes=0-1,200-300", &[(0, 1)]);
        check("bytes=-0,0-1", &[(0, 1)]);
    }

    #[test]
    fn several_ranges_keep_their_order_and_join_when_they_touch() {
        let check = |header: &str, expected: &[(u64, u64)]| {
            assert_eq!(select(header.as_bytes(), 100), selection(expected), "{header}");
        };
        check("bytes=0-1,3-4", &[(0, 1), (3, 4)]);
        check("bytes=50-60, 0-1 ,-5", &[(50, 60), (0, 1), (95, 99)]);
        check("bytes=0-1,2-4", &[(0, 4)]);
        check("bytes=2-4,0-1", &[(0, 4)]);
        check("bytes=0-10,5-20", &[(0, 20)]);
        check("bytes=0-10,50-60,5-20", &[(0, 20), (50, 60)]);
        check("bytes=80-81,0-1,3-4,2-2", &[(80, 81), (0, 4)]);
        check("bytes=0-,-1,5-6", &[(0, 99)]);
        let sixteen: Vec<(u64, u64)> = (0..16).map(|place| (place * 5, place * 5 + 1)).collect();
        let header: Vec<String> = sixteen.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        check(&format!("bytes={}", header.join(",")), &sixteen);
    }

    #[test]
    fn what_cannot_be_read_or_costs_too_much_is_answered_with_everything() {
        let seventeen: Vec<String> = (0..17).map(|place| format!("{}-{}", place * 5, place * 5 + 1)).collect();
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-4",
            "bytes=0-1,5-4",
            "bytes=0-1,x",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes=1 -2",
            "bytes=1--2",
            "bytes =0-1",
            "items=0-1",
            "bytes:0-1",
            "0-1",
            "bytes=0-,0-,0-,0-",
            "bytes=0-10,5-15,12-20,18-30",
            &format!("bytes={}", seventeen.join(",")),
            &format!("bytes=0-{}", ",0-".repeat(10_000)),
        ] {
            assert_eq!(select(header.as_bytes(), 100), Selection::Whole, "{header}");
        }
        assert_eq!(select(b"bytes=-5", 0), Selection::Whole);
    }

    #[test]
    fn ranges_beyond_the_end_are_unsatisfiable() {
        let check =
            |header: &str, length: u64| assert_eq!(select(header.as_bytes(), length), Selection::Unsatisfiable, "{header}");
        check("bytes=100-", 100);
        check("bytes=100-200,500-", 100);
        check("bytes=99999999999999999999-", 100);
        check("bytes=-0", 100);
        check("bytes=0-", 0);
        check("bytes=-0", 0);
        check("bytes=0-5", 0);
    }

    /// A range as it is written, and the bytes of a representation that it covers.
    #[derive(Debug, Clone, Copy)]
    enum Written {
        Between(u64, u64),
        From(u64),
        Suffix(u64),
    }

    fn written() -> impl Strategy<Value = Written> {
        prop_oneof![
            (0..40_u64, 0..40_u64).prop_map(|(first, last)| Written::Between(first, last)),
            (0..40_u64).prop_map(Written::From),
            (0..40_u64).prop_map(Written::Suffix),
        ]
    }

    impl Written {
        fn text(self) -> String {
            match self {
                Written::Between(first, last) => format!("{first}-{last}"),
                Written::From(first) => format!("{first}-"),
                Written::Suffix(count) => format!("-{count}"),
            }
        }

        fn covers(self, place: u64, length: u64) -> bool {
            match self {
                Written::Between(first, last) => first <= place && place <= last,
                Written::From(first) => first <= place,
                Written::Suffix(count) => place + count >= length,
            }
        }
    }

    proptest! {
        #[test]
        fn the_parts_are_the_bytes_that_a_naive_reader_would_send(
            written in proptest::collection::vec(written(), 1..18),
            length in 0..32_u64,
        ) {
            let text: Vec<String> = written.iter().map(|range| range.text()).collect();
            let selected = select(format!("bytes={}", text.join(",")).as_bytes(), length);
            let wanted: Vec<bool> = (0..length).map(|place| written.iter().any(|range| range.covers(place, length))).collect();
            let is_malformed = written.iter().any(|range| matches!(range, Written::Between(first, last) if first > last));
            let parts = match selected {
                Selection::Whole => {
                    // Overlaps are the only other reason, and need at least three further ranges.
                    let has_suffix = written.iter().any(|range| matches!(range, Written::Suffix(1..)));
                    prop_assert!(is_malformed || written.len() > 3 || (length == 0 && has_suffix));
                    return Ok(());
                }
                Selection::Part(part) => vec![part],
                Selection::Parts(parts) => {
                    prop_assert!(parts.len() > 1);
                    parts
                }
                Selection::Unsatisfiable => Vec::new(),
            };
            prop_assert!(!is_malformed && written.len() <= 16);
            let sent: Vec<bool> =
                (0..length).map(|place| parts.iter().any(|part| part.first <= place && place <= part.last)).collect();
            prop_assert_eq!(sent, wanted);
            for (index, part) in parts.iter().enumerate() {
                prop_assert!(part.first <= part.last && part.last < length);
                prop_assert!(parts[..index].iter().all(|other| other.last + 1 < part.first || part.last + 1 < other.first));
            }
        }

        #[test]
        fn parts_of_any_size_stay_within(header in "bytes=[0-9,-]{0,60}", length in any::<u64>()) {
            let parts = match select(header.as_bytes(), length) {
                Selection::Whole | Selection::Unsatisfiable => Vec::new(),
                Selection::Part(part) => vec![part],
                Selection::Parts(parts) => parts,
            };
            prop_assert!(parts.iter().all(|part| part.first <= part.last && part.last < length));
        }
    }

    #[test]
    fn no_header_panics() {
        bolero::check!().with_type::<(Vec<u8>, u64)>().for_each(|(header, length): &(Vec<u8>, u64)| {
            let _ = select(header, *length);
            let _ = select(&[b"bytes=", header.as_slice()].concat(), *length);
        });
    }
}
