//! The way from a path to its file, link by link: in which folders, and under which names, something may happen that
//! leads the path elsewhere. It only looks; nothing is opened. For whoever watches files: lists of servers here,
//! configurations and certificates in `control`.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::FileType;
use std::io;
use std::path::{Component, Path, PathBuf};

/// As many as the kernel follows.
const LINKS_MAX: usize = 40;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trail {
    pub steps: Vec<Step>,
    /// Where it leads, free of links; `None` when something on the way is missing.
    pub end: Option<PathBuf>,
}

/// A name in a folder that decides where the path leads.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Absolute and free of links.
    pub folder: PathBuf,
    pub name: OsString,
}

/// What stands under each name, remembered for one look: thousands of files share their folders.
#[derive(Default)]
pub struct Trails {
    seen: HashMap<PathBuf, Seen>,
}

#[derive(Clone)]
enum Seen {
    Link(PathBuf),
    Folder,
    File,
    Nothing,
}

impl Trails {
    /// The last name, every link, and where something is missing, the first name that is.
    pub fn follow(&mut self, path: &Path) -> Trail {
        let mut trail = Trail::default();
        let Ok(path) = std::path::absolute(path) else { return trail };
        let mut folder = PathBuf::from("/");
        let mut names: VecDeque<OsString> = VecDeque::new();
        push_front(&mut names, &path);
        let mut links = 0;
        while let Some(name) = names.pop_front() {
            if name == ".." {
                // The folder is free of links, so this is its real parent.
                folder.pop();
                continue;
            }
            let here = folder.join(&name);
            match self.look(&here) {
                Seen::Link(target) => {
                    trail.steps.push(Step { folder: folder.clone(), name });
                    links += 1;
                    if links > LINKS_MAX {
                        return trail;
                    }
                    if target.is_absolute() {
                        folder = PathBuf::from("/");
                    }
                    push_front(&mut names, &target);
                }
                Seen::Folder if !names.is_empty() => folder = here,
                Seen::Folder | Seen::File if names.is_empty() => {
                    trail.steps.push(Step { folder, name });
                    trail.end = Some(here);
                    return trail;
                }
                Seen::Folder | Seen::File | Seen::Nothing => {
                    trail.steps.push(Step { folder, name });
                    return trail;
                }
            }
        }
        trail.end = Some(folder);
        trail
    }

    fn look(&mut self, path: &Path) -> Seen {
        if let Some(seen) = self.seen.get(path) {
            return seen.clone();
        }
        let seen = match std::fs::symlink_metadata(path) {
            Ok(metadata) => seen(path, metadata.file_type()).unwrap_or(Seen::Nothing),
            Err(_) => Seen::Nothing,
        };
        self.seen.insert(path.to_path_buf(), seen.clone());
        seen
    }
}

fn seen(path: &Path, kind: FileType) -> io::Result<Seen> {
    Ok(if kind.is_symlink() {
        Seen::Link(std::fs::read_link(path)?)
    } else if kind.is_dir() {
        Seen::Folder
    } else {
        Seen::File
    })
}

fn push_front(names: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => names.push_front(name.to_owned()),
            Component::ParentDir => names.push_front("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trails;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    /// `steps` and `end` are relative to a folder in which `prepare` has put something.
    fn check(prepare: impl Fn(&Path), path: &str, steps: &[(&str, &str)], end: Option<&str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("a real folder");
        prepare(&root);
        let trail = Trails::default().follow(&root.join(path));
        let seen: Vec<_> = trail.steps.into_iter().map(|step| (step.folder, step.name.into_string().expect("text"))).collect();
        let expected: Vec<_> = steps.iter().map(|(folder, name)| (join(&root, folder), (*name).to_owned())).collect();
        assert_eq!(seen, expected, "for {path}");
        assert_eq!(trail.end, end.map(|end| join(&root, end)), "for {path}");
    }

    fn join(root: &Path, path: &str) -> std::path::PathBuf {
        if path.is_empty() { root.to_path_buf() } else { root.join(path) }
    }

    fn certbot(root: &Path) {
        fs::create_dir_all(root.join("archive/a")).expect("made");
        fs::create_dir_all(root.join("live/a")).expect("made");
        fs::write(root.join("archive/a/cert1.pem"), "1").expect("written");
        symlink("../../archive/a/cert1.pem", root.join("live/a/cert.pem")).expect("linked");
    }

    fn mounted_volume(root: &Path) {
        fs::create_dir(root.join("..1")).expect("made");
        fs::write(root.join("..1/file"), "1").expect("written");
        symlink("..1", root.join("..data")).expect("linked");
        symlink("..data/file", root.join("file")).expect("linked");
    }

    #[test]
    fn a_plain_file_depends_on_its_name_in_its_folder() {
        check(certbot, "archive/a/cert1.pem", &[("archive/a", "cert1.pem")], Some("archive/a/cert1.pem"));
        check(certbot, "live/../archive/a/cert1.pem", &[("archive/a", "cert1.pem")], Some("archive/a/cert1.pem"));
        check(certbot, "archive", &[("", "archive")], Some("archive"));
    }

    #[test]
    fn every_link_on_the_way_counts() {
        check(certbot, "live/a/cert.pem", &[("live/a", "cert.pem"), ("archive/a", "cert1.pem")], Some("archive/a/cert1.pem"));
        check(mounted_volume, "file", &[("", "file"), ("", "..data"), ("..1", "file")], Some("..1/file"));
    }

    #[test]
    fn what_is_missing_is_awaited_in_the_nearest_folder_that_exists() {
        check(certbot, "archive/a/cert2.pem", &[("archive/a", "cert2.pem")], None);
        check(certbot, "other/b/c.pem", &[("", "other")], None);
        check(certbot, "archive/a/cert1.pem/x", &[("archive/a", "cert1.pem")], None);
        check(|root| symlink("gone/x", root.join("a")).expect("linked"), "a", &[("", "a"), ("", "gone")], None);
    }

    #[test]
    fn links_in_a_circle_end() {
        let folder = tempfile::tempdir().expect("a folder");
        symlink("b", folder.path().join("a")).expect("linked");
        symlink("a", folder.path().join("b")).expect("linked");
        assert_eq!(Trails::default().follow(&folder.path().join("a")).end, None);
    }
}
