//! Whether the user of the packaged unit may read what a configuration names, where root checks it: root may read
//! everything, and what it is told would be of no use. By owner, group and mode alone; where a list of further rights
//! (acl(5)) stands at a file, nothing is said of it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where packages, and whoever administrates the machine, have units; the first that is there counts.
const UNITS: [&str; 3] =
    ["/etc/systemd/system/tidegate.service", "/usr/lib/systemd/system/tidegate.service", "/lib/systemd/system/tidegate.service"];
/// What `systemctl edit tidegate` writes.
const CHANGES: &str = "/etc/systemd/system/tidegate.service.d";
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
/// The rights that a list would add.
const ACCESS_LIST: &str = "system.posix_acl_access";
const READ: u32 = 4;
const PASS: u32 = 1;

/// Who runs the service.
#[derive(Debug, PartialEq, Eq)]
pub struct UnitUser {
    name: String,
    id: u32,
    groups: Vec<u32>,
    /// Folders that the unit does not see at all.
    hidden: Vec<&'static str>,
}

/// What stands in the way of reading a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Obstacle {
    pub message: String,
    pub help: String,
}

impl UnitUser {
    /// `None` where this user is not root, or no unit of another user is here.
    pub fn of_this_machine() -> Option<UnitUser> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let mut unit = UNITS.iter().find_map(|file| fs::read_to_string(file).ok())?;
        let mut changes: Vec<PathBuf> =
            fs::read_dir(CHANGES).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
        changes.retain(|file| file.extension() == Some(OsStr::new("conf")));
        changes.sort();
        for change in changes {
            unit.push('\n');
            unit.push_str(&fs::read_to_string(change).unwrap_or_default());
        }
        UnitUser::of(&unit, &fs::read_to_string(USERS).ok()?, &fs::read_to_string(GROUPS).unwrap_or_default())
    }

    /// By the lines of a unit, and those of the machine's users and groups.
    fn of(unit: &str, users: &str, groups: &str) -> Option<UnitUser> {
        let name = values(unit, "User").last()?;
        let user = fields(users).find(|fields| fields.first() == Some(&name))?;
        let id = user.get(2)?.parse().ok().filter(|id| *id != 0)?;
        let named: Vec<&str> = values(unit, "Group")
            .last()
            .into_iter()
            .chain(values(unit, "SupplementaryGroups").flat_map(str::split_whitespace))
            .collect();
        let is_member = |group: &Vec<&str>| {
            group.first().is_some_and(|group| named.contains(group))
                || group.get(3).is_some_and(|members| members.split(',').any(|member| member == name))
        };
        let more = fields(groups).filter(is_member).filter_map(|group| group.get(2)?.parse().ok());
        let groups = user.get(3)?.parse().into_iter().chain(more).collect();
        let is_set = |setting| values(unit, setting).last().is_some_and(|value| ["yes", "true", "1", "on"].contains(&value));
        let mut hidden = Vec::new();
        if is_set("ProtectHome") {
            hidden.extend(["/home", "/root", "/run/user"]);
        }
        if is_set("PrivateTmp") {
            hidden.extend(["/tmp", "/var/tmp"]);
        }
        Some(UnitUser { name: name.to_owned(), id, groups, hidden })
    }

    /// Why the file, or what is in the folder, cannot be read; nothing of one that is not there.
    pub fn obstacle(&self, path: &Path) -> Option<Obstacle> {
        let path = path.canonicalize().ok()?;
        let (name, shown) = (&self.name, path.display());
        if let Some(folder) = self.hidden.iter().find(|folder| path.starts_with(folder)) {
            return Some(Obstacle {
                message: format!("tidegate.service does not see {shown}: the unit hides {folder} (ProtectHome=, PrivateTmp=)"),
                help: format!(
                    "have it in another folder, such as /etc/tidegate: `install -m 640 -g {name} {shown} /etc/tidegate/`"
                ),
            });
        }
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for folder in above {
            let found = fs::metadata(folder).ok()?;
            if !self.may(PASS, folder, &found) {
                return Some(Obstacle {
                    message: format!("the user `{name}` of tidegate.service cannot come to {shown}: {}", told(folder, &found)),
                    help: format!(
                        "let it pass: `chgrp {name} {0} && chmod g+x {0}`; or have the file in /etc/tidegate",
                        folder.display()
                    ),
                });
            }
        }
        let found = fs::metadata(&path).ok()?;
        let (wanted, mode) = if found.is_dir() { (READ | PASS, "750") } else { (READ, "640") };
        (!self.may(wanted, &path, &found)).then(|| Obstacle {
            message: format!("the user `{name}` of tidegate.service cannot read {}", told(&path, &found)),
            help: format!("`chgrp {name} {shown} && chmod {mode} {shown}`"),
        })
    }

    fn may(&self, wanted: u32, path: &Path, found: &Metadata) -> bool {
        let of_whom = if found.uid() == self.id {
            6
        } else if self.groups.contains(&found.gid()) {
            3
        } else {
            0
        };
        (found.mode() >> of_whom) & wanted == wanted || has_list(path)
    }
}

fn has_list(path: &Path) -> bool {
    rustix::fs::getxattr(path, ACCESS_LIST, &mut [0_u8; 0]).is_ok_and(|bytes| bytes > 0)
}

/// Of `/a/key.pem (owner root, group root, mode 0600)`.
fn told(path: &Path, found: &Metadata) -> String {
    let name = |file: &str, number: u32| {
        let table = fs::read_to_string(file).unwrap_or_default();
        let number = number.to_string();
        fields(&table).find(|fields| fields.get(2) == Some(&&*number)).map_or(number.clone(), |fields| fields[0].to_owned())
    };
    let mode = found.permissions().mode() & 0o7777;
    let (owner, group) = (name(USERS, found.uid()), name(GROUPS, found.gid()));
    format!("{} (owner {owner}, group {group}, mode {mode:04o})", path.display())
}

/// Of each line that sets it.
fn values<'u>(unit: &'u str, setting: &'static str) -> impl Iterator<Item = &'u str> {
    unit.lines().filter_map(move |line| line.strip_prefix(setting)?.strip_prefix('=')).map(str::trim)
}

fn fields(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().map(|line| line.split(':').collect())
}

#[cfg(test)]
mod tests {
    use super::UnitUser;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const USERS: &str = "root:x:0:0::/root:/bin/sh\ntidegate:x:991:992::/:/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\ntidegate:x:992:\nssl-cert:x:115:a,tidegate\nlogs:x:116:\n";

    #[test]
    fn the_last_word_of_a_unit_is_who_runs_it() {
        let check = |unit: &str, expected: Option<(&str, u32, &[u32], &[&str])>| {
            let user = UnitUser::of(unit, USERS, GROUPS);
            let user = user.as_ref().map(|user| (&*user.name, user.id, &*user.groups, &*user.hidden));
            assert_eq!(user, expected, "{unit}");
        };
        check("[Service]\nUser=tidegate\n", Some(("tidegate", 991, &[992, 115], &[])));
        check("User=nobody\nUser=tidegate\nPrivateTmp=yes\n", Some(("tidegate", 991, &[992, 115], &["/tmp", "/var/tmp"])));
        let hidden: &[&str] = &["/home", "/root", "/run/user"];
        check("User=tidegate\nSupplementaryGroups=a logs\nProtectHome=yes", Some(("tidegate", 991, &[992, 115, 116], hidden)));
        // Nothing is closed to root, and who is not there cannot be asked for.
        check("User=root\n", None);
        check("User=nobody\n", None);
        check("[Service]\n#User=tidegate\n", None);
    }

    #[test]
    fn what_is_closed_to_the_user_is_named_with_what_opens_it() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().canonicalize().expect("it is there").join("keys");
        fs::create_dir(&folder).expect("a folder");
        let file = folder.join("key.pem");
        fs::write(&file, "").expect("written");
        let own = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let user = |id, groups: &[u32]| UnitUser { name: "tidegate".into(), id, groups: groups.to_vec(), hidden: Vec::new() };
        let (other, stranger) = (user(own + 1, &[group]), user(own + 1, &[group + 1]));
        let owner = user(own, &[]);
        let check = |folder_mode: u32, file_mode: u32, user: &UnitUser, expected: Option<&str>| {
            fs::set_permissions(&folder, fs::Permissions::from_mode(folder_mode)).expect("ours");
            fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).expect("ours");
            fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("ours");
            let found = user.obstacle(&file).map(|obstacle| format!("{}\n{}", obstacle.message, obstacle.help));
            let said = expected.is_none_or(|words| found.as_ref().is_some_and(|found| found.contains(words)));
            assert!(said && found.is_some() == expected.is_some(), "{folder_mode:o} {file_mode:o} {user:?}: {found:?}");
        };
        check(0o755, 0o644, &stranger, None);
        check(0o750, 0o640, &other, None);
        check(0o700, 0o600, &owner, None);
        check(0o755, 0o640, &stranger, Some("mode 0640)"));
        check(0o755, 0o600, &other, Some(&format!("chgrp tidegate {0} && chmod 640 {0}", file.display())));
        check(0o750, 0o644, &stranger, Some("cannot come to"));
        // What the owner may is the owner's, whatever the group may.
        check(0o755, 0o060, &owner, Some("cannot read"));
        let hidden = UnitUser { hidden: vec!["/"], ..user(own, &[]) };
        check(0o755, 0o644, &hidden, Some("does not see"));
        assert_eq!(owner.obstacle(&folder.join("missing")), None);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("ours");
    }
}
