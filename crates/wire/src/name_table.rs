//! Names of fields that mean something in every spelling that servers fold together, and what each means. One look at a
//! name's first letter and length leaves nearly no field of an ordinary message to be compared with any.

/// Names in lower case, each beginning with a letter and shorter than 64 bytes, and what they mean.
pub struct NameTable<T: 'static> {
    entries: &'static [(&'static [u8], T)],
    /// One bit for each length that names of a first letter have.
    lengths: [u64; 26],
}

impl<T: Copy> NameTable<T> {
    pub const fn new(entries: &'static [(&'static [u8], T)]) -> NameTable<T> {
        let mut lengths = [0; 26];
        let mut at = 0;
        while at < entries.len() {
            let name = entries[at].0;
            lengths[(name[0] - b'a') as usize] |= 1 << name.len();
            at += 1;
        }
        NameTable { entries, lengths }
    }

    /// What a name means, however it is spelled.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<T> {
        let letter = (name.first()? | 0x20).wrapping_sub(b'a');
        let lengths = self.lengths.get(usize::from(letter))?;
        if name.len() >= 64 || lengths >> name.len() & 1 == 0 { None } else { self.compare(name) }
    }

    fn compare(&self, name: &[u8]) -> Option<T> {
        self.entries.iter().find(|(known, _)| is_alike(name, known)).map(|(_, meaning)| *meaning)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static [u8]> {
        self.entries.iter().map(|(name, _)| *name)
    }
}

/// Whether servers that make variables of names make one of both. CGI makes `_` of `-` (RFC 3875 section 4.1.18); some
/// make it of everything that is neither letter nor digit.
#[inline]
pub fn is_alike(one: &[u8], other: &[u8]) -> bool {
    let folded = |byte: &u8| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' };
    one.len() == other.len() && one.iter().map(folded).eq(other.iter().map(folded))
}

#[cfg(test)]
mod tests {
    use super::NameTable;

    const TABLE: NameTable<u8> = NameTable::new(&[(b"x-a", 1), (b"x-a-b", 2), (b"te", 3)]);

    #[test]
    fn a_name_is_found_in_every_spelling() {
        let check = |name: &str, expected: Option<u8>| assert_eq!(TABLE.find(name.as_bytes()), expected, "{name}");
        check("x-a", Some(1));
        check("X_A", Some(1));
        check("x.A", Some(1));
        check("X!a|B", Some(2));
        check("tE", Some(3));
        check("te-", None);
        check("x-ab", None);
        check("xa", None);
        check("-x-a", None);
        check("", None);
        check("\u{7f}\u{7f}", None);
        check(&"x".repeat(63), None);
        check(&"x".repeat(64), None);
        check(&"x".repeat(67), None);
    }
}
