//! Where state that must survive a restart is kept when nobody said otherwise.

use std::ffi::OsString;
use std::path::PathBuf;

/// The state folder of root, and of the packaged service.
pub const SYSTEM_STATE_DIR: &str = "/var/lib/tidegate";

/// `$STATE_DIRECTORY` (set by systemd's `StateDirectory=`), else `/var/lib/tidegate` for root, else
/// `$XDG_DATA_HOME/tidegate` or `~/.local/share/tidegate`. The folder need not exist.
pub fn default_state_dir() -> PathBuf {
    choose(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
}

fn choose(variable: impl Fn(&str) -> Option<OsString>, is_root: bool) -> PathBuf {
    let system_wide = PathBuf::from(SYSTEM_STATE_DIR);
    // systemd gives a list, separated by colons, when the unit names several.
    if let Some(first) =
        variable("STATE_DIRECTORY").and_then(|list| std::env::split_paths(&list).next()).filter(|dir| dir.is_absolute())
    {
        return first;
    }
    if is_root {
        return system_wide;
    }
    // The XDG specification says that relative paths are to be ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    match absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share"))) {
        Some(data) => data.join("tidegate"),
        // Without a home this is the one place left; opening it says so when it may not be written.
        None => system_wide,
    }
}

#[cfg(test)]
mod tests {
    use super::choose;
    use std::path::Path;

    #[test]
    fn the_state_folder_follows_who_runs_it() {
        let check = |variables: &[(&str, &str)], is_root: bool, expected: &str| {
            let seen = choose(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()), is_root);
            assert_eq!(seen, Path::new(expected), "for {variables:?}, root: {is_root}");
        };
        check(&[("STATE_DIRECTORY", "/var/lib/gate:/var/lib/other"), ("HOME", "/home/a")], false, "/var/lib/gate");
        check(&[("STATE_DIRECTORY", ""), ("HOME", "/root")], true, "/var/lib/tidegate");
        check(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/a")], false, "/data/tidegate");
        check(&[("XDG_DATA_HOME", "data"), ("HOME", "/home/a")], false, "/home/a/.local/share/tidegate");
        check(&[], false, "/var/lib/tidegate");
    }
}
