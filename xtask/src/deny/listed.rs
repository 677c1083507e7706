//! Known vulnerabilities by the list that is kept in the tree, against every package of Cargo.lock: what can be checked
//! without a network. The list says how it is kept.

use crate::finding::Finding;
use cargo_metadata::semver::{Version, VersionReq};
use std::time::{SystemTime, UNIX_EPOCH};

pub const LIST: &str = "xtask/advisories.txt";
/// An older list is said to be old.
const DAYS_MAX: u64 = 180;

/// What a list says.
pub struct AdvisoryList {
    advisories: Vec<Advisory>,
    /// Days since 1970 when somebody looked last whether it has everything.
    reviewed_day: u64,
}

struct Advisory {
    id: String,
    package: String,
    affected: Vec<VersionReq>,
    /// The first version that does not have it, or `none`.
    mended: String,
    title: String,
}

/// Reads the list; a line that is none is a fault of the tree, not a finding.
pub fn read(text: &str) -> Result<AdvisoryList, String> {
    let mut list = AdvisoryList { advisories: Vec::new(), reviewed_day: 0 };
    for (index, line) in text.lines().enumerate() {
        let fault = |why: &str| format!("{LIST}:{}: {why}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(date) = line.strip_prefix("reviewed ") {
            list.reviewed_day = day(date).ok_or_else(|| fault("this is no date such as 2026-01-31"))?;
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, package, affected, mended, title] = fields[..] else { return Err(fault("a line has five fields")) };
        let affected = affected.split(';').map(VersionReq::parse).collect::<Result<_, _>>();
        let affected = affected.map_err(|error| fault(&error.to_string()))?;
        let [id, package, mended, title] = [id, package, mended, title].map(str::to_owned);
        list.advisories.push(Advisory { id, package, affected, mended, title });
    }
    if list.reviewed_day == 0 { Err(format!("{LIST}: it does not say when it was reviewed")) } else { Ok(list) }
}

/// The packages of a lock file that are affected.
pub fn check(list: &AdvisoryList, lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, version) in packages(lock) {
        for advisory in list.advisories.iter().filter(|advisory| advisory.package == name) {
            if advisory.affected.iter().any(|affected| affected.matches(&version)) {
                let Advisory { id, mended, title, .. } = advisory;
                let message = format!("{name} {version}: {id} {title}; mended in: {mended}");
                findings.push(Finding::whole("Cargo.lock", "advisory", message));
            }
        }
    }
    findings
}

/// What to say of a list that nobody has looked at for long.
pub fn age_warning(list: &AdvisoryList, now: SystemTime) -> Option<String> {
    let today = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    let days = today.saturating_sub(list.reviewed_day);
    (days > DAYS_MAX).then(|| format!("{LIST} was reviewed {days} days ago; it says how to refresh it"))
}

/// Names and versions of a lock file, which cargo always writes one below the other.
fn packages(lock: &str) -> Vec<(&str, Version)> {
    let entry = |(name, version): (&'_ str, &'_ str)| {
        let version = version.strip_prefix("version = \"")?.strip_suffix('"')?;
        Some((name.strip_prefix("name = \"")?.strip_suffix('"')?.len(), Version::parse(version).ok()?))
    };
    let lines: Vec<&str> = lock.lines().collect();
    let pairs = lines.windows(2).filter_map(|pair| Some((pair[0], entry((pair[0], pair[1]))?)));
    let start = "name = \"".len();
    pairs.map(|(line, (length, version))| (&line[start..start + length], version)).collect()
}

/// Days since 1970 of a date such as `2026-01-31`, by the calendar that begins its years in March.
fn day(date: &str) -> Option<u64> {
    let parts: Vec<u64> = date.trim().split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month @ 1..=12, day @ 1..=31] = parts[..] else { return None };
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    (year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day).checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use super::{age_warning, check, day, read};
    use std::time::{Duration, UNIX_EPOCH};

    const TEXT: &str = include_str!("../../advisories.txt");

    #[test]
    fn a_lock_file_with_a_version_that_is_affected_is_refused() {
        let list = read(TEXT).expect("the list can be read");
        let check = |name: &str, version: &str, expected: &[&str]| {
            let lock = format!("version = 4\n\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\nsource = \"x\"\n");
            let seen: Vec<String> = check(&list, &lock).iter().map(ToString::to_string).collect();
            assert_eq!(seen.len(), expected.len(), "{name} {version}: {seen:?}");
            for (seen, expected) in seen.iter().zip(expected) {
                assert!(seen.starts_with("Cargo.lock: advisory: ") && seen.contains(expected), "{seen}");
            }
        };
        check("rustls", "0.23.4", &["rustls 0.23.4: RUSTSEC-2024-0336"]);
        check("rustls", "0.20.9", &["mended in: 0.23.5"]);
        check("rustls", "0.21.11", &[]);
        check("rustls", "0.23.13", &["RUSTSEC-2024-0399"]);
        check("rustls", "0.23.18", &[]);
        check("h2", "0.3.25", &["RUSTSEC-2024-0332", "RUSTSEC-2026-0258"]);
        check("h2", "0.4.1", &["RUSTSEC-2024-0003", "RUSTSEC-2024-0332", "RUSTSEC-2026-0258"]);
        check("h2", "0.4.4", &["RUSTSEC-2026-0258"]);
        check("h2", "0.4.16", &[]);
        check("tokio", "1.43.0", &["RUSTSEC-2025-0023"]);
        check("ring", "0.17.8", &["mended in: 0.17.12"]);
        check("rsa", "0.9.6", &["RUSTSEC-2023-0071"]);
        check("idna", "0.5.0", &["RUSTSEC-2024-0421"]);
        check("tikv-jemalloc-sys", "0.6.1+5.3.0-1-ge13ca99", &[]);
        check("unheard-of", "0.0.1", &[]);
    }

    #[test]
    fn what_is_no_list_is_not_taken_for_an_empty_one() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).err().as_deref(), Some(expected), "{text}");
        check("", "xtask/advisories.txt: it does not say when it was reviewed");
        check("reviewed 2026-13-01", "xtask/advisories.txt:1: this is no date such as 2026-01-31");
        check("reviewed 2026-01-01\nA | b | *", "xtask/advisories.txt:2: a line has five fields");
        assert!(read("reviewed 2026-01-01\nA | b | >= | 1 | c").is_err());
    }

    #[test]
    fn an_old_list_is_said_to_be_old() {
        assert_eq!((day("1970-01-01"), day("2000-03-01"), day("2026-11-24")), (Some(0), Some(11_017), Some(20_781)));
        let list = read("reviewed 2026-01-01").expect("read");
        let after = |days: u64| age_warning(&list, UNIX_EPOCH + Duration::from_secs(86_400 * (20_454 + days)));
        assert_eq!(after(180), None);
        let expected = "xtask/advisories.txt was reviewed 181 days ago; it says how to refresh it";
        assert_eq!(after(181).as_deref(), Some(expected));
    }
}
