//! Users by name, from a file in the form that `htpasswd` writes or from a list, and the look-up that does not tell who
//! exists: for a name that nobody has, it gives the hash of somebody else to spend the same time on.

use crate::hash::{HashFault, PasswordHash};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tidegate_access::{Identity, LogIn};

/// Of a file of users.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
pub const USERS_MAX: usize = 100_000;
/// What `htpasswd` takes as well.
pub const USER_NAME_BYTES_MAX: usize = 255;

/// Faults of a file that are told at once; a file of another kind has one in each line.
const FAULTS_MAX: usize = 10;

/// Everybody who may log in, at one moment. Never empty.
#[derive(Debug, PartialEq, Eq)]
pub struct Users {
    positions: HashMap<Box<str>, usize>,
    entries: Vec<Entry>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    user: Arc<Identity>,
    hash: PasswordHash,
}

/// What there is to verify.
#[derive(Debug, Clone)]
pub struct Found<'u> {
    /// `None`: nobody has the name. The hash is then that of somebody else, and whatever it says, the answer is no.
    pub user: Option<&'u Arc<Identity>>,
    pub hash: &'u PasswordHash,
}

/// Why a user cannot be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserFault {
    NoColon,
    NoName,
    NameTooLong,
    ControlCharacter,
    /// Header fields would end up with the name without it, which may be somebody else's.
    SpaceAround,
    /// A colon ends the name in what clients send (RFC 7617 section 2).
    ColonInName,
    Hash(HashFault),
    /// The name stands in an earlier line, or entry, of that number, counted from 1.
    Twice(usize),
    TooMany,
    NotText,
    TooLarge,
    /// The file names nobody, as one does that is being written.
    Nobody,
}

impl UserFault {
    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            UserFault::Hash(fault) => fault.help(),
            UserFault::NoColon | UserFault::NoName => "a line is `name:hash`, as `htpasswd -B` writes it",
            UserFault::NameTooLong | UserFault::ControlCharacter | UserFault::SpaceAround | UserFault::ColonInName => {
                "give the user another name"
            }
            UserFault::Twice(_) => "remove one of them",
            UserFault::TooMany | UserFault::TooLarge => "this many users are better kept by a service that `proxy` asks",
            UserFault::NotText => "a line is `name:hash`, in UTF-8",
            UserFault::Nobody => "add a user, or refuse everybody with `deny \"all\"`",
        }
    }
}

impl fmt::Display for UserFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UserFault::NoColon => f.write_str("there is no `:` between a name and a hash"),
            UserFault::NoName => f.write_str("there is no name before the `:`"),
            UserFault::NameTooLong => write!(f, "the name is longer than {USER_NAME_BYTES_MAX} bytes"),
            UserFault::ControlCharacter => f.write_str("the name has a control character in it"),
            UserFault::SpaceAround => f.write_str("the name has space around it, which header fields cannot have"),
            UserFault::ColonInName => f.write_str("the name has a `:` in it, which no client can send"),
            UserFault::Hash(fault) => fault.fmt(f),
            UserFault::Twice(first) => write!(f, "the name stands in line {first} as well"),
            UserFault::TooMany => write!(f, "there are more than {USERS_MAX} users"),
            UserFault::NotText => f.write_str("it is not UTF-8 text"),
            UserFault::TooLarge => write!(f, "the file is larger than {} MiB", FILE_BYTES_MAX >> 20),
            UserFault::Nobody => f.write_str("the file names no user"),
        }
    }
}

/// A line of a file that cannot be used, counted from 1; 0 is the file itself. Quotes nothing: what stands in the wrong
/// place may be a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineFault<F> {
    pub line: usize,
    pub fault: F,
}

impl<F: fmt::Display> fmt::Display for LineFault<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => self.fault.fmt(f),
            line => write!(f, "line {line}: {}", self.fault),
        }
    }
}

impl Users {
    /// The lines of a file: `name:hash`, and perhaps `:` and a remark behind it. Empty lines and those that begin with
    /// `#` mean nothing.
    ///
    /// Gives the first faults when there is any: a file counts as a whole or not at all.
    pub fn parse(bytes: &[u8]) -> Result<Users, Vec<LineFault<UserFault>>> {
        let whole = |fault| vec![LineFault { line: 0, fault }];
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(whole(UserFault::TooLarge));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| whole(UserFault::NotText))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut users, mut faults) = (UsersDraft::default(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let added = match line.split_once(':') {
                None => Err(UserFault::NoColon),
                Some((name, rest)) => users.add(name, rest.split(':').next().unwrap_or_default(), number),
            };
            faults.extend(added.err().map(|fault| LineFault { line: number, fault }));
            if faults.len() >= FAULTS_MAX || matches!(added, Err(UserFault::TooMany)) {
                break;
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        users.finish().ok_or_else(|| whole(UserFault::Nobody))
    }

    /// Names with their hashes; the fault comes with the position of its entry. `None` is an empty list.
    pub fn listed<'a>(list: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Option<Users>, (usize, UserFault)> {
        let mut users = UsersDraft::default();
        for (position, (name, hash)) in list.into_iter().enumerate() {
            if name.contains(':') {
                return Err((position, UserFault::ColonInName));
            }
            users.add(name, hash, position + 1).map_err(|fault| (position, fault))?;
        }
        Ok(users.finish())
    }

    /// What to verify for a name. `draw` is the same whenever the name is, and nobody outside can know it: it decides
    /// whose hash stands in for a name that nobody has, so that such a name costs what names of this list cost, each
    /// time the same.
    pub fn find(&self, name: &[u8], draw: u64) -> Found<'_> {
        let position = std::str::from_utf8(name).ok().and_then(|name| self.positions.get(name));
        match position {
            Some(position) => Found { user: Some(&self.entries[*position].user), hash: &self.entries[*position].hash },
            None => Found { user: None, hash: &self.entries[(draw % self.entries.len() as u64) as usize].hash },
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How many have a hash that is guessed fast by whoever has it.
    pub fn weak(&self) -> usize {
        self.entries.iter().filter(|entry| entry.hash.weakness().is_some()).count()
    }

    /// Never: a list that names nobody is a fault.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[derive(Default)]
struct UsersDraft {
    positions: HashMap<Box<str>, usize>,
    entries: Vec<Entry>,
    lines: Vec<usize>,
}

impl UsersDraft {
    fn add(&mut self, name: &str, hash: &str, line: usize) -> Result<(), UserFault> {
        if name.is_empty() {
            return Err(UserFault::NoName);
        }
        if name.len() > USER_NAME_BYTES_MAX {
            return Err(UserFault::NameTooLong);
        }
        if name.chars().any(char::is_control) {
            return Err(UserFault::ControlCharacter);
        }
        if name.trim() != name {
            return Err(UserFault::SpaceAround);
        }
        let hash = PasswordHash::parse(hash).map_err(UserFault::Hash)?;
        if let Some(first) = self.positions.get(name) {
            return Err(UserFault::Twice(self.lines[*first]));
        }
        if self.entries.len() >= USERS_MAX {
            return Err(UserFault::TooMany);
        }
        self.positions.insert(name.into(), self.entries.len());
        self.entries.push(Entry { user: Arc::new(Identity::of_name(name, LogIn::Password)), hash });
        self.lines.push(line);
        Ok(())
    }

    fn finish(self) -> Option<Users> {
        (!self.entries.is_empty()).then_some(Users { positions: self.positions, entries: self.entries })
    }
}

#[cfg(test)]
mod tests {
    use super::{LineFault, UserFault, Users};
    use crate::hash::HashFault;

    const BCRYPT: &str = "$2y$04$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";

    #[test]
    fn a_file_is_read_as_htpasswd_writes_it() {
        let text = format!("\u{feff}# staff\nalice:{BCRYPT}\r\n\n  \nbob:{BCRYPT}:a remark\nÄnne:{BCRYPT}\n");
        let users = Users::parse(text.as_bytes()).expect("a good file");
        let check = |name: &[u8], is_there: bool| {
            let found = users.find(name, 7);
            assert_eq!(found.user.map(|user| user.name.as_bytes()), is_there.then_some(name), "{name:?}");
            assert_eq!(found.hash.reveal(), BCRYPT);
        };
        check(b"alice", true);
        check(b"bob", true);
        check("Änne".as_bytes(), true);
        check(b"Alice", false);
        check(b"", false);
        check(b"\xff", false);
        assert_eq!(users.len(), 3);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_by_line() {
        let check = |text: &str, expected: &[(usize, UserFault)]| {
            let expected: Vec<_> = expected.iter().map(|(line, fault)| LineFault { line: *line, fault: *fault }).collect();
            assert_eq!(Users::parse(text.as_bytes()).err(), Some(expected), "{text:?}");
        };
        check("", &[(0, UserFault::Nobody)]);
        check("# only a remark\n", &[(0, UserFault::Nobody)]);
        check("alice", &[(1, UserFault::NoColon)]);
        check(&format!("\n:{BCRYPT}"), &[(2, UserFault::NoName)]);
        check(&format!("a\tb:{BCRYPT}"), &[(1, UserFault::ControlCharacter)]);
        check(&format!("alice :{BCRYPT}"), &[(1, UserFault::SpaceAround)]);
        check(&format!("{}:{BCRYPT}", "a".repeat(256)), &[(1, UserFault::NameTooLong)]);
        check(&format!("alice:{BCRYPT}\n\nalice:{BCRYPT}"), &[(3, UserFault::Twice(1))]);
        check("alice:secret\nbob:", &[(1, UserFault::Hash(HashFault::PlainText)), (2, UserFault::Hash(HashFault::Empty))]);
        check(&"x\n".repeat(1000), &(1..=10).map(|line| (line, UserFault::NoColon)).collect::<Vec<_>>());
        assert_eq!(Users::parse(b"a:\xff").err(), Some(vec![LineFault { line: 0, fault: UserFault::NotText }]));
    }

    #[test]
    fn no_message_quotes_the_file() {
        let faults = Users::parse(b"my password\nalice:hunter2\n").expect_err("no hashes");
        let said = faults.iter().map(|fault| format!("{fault} {}", fault.fault.help())).collect::<Vec<_>>().join("\n");
        assert!(!said.contains("hunter2") && !said.contains("my password"), "{said}");
        assert!(said.contains("line 2: the password is plain text"), "{said}");
    }

    #[test]
    fn weak_hashes_are_counted() {
        let text =
            format!("alice:{BCRYPT}\nbob:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0\ncarol:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
        assert_eq!(Users::parse(text.as_bytes()).expect("a good file").weak(), 2);
        assert_eq!(Users::parse(format!("alice:{BCRYPT}").as_bytes()).expect("a good file").weak(), 0);
    }

    #[test]
    fn a_list_is_held_to_the_same() {
        let check = |list: &[(&str, &str)], expected: Result<usize, (usize, UserFault)>| {
            let users = Users::listed(list.iter().copied());
            assert_eq!(users.map(|users| users.map_or(0, |users| users.len())), expected);
        };
        check(&[], Ok(0));
        check(&[("alice", BCRYPT), ("bob", BCRYPT)], Ok(2));
        check(&[("alice", BCRYPT), ("alice", BCRYPT)], Err((1, UserFault::Twice(1))));
        check(&[("a:b", BCRYPT)], Err((0, UserFault::ColonInName)));
        check(&[("alice", "secret")], Err((0, UserFault::Hash(HashFault::PlainText))));
    }

    #[test]
    fn a_name_that_nobody_has_costs_what_one_of_the_list_costs() {
        let other = "$2y$05$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";
        let users = Users::listed([("alice", BCRYPT), ("bob", other)]).expect("a list").expect("two users");
        let stand_in = |draw: u64| users.find(b"nobody", draw).hash.reveal();
        assert_eq!(stand_in(4), stand_in(4));
        assert_ne!(stand_in(4), stand_in(5));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        bolero::check!().for_each(|bytes: &[u8]| {
            if let Ok(users) = Users::parse(bytes) {
                assert!(!users.is_empty());
            }
        });
    }
}
