//! The drivers that the program can have here, for tests that hold for each. A ring is left out only where the program
//! says what forbids it and this machine shows the same; else its absence is a fault.

use std::path::Path;
use std::process::Command;

/// By the word that a configuration has for them.
pub const EPOLL: &str = "epoll";
pub const RING: &str = "io-uring";

/// What `version` says where there is a ring, and in front of why there is none.
const HAS_RING: &str = ", io-uring\n";
const HAS_NONE: &str = "; io-uring cannot be had here: ";

/// The words of the drivers that workers of `binary` can have; where that is epoll alone, this says why.
///
/// Panics where there is no ring and nothing here proves that the kernel forbids it.
pub fn drivers(binary: &str) -> Vec<&'static str> {
    match why_no_ring(Path::new(binary)) {
        Ok(None) => vec![EPOLL, RING],
        Ok(Some(reason)) => {
            println!("skipped on a ring: {reason}");
            vec![EPOLL]
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// A configuration that names its driver.
pub fn on(driver: &str, config: &str) -> String {
    format!("driver \"{driver}\"\n{config}")
}

/// Why workers of `binary` cannot have a ring here, with what shows it; `None` where they can. `Err` where they cannot
/// and nothing forbids it.
pub fn why_no_ring(binary: &Path) -> Result<Option<String>, String> {
    let output = Command::new(binary).arg("version").output().map_err(|error| format!("{}: {error}", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains(HAS_RING) {
        return Ok(None);
    }
    let Some((_, said)) = text.split_once(HAS_NONE) else {
        // An earlier version, which knows no ring or says nothing of it.
        let is_another = std::env::var_os("PROGRAM").is_some();
        let reason = "the program does not say whether it has rings";
        return if is_another { Ok(Some(reason.to_owned())) } else { Err(format!("{reason}: {text}")) };
    };
    let said = said.lines().next().unwrap_or_default();
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let setting = read("/proc/sys/kernel/io_uring_disabled");
    let release = read("/proc/sys/kernel/osrelease");
    match proof(said, &setting, &read("/proc/self/status"), &release) {
        Some(shown) => Ok(Some(format!("{said} ({shown})"))),
        None => Err(format!("rings cannot be had, although nothing here shows what forbids them: {said}")),
    }
}

/// What of this machine shows that what the program says is so.
fn proof(said: &str, setting: &str, status: &str, release: &str) -> Option<String> {
    let is_filtered = status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"));
    let mut numbers = release.split(['.', '-']).map(|part| part.trim().parse::<u32>().unwrap_or(0));
    let is_old = (numbers.next()?, numbers.next()?) < (6, 1);
    let setting = setting.trim();
    if said.contains("io_uring_disabled forbids") {
        return (!matches!(setting, "" | "0")).then(|| format!("kernel.io_uring_disabled is {setting}"));
    }
    if said.contains("may not use io_uring") {
        return is_filtered.then(|| "a seccomp filter is in force: Seccomp is 2 in /proc/self/status".to_owned());
    }
    if said.contains("this kernel has no io_uring") {
        return (is_old || is_filtered).then(|| format!("Linux {}, seccomp filter: {is_filtered}", release.trim()));
    }
    (said.contains("this kernel is too old") && is_old).then(|| format!("Linux {}", release.trim()))
}

#[cfg(test)]
mod tests {
    use super::proof;

    #[test]
    fn a_missing_ring_is_excused_by_what_the_machine_shows_alone() {
        let check = |said: &str, setting: &str, seccomp: u8, release: &str, is_proven: bool| {
            let status = format!("Name:\tx\nSeccomp:\t{seccomp}\nSeccomp_filters:\t1\n");
            assert_eq!(proof(said, setting, &status, release).is_some(), is_proven, "{said} {setting} {seccomp} {release}");
        };
        let forbidden = "error[driver]: the process may not use io_uring; container engines forbid it";
        check(forbidden, "0\n", 2, "6.18.1\n", true);
        check(forbidden, "0\n", 0, "6.18.1\n", false);
        let disabled = "the setting kernel.io_uring_disabled forbids rings";
        check(disabled, "2\n", 0, "6.18.1\n", true);
        check(disabled, "0\n", 2, "6.18.1\n", false);
        check(disabled, "", 0, "6.18.1\n", false);
        check("this kernel has no io_uring", "", 0, "5.10.0-21-amd64\n", true);
        check("this kernel has no io_uring", "", 0, "6.18.1\n", false);
        check("this kernel is too old for the rings that are needed", "", 0, "6.0.9\n", true);
        check("this kernel is too old for the rings that are needed", "", 2, "6.1.0\n", false);
        check("memory for a ring was refused", "2", 2, "5.10.0\n", false);
        check("a trial of a ring failed: no", "0", 2, "5.10.0\n", false);
    }
}
