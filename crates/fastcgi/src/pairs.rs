//! A bounded list of names and values, in one buffer: the params of a request before they become records.
//! What is in it is decided in `params`; how it travels in `record`.

use std::fmt;

/// Names and values of a request together, unless the configuration says otherwise.
pub const PAIRS_BYTES_DEFAULT: usize = 64 << 10;
/// The most that a configuration may allow; keeps every length and place within 32 bits.
pub const PAIRS_BYTES_LIMIT: usize = 16 << 20;

/// Names and values in the order they were put in. Clear it to use its memory again.
#[derive(Debug, Clone)]
pub struct Pairs {
    bytes: Vec<u8>,
    list: Vec<Ends>,
    bytes_max: usize,
}

/// Where a name and its value end in the buffer. The name starts where the pair before ends.
#[derive(Debug, Clone, Copy)]
struct Ends {
    name: u32,
    value: u32,
}

/// The pairs have more bytes than their bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairsTooLarge {
    pub bytes_max: usize,
}

impl Default for Pairs {
    fn default() -> Self {
        Pairs::new(PAIRS_BYTES_DEFAULT)
    }
}

impl Pairs {
    /// For at most `bytes_max` bytes of names and values, and never more than [`PAIRS_BYTES_LIMIT`].
    pub fn new(bytes_max: usize) -> Pairs {
        Pairs { bytes: Vec::new(), list: Vec::new(), bytes_max: bytes_max.min(PAIRS_BYTES_LIMIT) }
    }

    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// Appends a pair whose name and value are the concatenation of their pieces. After an error the list is as it was.
    /// The empty pair is left out: it would cost no byte of the bound.
    pub fn push<'p>(
        &mut self,
        name: impl IntoIterator<Item = &'p [u8]>,
        value: impl IntoIterator<Item = &'p [u8]>,
    ) -> Result<(), PairsTooLarge> {
        let start = self.bytes.len();
        let written = self.append(name).and_then(|name| Ok(Ends { name, value: self.append(value)? }));
        match written {
            Ok(ends) if ends.value as usize > start => self.list.push(ends),
            Ok(_) => {}
            Err(too_large) => {
                self.bytes.truncate(start);
                return Err(too_large);
            }
        }
        Ok(())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.list.iter().map(move |ends| {
            let (name_end, value_end) = (ends.name as usize, ends.value as usize);
            let pair = (&self.bytes[start..name_end], &self.bytes[name_end..value_end]);
            start = value_end;
            pair
        })
    }

    /// The value of the first pair of that name.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter().find(|pair| pair.0 == name).map(|pair| pair.1)
    }

    fn append<'p>(&mut self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<u32, PairsTooLarge> {
        for piece in pieces {
            if piece.len() > self.bytes_max - self.bytes.len() {
                return Err(PairsTooLarge { bytes_max: self.bytes_max });
            }
            self.bytes.extend_from_slice(piece);
        }
        Ok(self.bytes.len() as u32)
    }
}

impl fmt::Display for PairsTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the FastCGI params have more than {} bytes", self.bytes_max)
    }
}

impl std::error::Error for PairsTooLarge {}

#[cfg(test)]
mod tests {
    use super::{Pairs, PairsTooLarge};

    #[test]
    fn pairs_come_back_in_order_and_an_empty_value_is_a_value() {
        let mut pairs = Pairs::default();
        for (name, value) in [("A", "1"), ("B", ""), ("A", "2")] {
            pairs.push([name.as_bytes()], [value.as_bytes()]).expect("small");
        }
        pairs.push([], []).expect("nothing");
        let all: Vec<(&[u8], &[u8])> = pairs.iter().collect();
        assert_eq!(all, [(&b"A"[..], &b"1"[..]), (b"B", b""), (b"A", b"2")]);
        assert_eq!(pairs.get(b"A"), Some(&b"1"[..]));
        assert_eq!(pairs.get(b"C"), None);
    }

    #[test]
    fn a_pair_beyond_the_bound_is_refused_and_leaves_no_trace() {
        let mut pairs = Pairs::new(8);
        let too_large = Err(PairsTooLarge { bytes_max: 8 });
        pairs.push([&b"AB"[..], b"C"], [&b"D"[..]]).expect("four bytes");
        assert_eq!(pairs.push([&b"NAME"[..]], [&b"V"[..]]), too_large);
        assert_eq!(pairs.push([&b"N"[..]], [&b"VALU"[..]]), too_large);
        assert_eq!(pairs.push([&b"N"[..]], [&b"VAL"[..]]), Ok(()));
        assert_eq!(pairs.push([&b"N"[..]], []), too_large);
        assert_eq!(pairs.iter().count(), 2);
    }
}
