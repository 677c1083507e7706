//! What can be wrong with a row, as data, with the line that it stands in and what to do about it. Keys may be quoted:
//! rows are no secrets.

use crate::{
    CHANGED_BYTES_MAX, CHANGED_ROWS_MAX, FILE_BYTES_MAX, KEY_BYTES_MAX, LENGTHS_MAX, REGEXES_MAX, ROWS_MAX, VALUE_BYTES_MAX,
};
use std::fmt;

/// Faults of a file that are told at once; a file of another kind has one in each line.
pub(crate) const FAULTS_MAX: usize = 10;

/// A line that cannot be used, counted from 1; 0 is the file itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    pub line: usize,
    pub fault: RowFault,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => self.fault.fmt(f),
            line => write!(f, "line {line}: {}", self.fault),
        }
    }
}

/// Why something cannot be a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFault {
    NotText,
    FileTooLarge,
    /// A line has that many fields, and not two.
    Fields(usize),
    /// A quotation mark within a field that does not begin with one.
    QuoteInside,
    /// Something stands behind the closing quotation mark.
    BehindQuote,
    /// The text that began there never ends.
    QuoteOpen,
    KeyTooLong,
    ValueTooLong,
    ControlCharacter,
    /// `*` is every key.
    Everything,
    /// A `*` at both ends, or a second one.
    TwoStars,
    /// An address inside a network; the network is named.
    InsideNetwork(String),
    NoNetwork,
    NoAddress,
    Regex(String),
    RegexesTooLarge,
    TooManyRegexes,
    TooManyLengths,
    TooManyRows,
    /// `$3` where the expression has fewer groups.
    NoGroup {
        number: usize,
        groups: usize,
    },
    /// `$` that no number follows.
    Dollar,
    /// The key stands in an earlier line, or row, of that number.
    Twice {
        first: usize,
        key: String,
    },
    TooManyChanged,
    ChangedTooLarge,
    /// Of a row that was kept: what became of it is said in words of another version.
    Unknown,
}

impl RowFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            RowFault::NotText => "save the file as UTF-8",
            RowFault::FileTooLarge | RowFault::TooManyRows => "share the rows out over several maps",
            RowFault::Fields(_) => {
                "a line is `key,value`; a text with a comma in it stands in quotation marks, as in `\"a,b\",value`"
            }
            RowFault::QuoteInside | RowFault::BehindQuote => {
                "a text with a quotation mark in it stands in quotation marks, and the mark twice, as in `\"a \"\"b\"\"\",value`"
            }
            RowFault::QuoteOpen => "end the text with a quotation mark",
            RowFault::KeyTooLong | RowFault::ValueTooLong => "shorten it",
            RowFault::ControlCharacter => "remove it: no header and no URL can have one",
            RowFault::Everything => "say what holds for all other keys with `default=`",
            RowFault::TwoStars => {
                "use a regular expression, as in `~^/a/.*/b$`; for a text that has such a `*` in it, write `\\` in front"
            }
            RowFault::InsideNetwork(_) => "write the network, or the address alone",
            RowFault::NoAddress => {
                "write `192.0.2.7` without more zeros, `192.0.2.0/24` for many; with `\\` in front it is a text that is meant as it stands"
            }
            RowFault::NoNetwork => "write `192.0.2.0/24`; with `\\` in front it is a text that is meant as it stands",
            RowFault::Regex(why) if why.starts_with("Unicode not allowed") => {
                "expressions compare bytes; a part that is to compare characters is written `(?u:…)`, as in `(?u:[à-ü])`"
            }
            RowFault::Regex(_) => "for a text that begins with `~`, write `\\` in front",
            RowFault::RegexesTooLarge | RowFault::TooManyRegexes => {
                "write rows with a beginning (`/a/*`) or an end (`*.a`) instead"
            }
            RowFault::TooManyLengths => "share the rows out over several maps, or use exact keys",
            RowFault::NoGroup { .. } => {
                "a group is a part of the expression in parentheses; for a dollar that stands for itself, write `$$`"
            }
            RowFault::Dollar => "for a dollar that stands for itself, write `$$`",
            RowFault::Twice { .. } => "remove one of them",
            RowFault::TooManyChanged | RowFault::ChangedTooLarge => {
                "take the changed rows over into the file, and drop them here"
            }
            RowFault::Unknown => "run the same version on all hosts, or drop the row",
        }
    }
}

impl fmt::Display for RowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowFault::NotText => f.write_str("it is not UTF-8 text"),
            RowFault::FileTooLarge => write!(f, "the file is larger than {} MiB", FILE_BYTES_MAX >> 20),
            RowFault::Fields(1) => f.write_str("there is no `,` between a key and a value"),
            RowFault::Fields(count) => write!(f, "{count} fields stand where a key and a value belong"),
            RowFault::QuoteInside => f.write_str("a quotation mark stands within a text that does not begin with one"),
            RowFault::BehindQuote => f.write_str("something stands behind the closing quotation mark"),
            RowFault::QuoteOpen => f.write_str("the text in quotation marks that begins here does not end"),
            RowFault::KeyTooLong => write!(f, "the key is longer than {KEY_BYTES_MAX} bytes"),
            RowFault::ValueTooLong => write!(f, "the value is longer than {VALUE_BYTES_MAX} bytes"),
            RowFault::ControlCharacter => f.write_str("a control character stands in it"),
            RowFault::Everything => f.write_str("a key of `*` alone is every key"),
            RowFault::TwoStars => f.write_str("`*` can only stand once, at the start or at the end of a key"),
            RowFault::NoAddress => f.write_str("it looks like an address, or several, and is none"),
            RowFault::NoNetwork => f.write_str("it looks like a network and is none"),
            RowFault::InsideNetwork(network) => write!(f, "it names an address inside a network: `{network}` may be meant"),
            RowFault::Regex(why) => write!(f, "the regular expression is not valid: {why}"),
            RowFault::RegexesTooLarge => f.write_str("the regular expressions of this map are too large once compiled"),
            RowFault::TooManyRegexes => write!(f, "there are more than {REGEXES_MAX} regular expressions"),
            RowFault::TooManyLengths => {
                write!(
                    f,
                    "the keys with a `*` have more than {LENGTHS_MAX} different lengths, each of which is a look of its own"
                )
            }
            RowFault::TooManyRows => write!(f, "there are more than {ROWS_MAX} rows"),
            RowFault::NoGroup { number, groups } => {
                write!(f, "the value has `${number}`, and the expression {groups} group{}", if *groups == 1 { "" } else { "s" })
            }
            RowFault::Dollar => f.write_str("`$` in the value is followed by the number of a group"),
            RowFault::Twice { first: 0, key } => write!(f, "the key `{key}` is changed twice"),
            RowFault::Twice { first, key } => write!(f, "the key `{key}` stands in line {first} as well"),
            RowFault::TooManyChanged => write!(f, "{CHANGED_ROWS_MAX} rows are changed already"),
            RowFault::ChangedTooLarge => {
                write!(f, "the changed rows would be larger than {} KiB together", CHANGED_BYTES_MAX >> 10)
            }
            RowFault::Unknown => f.write_str("another version wrote it"),
        }
    }
}
