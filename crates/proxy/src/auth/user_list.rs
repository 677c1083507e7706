//! Users and keys as all workers see them: those that the configuration lists, and those of a file, which changes while
//! it runs. A file is read by whoever compiles a configuration and whenever it changed (`control`), never by a worker.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use tidegate_model::{ApiKeySource, AuthUsers};
use tidegate_passwords::{ApiKeyFault, ApiKeys, FILE_BYTES_MAX, LineFault, UserFault, Users};

/// The users of a `basic-auth`, or the keys of an `api-key`, as they are now.
#[derive(Debug)]
pub struct WatchedList<T>(RwLock<Arc<T>>);

pub type UserList = WatchedList<Users>;
pub type ApiKeyList = WatchedList<ApiKeys>;

impl<T> WatchedList<T> {
    fn new(list: T) -> Arc<WatchedList<T>> {
        Arc::new(WatchedList(RwLock::new(Arc::new(list))))
    }

    pub fn current(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Why a list cannot be had.
#[derive(Debug)]
pub struct ListFault {
    message: String,
    help: &'static str,
}

impl ListFault {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        self.help
    }
}

impl fmt::Display for ListFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ListFault {}

/// What a file may have a line of each for.
pub trait ListOfFile: Sized + PartialEq {
    /// As messages call it.
    const WHAT: &'static str;
    /// What to do about a file that cannot be read.
    const UNREADABLE: &'static str;

    /// The faults of lines, and what to do about the first of them.
    fn of_bytes(bytes: &[u8]) -> Result<Self, (Vec<String>, &'static str)>;
    fn count(&self) -> usize;
    /// What is to be said of a file that was read and that is used.
    fn warn(&self, path: &Path);
}

impl ListOfFile for Users {
    const WHAT: &'static str = "users";
    const UNREADABLE: &'static str = "name a file that exists and that this user may read, as `htpasswd -B -c` makes one";

    fn of_bytes(bytes: &[u8]) -> Result<Users, (Vec<String>, &'static str)> {
        Users::parse(bytes).map_err(|faults| said(&faults, UserFault::help))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn warn(&self, path: &Path) {
        if let Some(said) = weak_hashes_said(path, self) {
            tracing::warn!(help = STRONGER_HASHES, "{said}");
        }
    }
}

impl ListOfFile for ApiKeys {
    const WHAT: &'static str = "keys";
    const UNREADABLE: &'static str =
        "name a file that exists and that this user may read; `tidegate hash-key NAME` writes its lines";

    fn of_bytes(bytes: &[u8]) -> Result<ApiKeys, (Vec<String>, &'static str)> {
        ApiKeys::parse(bytes).map_err(|faults| said(&faults, ApiKeyFault::help))
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn warn(&self, _: &Path) {}
}

fn said<F: Copy + fmt::Display>(faults: &[LineFault<F>], help: impl Fn(F) -> &'static str) -> (Vec<String>, &'static str) {
    (faults.iter().map(ToString::to_string).collect(), faults.first().map_or("", |first| help(first.fault)))
}

/// Files that some configuration uses, each read once whoever names it.
#[derive(Debug)]
pub struct ListFiles<T>(Mutex<HashMap<PathBuf, Weak<WatchedList<T>>>>);

pub type UserFiles = ListFiles<Users>;
pub type ApiKeyFiles = ListFiles<ApiKeys>;

impl<T> Default for ListFiles<T> {
    fn default() -> ListFiles<T> {
        ListFiles(Mutex::default())
    }
}

impl ListFiles<Users> {
    /// The users that a configuration means. A file that is in use already is not read again.
    pub fn list(&self, users: &AuthUsers) -> Result<Arc<UserList>, ListFault> {
        let fault = |fault: UserFault| ListFault { message: fault.to_string(), help: fault.help() };
        match users {
            AuthUsers::File(path) => self.of_file(path),
            AuthUsers::Listed(listed) => {
                let pairs = listed.iter().map(|(name, hash)| (name.as_str(), hash.reveal()));
                let users = Users::listed(pairs).map_err(|(_, why)| fault(why))?;
                users.map(WatchedList::new).ok_or_else(|| fault(UserFault::Nobody))
            }
        }
    }
}

impl ListFiles<ApiKeys> {
    /// The keys that a configuration means. A file that is in use already is not read again.
    pub fn list(&self, keys: &ApiKeySource) -> Result<Arc<ApiKeyList>, ListFault> {
        let fault = |fault: ApiKeyFault| ListFault { message: fault.to_string(), help: fault.help() };
        match keys {
            ApiKeySource::File(path) => self.of_file(path),
            ApiKeySource::Listed(listed) => {
                let entries = listed.iter().map(|key| (key.name.as_str(), key.hash.reveal(), key.expires.as_deref()));
                let keys = ApiKeys::listed(entries).map_err(|(_, why)| fault(why))?;
                keys.map(WatchedList::new).ok_or_else(|| fault(ApiKeyFault::Nobody))
            }
        }
    }
}

impl<T: ListOfFile> ListFiles<T> {
    fn of_file(&self, path: &Path) -> Result<Arc<WatchedList<T>>, ListFault> {
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|_, list| list.strong_count() > 0);
        if let Some(known) = lists.get(path).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let read = read_list::<T>(path)?;
        read.warn(path);
        let list = WatchedList::new(read);
        lists.insert(path.to_owned(), Arc::downgrade(&list));
        Ok(list)
    }

    /// Reads all files again. One that cannot be used leaves what it had. Gives how much each changed file has now, and
    /// the faults.
    pub fn read_again(&self) -> (Vec<(PathBuf, usize)>, Vec<ListFault>) {
        let lists: Vec<(PathBuf, Arc<WatchedList<T>>)> = {
            let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lists.iter().filter_map(|(path, list)| Some((path.clone(), list.upgrade()?))).collect()
        };
        let (mut renewed, mut faults) = (Vec::new(), Vec::new());
        for (path, list) in lists {
            match read_list::<T>(&path) {
                Ok(read) if read == *list.current() => {}
                Ok(read) => {
                    read.warn(&path);
                    renewed.push((path, read.count()));
                    *list.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
                }
                Err(fault) => faults.push(fault),
            }
        }
        (renewed, faults)
    }
}

/// What to do about hashes that are weak.
pub const STRONGER_HASHES: &str = "make them anew with `tidegate hash-password`, or `htpasswd -B`";

/// Said of a file that was read, when some of its hashes are guessed fast.
pub fn weak_hashes_said(path: &Path, users: &Users) -> Option<String> {
    let (weak, all, path) = (users.weak(), users.len(), path.display());
    let said =
        || format!("{weak} of {all} hashes in {path} are weak (MD5 or SHA-1): whoever gets the file has most passwords soon");
    (weak > 0).then(said)
}

/// The users of a file, or why there are none.
pub fn read_users(path: &Path) -> Result<Users, ListFault> {
    read_list(path)
}

/// The keys of a file, or why there are none.
pub fn read_api_keys(path: &Path) -> Result<ApiKeys, ListFault> {
    read_list(path)
}

fn read_list<T: ListOfFile>(path: &Path) -> Result<T, ListFault> {
    let (what, name) = (T::WHAT, path.display());
    let unreadable =
        |error: io::Error| ListFault { message: format!("the {what} in {name} cannot be read: {error}"), help: T::UNREADABLE };
    // A pipe would have the control thread wait for whoever writes into it.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    T::of_bytes(&bytes).map_err(|(faults, help)| {
        let message = format!("the {what} in {name} cannot be used: {}", faults.join("; "));
        ListFault { message, help }
    })
}

#[cfg(test)]
mod tests {
    use super::{ApiKeyFiles, UserFiles};
    use std::fs;
    use std::sync::Arc;
    use tidegate_model::{ApiKeySource, AuthUsers};

    const HASH: &str = "$2y$04$abcdefghijklmnopqrstuuBAKPJ4WMJ80HCOjzIoIrpCb2b5Pk1Iy";
    /// Of `one`.
    const KEY: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";

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

    #[test]
    fn a_file_of_keys_that_vanishes_or_breaks_leaves_those_that_were_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let (files, keys) = (ApiKeyFiles::default(), ApiKeySource::File(path.clone()));
        fs::write(&path, format!("ci:{KEY}\n")).expect("a file");
        let list = files.list(&keys).expect("a good file");
        let name = || list.current().find(b"one").map(|key| key.user.name.to_string());
        let check = |faults: usize, expected: &str| {
            let (_, seen) = files.read_again();
            assert_eq!((seen.len(), name().as_deref()), (faults, Some(expected)), "{seen:?}");
            seen.first().map(ToString::to_string).unwrap_or_default()
        };
        fs::remove_file(&path).expect("gone");
        let said = check(1, "ci");
        assert!(said.contains("the keys in") && said.contains("cannot be read"), "{said}");
        fs::write(&path, format!("# keys\ndeploy:{KEY}\nother:secret\n")).expect("a file");
        let said = check(1, "ci");
        assert!(said.contains("line 3: what stands for the key is no SHA-256") && !said.contains("secret"), "{said}");
        fs::write(&path, format!("deploy:{KEY}\n")).expect("a file");
        check(0, "deploy");
    }
}
