//! A list of servers as text: which format a file has, and what an entry may say in either of them. Pure but for
//! reading the file.

use super::{json, kdl};
use crate::{ENDPOINTS_MAX, Endpoint, Fault};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use rustix::io::{Errno, retry_on_intr};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tidegate_model::{Bounds, Server, UpstreamAddress};

/// Ten thousand servers take about half of it.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A zone is a word; it becomes a label of metrics.
const ZONE_CHARACTERS_MAX: usize = 64;

/// The text of a regular file: a pipe in its place would hold up whoever reads it.
pub fn read(path: &Path) -> Result<String, String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = retry_on_intr(|| open(path, flags, Mode::empty()));
    let file: File = opened.map_err(|errno| refusal(errno.into()).unwrap_or_else(|| describe(errno)))?.into();
    let kind = fstat(&file).map_err(describe)?.st_mode;
    if FileType::from_raw_mode(kind) != FileType::RegularFile {
        return Err("it is not a regular file".into());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err("it is larger than 1 MiB".into());
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

fn describe(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

fn refusal(error: std::io::Error) -> Option<String> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Some("it does not exist".into()),
        std::io::ErrorKind::PermissionDenied => {
            Some("it may not be read; give the user that the proxy runs as read permission".into())
        }
        // What opening a socket gives.
        _ if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Some("it is not a regular file".into()),
        _ => None,
    }
}

/// ``the file servers.json: line 3: `weight` must be 1 to 256``
pub fn fault(path: &Path, message: &str) -> Fault {
    Fault::new(format!("the file {}: {message}", path.display()))
}

/// The format is told by the name's end. A list without servers is one.
pub fn parse(path: &Path, text: &str) -> Result<Vec<Endpoint>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut list = List::default();
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => json::parse(text, &mut list)?,
        Some("kdl") => kdl::parse(text, &mut list)?,
        _ => return Err("its name must end in `.json` or `.kdl`".into()),
    }
    Ok(list.endpoints)
}

/// The entries so far.
#[derive(Debug, Default)]
pub struct List {
    endpoints: Vec<Endpoint>,
    seen: HashSet<UpstreamAddress>,
}

impl List {
    pub fn add(&mut self, entry: Entry) -> Result<(), String> {
        let endpoint = entry.endpoint()?;
        if self.endpoints.len() >= ENDPOINTS_MAX {
            return Err(format!("more than {ENDPOINTS_MAX} servers are listed"));
        }
        if !self.seen.insert(endpoint.server.address.clone()) {
            return Err(format!("`{}` is listed twice", endpoint.server.address));
        }
        self.endpoints.push(endpoint);
        Ok(())
    }
}

/// What an entry says, as it is written.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub address: String,
    pub weight: Option<i128>,
    pub backup: Option<bool>,
    pub priority: Option<i128>,
    pub zone: Option<String>,
    #[serde(rename = "max-connections")]
    pub max_connections: Option<i128>,
    #[serde(rename = "max-requests")]
    pub max_requests: Option<i128>,
    pub leaving: Option<bool>,
}

impl Entry {
    pub fn of_address(address: impl Into<String>) -> Entry {
        Entry { address: address.into(), ..Entry::default() }
    }

    fn endpoint(self) -> Result<Endpoint, String> {
        let mut server = Server::new(UpstreamAddress::parse(&self.address)?);
        if let Some(weight) = self.weight {
            let most = Server::WEIGHT_MAX;
            let in_range = u32::try_from(weight).ok().filter(|weight| (1..=most).contains(weight));
            server.weight = in_range.ok_or_else(|| format!("`weight` must be 1 to {most}"))?;
        }
        if self.backup.is_some() && self.priority.is_some() {
            return Err("write either `backup` or `priority`: a backup has priority 1".into());
        }
        if self.backup == Some(true) {
            server.priority = Server::BACKUP;
        }
        if let Some(priority) = self.priority {
            let most = Server::PRIORITY_MAX;
            let in_range = u8::try_from(priority).ok().filter(|priority| *priority <= most);
            server.priority = in_range.ok_or_else(|| format!("`priority` must be 0 to {most}"))?;
        }
        if let Some(zone) = self.zone {
            if zone.is_empty() || zone.chars().count() > ZONE_CHARACTERS_MAX || zone.chars().any(char::is_control) {
                return Err(format!("`zone` must have 1 to {ZONE_CHARACTERS_MAX} characters on one line"));
            }
            server.zone = Some(zone.into());
        }
        let count = |name: &str, count: Option<i128>| {
            let most = Bounds::COUNT_MAX;
            let in_range = |count| u32::try_from(count).ok().filter(|count| (1..=most).contains(count));
            count.map(|count| in_range(count).ok_or_else(|| format!("`{name}` must be 1 to {most}"))).transpose()
        };
        server.bounds.connections = count("max-connections", self.max_connections)?;
        server.bounds.requests = count("max-requests", self.max_requests)?;
        Ok(Endpoint { server, addresses: Vec::new(), is_leaving: self.leaving.unwrap_or(false) })
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::{ENDPOINTS_MAX, Endpoint};
    use std::path::Path;

    fn describe(endpoints: &[Endpoint]) -> String {
        let describe = |endpoint: &Endpoint| {
            let server = &endpoint.server;
            let zone = server.zone.as_ref().map(|zone| format!(" in {zone}")).unwrap_or_default();
            let leaving = if endpoint.is_leaving { " leaving" } else { "" };
            let bound = |sign: char, count: Option<u32>| count.map(|count| format!(" {sign}{count}")).unwrap_or_default();
            let bounds = [bound('c', server.bounds.connections), bound('r', server.bounds.requests)].concat();
            format!("{} *{} ^{}{zone}{bounds}{leaving}", server.address, server.weight, server.priority)
        };
        endpoints.iter().map(describe).collect::<Vec<_>>().join(", ")
    }

    fn check(name: &str, text: &str, expected: &str) {
        let seen =
            parse(Path::new(name), text).map_or_else(|message| format!("error: {message}"), |endpoints| describe(&endpoints));
        assert_eq!(seen, expected, "for {text}");
    }

    #[test]
    fn lists_in_json() {
        let check = |text, expected| check("a.json", text, expected);
        check("[]", "");
        check(r#"{"servers": []}"#, "");
        check(
            r#"["10.0.0.1:80", "https://[::1]:8443", "api.internal:81"]"#,
            "10.0.0.1:80 *1 ^0, https://[::1]:8443 *1 ^0, api.internal:81 *1 ^0",
        );
        check(
            r#"{"servers": ["10.0.0.1:80", {"address": "http://10.0.0.2:80", "weight": 2, "backup": true, "zone": "a", "leaving": true}]}"#,
            "10.0.0.1:80 *1 ^0, 10.0.0.2:80 *2 ^1 in a leaving",
        );
        check(r#"[{"address": "10.0.0.2:80", "priority": 7, "backup": null}]"#, "10.0.0.2:80 *1 ^7");
        check(r#"[{"address": "a:1", "max-connections": 8, "max-requests": 1000000}]"#, "a:1 *1 ^0 c8 r1000000");
        check("\u{feff}[\"a:1\"]", "a:1 *1 ^0");
    }

    #[test]
    fn mistakes_in_json_say_the_line() {
        let check = |text, expected| check("a.json", text, expected);
        check("", "error: line 1: EOF while parsing a value");
        check("[\n\"10.0.0.1:80\",\n", "error: line 3: EOF while parsing a value");
        check("[\n\"10.0.0.1\"]", "error: line 2: an upstream address needs a port, as in `10.0.0.1:8080`");
        check("[\n{\"address\": \"a:1\",\n \"weight\": 0}]", "error: line 3: `weight` must be 1 to 256");
        check("[{\"address\": \"a:1\", \"weight\": 257}]", "error: line 1: `weight` must be 1 to 256");
        check("[{\"address\": \"a:1\", \"priority\": 8}]", "error: line 1: `priority` must be 0 to 7");
        check(
            "[{\"address\": \"a:1\", \"priority\": 2, \"backup\": true}]",
            "error: line 1: write either `backup` or `priority`: a backup has priority 1",
        );
        check("[{\"address\": \"a:1\", \"zone\": \"\"}]", "error: line 1: `zone` must have 1 to 64 characters on one line");
        check(
            "[\n{\"adress\": \"a:1\"}]",
            "error: line 2: unknown field `adress`, expected one of `address`, `weight`, `backup`, `priority`, `zone`, `max-connections`, `max-requests`, `leaving`",
        );
        check("[{\"address\": \"a:1\", \"max-requests\": 0}]", "error: line 1: `max-requests` must be 1 to 1000000");
        check("[{\"weight\": 1}]", "error: line 1: missing field `address`");
        check("{\n\"server\": []}", "error: line 2: unknown field `server`, expected `servers`");
        check("{}", "error: line 1: missing field `servers`");
        check("{\"servers\": [],\n\"servers\": []}", "error: line 2: duplicate field `servers`");
        check("[\"a:1\",\n\"a:1\"]", "error: line 2: `a:1` is listed twice");
        check("[1]", "error: line 1: invalid type: integer `1`, expected an address, or an object with `address`");
        check("[] []", "error: line 1: trailing characters");
        check("\"a:1\"", "error: line 1: invalid type: string \"a:1\", expected a list of servers, or an object with `servers`");
    }

    #[test]
    fn lists_in_kdl() {
        let check = |text, expected| check("a.kdl", text, expected);
        check("", "");
        check("// nothing {\n\n", "");
        check("server \"10.0.0.1:80\"\nserver \"http://10.0.0.2:80\" // not https://\n", "10.0.0.1:80 *1 ^0, 10.0.0.2:80 *1 ^0");
        check(
            "server \"10.0.0.1:80\" weight=2 backup=#true zone=\"a\" leaving=#true; server \"10.0.0.2:80\" priority=3\r\n",
            "10.0.0.1:80 *2 ^1 in a leaving, 10.0.0.2:80 *1 ^3",
        );
    }

    #[test]
    fn mistakes_in_kdl_say_the_line() {
        let check = |text, expected| check("a.kdl", text, expected);
        check("\nserver", "error: line 2: `server` needs an address, as in `server \"10.0.0.1:80\"`");
        check("server \"a:1\" \"b:1\"", "error: line 1: write each server on a line of its own");
        check(
            "server \"a:1\" weigth=2",
            "error: line 1: `weigth` is not known; `weight`, `backup`, `priority`, `zone`, `max-connections`, `max-requests` and `leaving` are",
        );
        check("server \"a:1\" weight=300", "error: line 1: `weight` must be 1 to 256");
        check("server \"a:1\" weight=\"2\"", "error: line 1: `weight` must be a number");
        check("server \"a:1\" backup=1", "error: line 1: `backup` must be #true or #false");
        check("server \"a:1\" zone=1", "error: line 1: `zone` must be a text");
        check("server \"a:1\" weight=1 weight=2", "error: line 1: `weight` is written twice");
        check("server \"a:1\"\npool \"a\"", "error: line 2: `pool` is not known; each line is a `server`");
        check("server \"a:1\"\n\nserver \"a:1\"", "error: line 3: `a:1` is listed twice");
        check("server \"a:1\" {\n}", "error: line 1: `{` has no place in a list of servers");
        check("/* a */ server \"a:1\"", "error: line 1: `/*` has no place in a list of servers");
        check("/-server \"a:1\"", "error: line 1: `/-` has no place in a list of servers");
        let not_kdl = "error: line 1: it is not KDL; a line is like `server \"10.0.0.1:80\" weight=2 backup=#true`";
        check("server \"a:1", not_kdl);
        check("server \"a:1\" backup=true", not_kdl);
        check("server a:1 =", not_kdl);
    }

    #[test]
    fn a_list_has_a_bound_and_a_format() {
        check("servers.txt", "", "error: its name must end in `.json` or `.kdl`");
        let lines: Vec<String> = (0..=ENDPOINTS_MAX).map(|number| format!("\"a{number}:1\"")).collect();
        check("a.json", &format!("[{}]", lines.join(",\n")), "error: line 10001: more than 10000 servers are listed");
    }

    #[test]
    fn no_text_makes_them_panic() {
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            for name in ["a.json", "a.kdl"] {
                if let Ok(endpoints) = parse(Path::new(name), text) {
                    assert!(endpoints.len() <= ENDPOINTS_MAX);
                }
            }
            let entry = format!("server \"a:1\" {text}");
            let _ = (parse(Path::new("a.kdl"), &entry), parse(Path::new("a.json"), &format!("[{{\"address\":{text}}}]")));
        });
    }
}
