//! Users as all workers see them: those that the configuration lists, and those of a file, which changes while it runs.
//! A file is read by whoever compiles a configuration and whenever it changed (`control`), never by a worker.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use tidegate_model::AuthUsers;
use tidegate_passwords::{FILE_BYTES_MAX, LineFault, UserFault, Users};

/// The users of a `basic-auth`, as they are now.
#[derive(Debug)]
pub struct UserList(RwLock<Arc<Users>>);

impl UserList {
    pub fn current(&self) -> Arc<Users> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why users cannot be had.
#[derive(Debug)]
pub enum ListFault {
    Unreadable { path: PathBuf, error: io::Error },
    Lines { path: PathBuf, faults: Vec<LineFault> },
    Listed(UserFault),
}

impl ListFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            ListFault::Unreadable { .. } => "name a file that exists and that this user may read, as `htpasswd -B -c` makes one",
            ListFault::Lines { faults, .. } => faults.first().map_or("", |first| first.fault.help()),
            ListFault::Listed(fault) => fault.help(),
        }
    }
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListFault::Unreadable { path, error } => write!(f, "the users in {} cannot be read: {error}", path.display()),
            ListFault::Lines { path, faults } => {
                write!(f, "the users in {} cannot be used: ", path.display())?;
                for (position, fault) in faults.iter().enumerate() {
                    write!(f, "{}{fault}", if position > 0 { "; " } else { "" })?;
                }
                Ok(())
            }
            ListFault::Listed(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for ListFault {}

/// Files of users that some configuration uses, each read once whoever names it.
#[derive(Debug, Default)]
pub struct UserFiles(Mutex<HashMap<PathBuf, Weak<UserList>>>);

impl UserFiles {
    /// The users that a configuration means. A file that is in use already is not read again.
    pub fn list(&self, users: &AuthUsers) -> Result<Arc<UserList>, ListFault> {
        match users {
            AuthUsers::File(path) => self.of_file(path),
            AuthUsers::Listed(listed) => {
                let pairs = listed.iter().map(|(name, hash)| (name.as_str(), hash.reveal()));
                let users = Users::listed(pairs).map_err(|(_, fault)| ListFault::Listed(fault))?;
                let users = users.ok_or(ListFault::Listed(UserFault::Nobody))?;
                Ok(Arc::new(UserList(RwLock::new(Arc::new(users)))))
            }
        }
    }

    fn of_file(&self, path: &Path) -> Result<Arc<UserList>, ListFault> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|_, list| list.strong_count() > 0);
        if let Some(known) = lists.get(path).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let list = Arc::new(UserList(RwLock::new(Arc::new(read_users(path)?))));
        lists.insert(path.to_owned(), Arc::downgrade(&list));
        Ok(list)
    }

    /// Reads all files again. One that cannot be used leaves the users that it had. Gives how many users each changed
    /// file has now, and the faults.
    pub fn read_again(&self) -> (Vec<(PathBuf, usize)>, Vec<ListFault>) {
        let lists: Vec<(PathBuf, Arc<UserList>)> = {
            let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lists.iter().filter_map(|(path, list)| Some((path.clone(), list.upgrade()?))).collect()
        };
        let (mut renewed, mut faults) = (Vec::new(), Vec::new());
        for (path, list) in lists {
            match read_users(&path) {
                Ok(users) if users == *list.current() => {}
                Ok(users) => {
                    renewed.push((path, users.len()));
                    *list.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
                }
                Err(fault) => faults.push(fault),
            }
        }
        (renewed, faults)
    }
}

/// The users of a file, or why there are none.
pub fn read_users(path: &Path) -> Result<Users, ListFault> {
    let unreadable = |error: io::Error| ListFault::Unreadable { path: path.to_owned(), error };
    // A pipe would have the control thread wait for whoever writes into it.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    Users::parse(&bytes).map_err(|faults| ListFault::Lines { path: path.to_owned(), faults })
}

#[cfg(test)]
mod tests {
    use super::UserFiles;
    use std::fs;
    use std::sync::Arc;
    use tidegate_model::AuthUsers;

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";

    #[test]
    fn a_file_is_one_list_and_keeps_its_users_while_it_is_bad() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("htpasswd");
        let (files, users) = (UserFiles::default(), AuthUsers::File(path.clone()));
        let missing = files.list(&users).expect_err("there is no file").to_string();
        assert!(missing.contains("cannot be read"), "{missing}");

        fs::write(&path, format!("alice:{HASH}\n")).expect("a file");
        let list = files.list(&users).expect("a good file");
        assert!(Arc::ptr_eq(&list, &files.list(&users).expect("a good file")));
        let check = |text: &str, renewed: &[usize], faults: &[&str], there: &[(&str, bool)]| {
            fs::write(&path, text).expect("a file");
            let (seen_renewed, seen_faults) = files.read_again();
            assert_eq!(seen_renewed.iter().map(|(_, users)| *users).collect::<Vec<_>>(), renewed, "{text}");
            let said: Vec<String> =
                seen_faults.iter().map(|fault| fault.to_string().replace(&path.display().to_string(), "FILE")).collect();
            assert_eq!(said, faults, "{text}");
            for (name, is_there) in there {
                assert_eq!(list.current().find(name.as_bytes(), 0).user.is_some(), *is_there, "{name} after {text}");
            }
        };
        check(&format!("alice:{HASH}\n"), &[], &[], &[("alice", true)]);
        check(&format!("alice:{HASH}\nbob:{HASH}\n"), &[2], &[], &[("alice", true), ("bob", true)]);
        let fault = "the users in FILE cannot be used: line 1: the password is plain text, or hashed in a way that is no protection (crypt)";
        check("alice:secret\n", &[], &[fault], &[("alice", true), ("bob", true)]);
        check("", &[], &["the users in FILE cannot be used: the file names no user"], &[("alice", true)]);
        check(&format!("bob:{HASH}\n"), &[1], &[], &[("alice", false), ("bob", true)]);

        drop(list);
        fs::write(&path, "alice:secret\n").expect("a file");
        assert!(files.list(&users).is_err(), "nobody used it meanwhile, so it was read again");
    }
}
