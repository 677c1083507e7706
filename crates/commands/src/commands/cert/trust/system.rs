//! The system's trust store: a folder into which administrators put roots, and the program that makes of it what others
//! read. Which of the four it is, is seen by the folder.

use super::tool::{Call, Failure};
use super::{Action, Outcome, Root, What};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

struct Store {
    /// Below the root folder.
    anchors: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    /// What is done, in words.
    done: &'static str,
}

/// In the order in which they are looked for. Fedora has an empty folder of Debian's name as well.
const STORES: &[Store] = &[
    // Fedora, RHEL and what comes of them.
    Store {
        anchors: "etc/pki/ca-trust/source/anchors",
        program: "update-ca-trust",
        arguments: &["extract"],
        done: ", and ran update-ca-trust",
    },
    // SUSE.
    Store {
        anchors: "etc/pki/trust/anchors",
        program: "update-ca-certificates",
        arguments: &[],
        done: ", and ran update-ca-certificates",
    },
    // Arch: what `trust anchor` does, with a name that is found again.
    Store {
        anchors: "etc/ca-certificates/trust-source/anchors",
        program: "trust",
        arguments: &["extract-compat"],
        done: ", and ran trust extract-compat",
    },
    // Debian, Ubuntu, Alpine, Gentoo.
    Store {
        anchors: "usr/local/share/ca-certificates",
        program: "update-ca-certificates",
        arguments: &[],
        done: ", and ran update-ca-certificates",
    },
];

type Run<'a> = &'a mut dyn FnMut(Call<'_>) -> Result<Vec<u8>, Failure>;

pub fn apply(action: Action, root: &Root, prefix: &Path, run: Run<'_>) -> Outcome {
    let Some(store) = STORES.iter().find(|store| prefix.join(store.anchors).is_dir()) else {
        let looked_for = STORES.iter().map(|store| prefix.join(store.anchors).display().to_string()).collect::<Vec<_>>();
        let why = format!("it has none of the folders {}", looked_for.join(", "));
        return not("the system's store", why, Some("install the package ca-certificates".to_owned()));
    };
    let file = prefix.join(store.anchors).join(format!("tidegate-{}.crt", root.short()));
    let place = file.display().to_string();
    let changed = match action {
        Action::Install => install(&file, root),
        Action::Uninstall => uninstall(&file),
    };
    match changed {
        Ok(false) => Outcome { place, what: What::Already },
        Ok(true) if prefix != Path::new("/") => {
            Outcome { place, what: What::Done(", for the store's own program to find when it runs there") }
        }
        Ok(true) => update(action, store, &file, run),
        Err(error) => {
            let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
            let word = if action == Action::Uninstall { " --uninstall" } else { "" };
            let remedy = is_denied.then(|| format!("sudo tidegate cert trust{word} --system {}", absolute(&root.file).display()));
            not(&place, error.to_string(), remedy)
        }
    }
}

/// Whether something had to be done.
fn install(file: &Path, root: &Root) -> io::Result<bool> {
    if fs::read(file).is_ok_and(|present| present == root.pem.as_bytes()) {
        return Ok(false);
    }
    // A store that is made anew in this moment must not read a half.
    let unfinished = file.with_extension("new");
    fs::write(&unfinished, &root.pem).and_then(|()| fs::rename(&unfinished, file)).inspect_err(|_| {
        // It may not even be there.
        let _ = fs::remove_file(&unfinished);
    })?;
    Ok(true)
}

fn uninstall(file: &Path) -> io::Result<bool> {
    match fs::remove_file(file) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A file that no store has taken up is removed, so that the next try does not take it for done.
fn update(action: Action, store: &Store, file: &Path, run: Run<'_>) -> Outcome {
    let arguments = store.arguments.iter().map(ToString::to_string).collect();
    let Err(failure) = run(Call { program: store.program, arguments, stdin: &[], user: None }) else {
        return Outcome { place: file.display().to_string(), what: What::Done(store.done) };
    };
    if action == Action::Install {
        let _ = fs::remove_file(file);
    }
    let why = match failure {
        Failure::Missing => format!("{} is not installed", store.program),
        Failure::Failed(said) => format!("{} failed: {said}", store.program),
    };
    not(&file.display().to_string(), why, None)
}

fn not(place: &str, why: String, remedy: Option<String>) -> Outcome {
    Outcome { place: place.to_owned(), what: What::Not { why, remedy } }
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::{Action, Outcome, Root, What};
    use super::{Call, Failure, apply};
    use std::fs;
    use std::path::Path;
    use tempfile::TempDir;

    fn root() -> Root {
        Root {
            file: "/state/root.crt".into(),
            der: vec![1].into(),
            pem: "the root\n".into(),
            name: "A root".into(),
            fingerprint: "AB:CD:EF:01:23".into(),
        }
    }

    fn told(outcome: &Outcome, prefix: &Path) -> String {
        let place = outcome.place.replace(&prefix.display().to_string(), "");
        match &outcome.what {
            What::Done(also) => format!("{place}{also}"),
            What::Already => format!("{place} already"),
            What::Not { why, .. } => format!("{place} not: {why}"),
        }
    }

    #[test]
    fn each_family_has_its_folder() {
        let check = |folder: &str, expected: &str| {
            let dir = TempDir::new().expect("a folder");
            fs::create_dir_all(dir.path().join(folder)).expect("a folder");
            let mut run = |_: Call<'_>| -> Result<Vec<u8>, Failure> { panic!("nothing is run below another root") };
            let mut apply = |action| told(&apply(action, &root(), dir.path(), &mut run), dir.path());
            let file = format!("/{expected}/tidegate-abcdef01.crt");
            let done = format!("{file}, for the store's own program to find when it runs there");
            assert_eq!(apply(Action::Install), done);
            assert_eq!(fs::read_to_string(dir.path().join(&file[1..])).expect("a file"), "the root\n");
            assert_eq!(apply(Action::Install), format!("{file} already"));
            assert_eq!(apply(Action::Uninstall), done);
            assert_eq!(apply(Action::Uninstall), format!("{file} already"));
            assert_eq!(fs::read_dir(dir.path().join(expected)).expect("a folder").count(), 0);
        };
        for folder in [
            "usr/local/share/ca-certificates",
            "etc/pki/ca-trust/source/anchors",
            "etc/ca-certificates/trust-source/anchors",
            "etc/pki/trust/anchors",
        ] {
            check(folder, folder);
        }
        let dir = TempDir::new().expect("a folder");
        let nowhere = apply(Action::Install, &root(), dir.path(), &mut |_| Ok(Vec::new()));
        assert!(matches!(nowhere.what, What::Not { remedy: Some(_), .. }));
    }

    #[test]
    fn the_stores_program_is_run_and_its_failure_undoes_the_rest() {
        let dir = TempDir::new().expect("a folder");
        let file = dir.path().join("tidegate-abcdef01.crt");
        let store = &super::STORES[0];
        let check = |answer: &dyn Fn() -> Result<Vec<u8>, Failure>, expected: &str, is_kept: bool| {
            fs::write(&file, "the root\n").expect("a file");
            let mut seen = Vec::new();
            let outcome = super::update(Action::Install, store, &file, &mut |call| {
                seen.push(format!("{} {}", call.program, call.arguments.join(" ")));
                answer()
            });
            assert_eq!(seen, ["update-ca-trust extract"]);
            assert_eq!(told(&outcome, dir.path()), format!("/tidegate-abcdef01.crt{expected}"));
            assert_eq!(file.exists(), is_kept);
        };
        check(&|| Ok(Vec::new()), ", and ran update-ca-trust", true);
        check(&|| Err(Failure::Missing), " not: update-ca-trust is not installed", false);
        check(&|| Err(Failure::Failed("no space".into())), " not: update-ca-trust failed: no space", false);
    }
}
