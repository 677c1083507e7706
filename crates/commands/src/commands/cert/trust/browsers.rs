//! The databases of Firefox and Chromium, which do not read the system's store: one in each profile of Firefox, and one
//! for all of Chromium's kind. They are NSS's, and `certutil` writes them.

use super::tool::{Call, Failure, run};
use super::{Action, Outcome, Root, What};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders below the home folder whose own folders are profiles of Firefox or its kin.
const PROFILES: &[&str] = &[
    ".mozilla/firefox",
    ".config/mozilla/firefox",
    ".librewolf",
    "snap/firefox/common/.mozilla/firefox",
    ".var/app/org.mozilla.firefox/.mozilla/firefox",
    ".var/app/org.mozilla.firefox/config/mozilla/firefox",
    ".var/app/io.gitlab.librewolf-community/.librewolf",
];
/// Databases that browsers of Chromium's kind share; the newer ones use the second when there is no first.
const SHARED: &[&str] = &[".pki/nssdb", ".local/share/pki/nssdb"];
/// Where packages keep a home folder of their own for each program, and where in it the database may be.
const CONFINED: &[(&str, &[&str])] = &[("snap", &["current/.pki/nssdb"]), (".var/app", &[".pki/nssdb", "data/pki/nssdb"])];
/// By these it is seen that there is a browser of Chromium's kind.
const CHROMIUM_PROFILES: &[&str] =
    &[".config/chromium", ".config/google-chrome", ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi"];
const CHROMIUM_PROGRAMS: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser"];
/// People have a handful.
const DATABASES_MAX: usize = 100;

/// Whose browsers these are.
struct User {
    home: PathBuf,
    /// Set when root works for somebody else, whose files must stay theirs.
    as_user: Option<(u32, u32)>,
}

pub fn apply(action: Action, root: &Root) -> Vec<Outcome> {
    let Some(user) = User::find() else {
        return vec![not("browsers", "there is no home folder to look in ($HOME)".to_owned(), None)];
    };
    let mut databases = databases(&user.home);
    let has_shared = SHARED.iter().any(|shared| user.home.join(shared).join("cert9.db").is_file());
    if action == Action::Install && !has_shared && has_chromium(&user.home) {
        databases.insert(0, user.home.join(SHARED[0]));
    }
    if databases.is_empty() {
        let why = format!("below {} no browser keeps certificates", user.home.display());
        return vec![not("browsers", why, None)];
    }
    if let Err(Failure::Missing) = user.certutil(&["-H".to_owned()], &[]) {
        let places = databases.iter().map(|database| database.display().to_string()).collect::<Vec<_>>().join(", ");
        let remedy = "install it: apt install libnss3-tools, dnf install nss-tools, pacman -S nss, zypper install mozilla-nss-tools, apk add nss-tools";
        return vec![not(&places, "certutil is not installed".to_owned(), Some(remedy.to_owned()))];
    }
    databases.iter().map(|database| user.apply(action, root, database)).collect()
}

impl User {
    fn find() -> Option<User> {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
        let caller = number("SUDO_UID").zip(number("SUDO_GID")).filter(|(user, _)| *user != 0);
        match caller.filter(|_| rustix::process::geteuid().is_root()) {
            Some(ids) => home_of(ids.0).map(|home| User { home, as_user: Some(ids) }),
            None => {
                let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
                Some(User { home, as_user: None })
            }
        }
    }

    fn apply(&self, action: Action, root: &Root, database: &Path) -> Outcome {
        let name = format!("{} {}", root.name, root.short());
        let place = database.display().to_string();
        let is_there = self.holds(database, &name, root);
        match (action, is_there) {
            (Action::Install, true) | (Action::Uninstall, false) => Outcome { place, what: What::Already },
            (Action::Install, false) => Outcome { place, what: self.install(database, &name, root) },
            (Action::Uninstall, true) => match self.certutil(&remove(database, &name), &[]) {
                Ok(_) => Outcome { place, what: What::Done("") },
                Err(failure) => not(&place, said(failure), None),
            },
        }
    }

    fn install(&self, database: &Path, name: &str, root: &Root) -> What {
        if !database.join("cert9.db").is_file()
            && let Err(why) = self.create(database)
        {
            return What::Not { why, remedy: None };
        }
        // `C`: a CA whose servers are trusted, and nothing else. The certificate comes by standard input, since this
        // user may not be allowed to read the state folder.
        let mut arguments = certutil("-A", database, name);
        arguments.extend(["-t", "C,,", "-a"].map(str::to_owned));
        match self.certutil(&arguments, root.pem.as_bytes()) {
            Ok(_) => What::Done(""),
            Err(failure) => {
                // With a password it takes the certificate and refuses to trust it; that half is of no use.
                let _ = self.certutil(&remove(database, name), &[]);
                let why = said(failure);
                let remedy = why.contains("SEC_ERROR_BAD_PASSWORD").then(|| {
                    let (folder, file) = (database.display(), root.file.display());
                    format!("the database has a password; certutil asks for it: certutil -A -d sql:{folder} -t C,, -n '{name}' -i {file}")
                });
                What::Not { why, remedy }
            }
        }
    }

    /// The same certificate under this name, and trusted.
    fn holds(&self, database: &Path, name: &str, root: &Root) -> bool {
        if !database.join("cert9.db").is_file() {
            return false;
        }
        let mut arguments = certutil("-L", database, name);
        arguments.push("-r".to_owned());
        let same = self.certutil(&arguments, &[]).is_ok_and(|der| der == root.der.as_ref());
        same && self.certutil(&["-L".to_owned(), "-d".to_owned(), format!("sql:{}", database.display())], &[]).is_ok_and(|list| {
            let list = String::from_utf8_lossy(&list).into_owned();
            list.lines().filter_map(|line| line.strip_prefix(name)).any(|flags| flags.trim().starts_with('C'))
        })
    }

    fn create(&self, database: &Path) -> Result<(), String> {
        // Its user makes it, so that it is theirs.
        let folder = database.display().to_string();
        let made = run(Call {
            program: "mkdir",
            arguments: vec!["-p".to_owned(), "-m".to_owned(), "700".to_owned(), folder.clone()],
            stdin: &[],
            user: self.ids(),
        });
        made.map_err(said)?;
        let arguments = ["-N", "-d", &format!("sql:{folder}"), "--empty-password"].map(str::to_owned);
        self.certutil(&arguments, &[]).map(drop).map_err(said)
    }

    fn certutil(&self, arguments: &[String], stdin: &[u8]) -> Result<Vec<u8>, Failure> {
        run(Call { program: "certutil", arguments: arguments.to_vec(), stdin, user: self.ids() })
    }

    fn ids(&self) -> Option<(u32, u32, PathBuf)> {
        self.as_user.map(|(user, group)| (user, group, self.home.clone()))
    }
}

/// All that are there, in a fixed order.
fn databases(home: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = SHARED.iter().map(|shared| home.join(shared)).collect();
    for (folder, inside) in CONFINED {
        found.extend(folders(&home.join(folder)).iter().flat_map(|folder| inside.iter().map(|place| folder.join(place))));
    }
    found.extend(PROFILES.iter().flat_map(|profiles| folders(&home.join(profiles))));
    found.retain(|database| database.join("cert9.db").is_file());
    found.truncate(DATABASES_MAX);
    found
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn has_chromium(home: &Path) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed = |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    CHROMIUM_PROFILES.iter().any(|profile| home.join(profile).is_dir()) || CHROMIUM_PROGRAMS.iter().any(is_installed)
}

/// A command on one certificate. The empty file is the password of databases that have none, so that nobody is asked.
fn certutil(command: &str, database: &Path, name: &str) -> Vec<String> {
    [command, "-d", &format!("sql:{}", database.display()), "-n", name, "-f", "/dev/null"].map(str::to_owned).to_vec()
}

fn remove(database: &Path, name: &str) -> Vec<String> {
    certutil("-D", database, name)
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Missing => "a program is not installed".to_owned(),
        Failure::Failed(said) => said,
    }
}

/// The line of a user in `/etc/passwd`.
fn home_of(user: u32) -> Option<PathBuf> {
    let table = fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.get(2).and_then(|id| id.parse().ok()) == Some(user))?;
    line.get(5).map(PathBuf::from).filter(|home| home.is_absolute())
}

fn not(place: &str, why: String, remedy: Option<String>) -> Outcome {
    Outcome { place: place.to_owned(), what: What::Not { why, remedy } }
}
