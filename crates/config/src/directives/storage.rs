//! `storage "/mnt/shared/tidegate"`: where certificates, keys and accounts are kept. Nothing is opened here.

use super::pem::check_certificate_file;
use crate::diagnostics::{Diagnostic, shortened};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use std::path::PathBuf;
use tidegate_model::{HostPattern, KubernetesStorage, RedisAddress, RedisStorage, Secret, Storage, address};

pub static STORAGE: Directive = Directive {
    name: "storage",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "where",
        Kind::ChoiceOr(&["kubernetes"], "a folder, or a URL as in `\"redis://10.0.0.5:6379/0\"`"),
        "A folder, which several hosts may share; Redis or Valkey by `redis://`, `rediss://` (TLS) or `redis+unix://`; or `kubernetes`: secrets of a namespace.",
    )],
    properties: &[
        Property::once("password", Kind::Secret("a password"), "For Redis. Best from a file or the environment."),
        Property::once(
            "prefix",
            Kind::Text("a text"),
            "What keys in Redis begin with, `tidegate:` when left out; for `kubernetes` names of secrets, `tidegate` when left out.",
        ),
        Property::once(
            "root",
            Kind::Path,
            "For `rediss://`: certificates in PEM that it is verified against; the system's when left out.",
        ),
        Property::once("namespace", Kind::Text("a namespace"), "For `kubernetes`: that of the pod when left out."),
    ],
    summary: "Where certificates that were obtained, their keys, and accounts of CAs are kept.",
    details: "Processes that share it share certificates: each name is ordered by one of them, and the others use what it got. What is there can be read by whoever can read the keys of your \
              sites, so it is for this program's user alone.\n\n\
              When it cannot be reached, certificates that are in use go on being used, and nothing is ordered that could not be kept.",
    default: "the folder `storage` in the state folder",
    example: "storage \"redis://10.0.0.5:6379/0\" prefix=\"edge:\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

const REDIS_PORT: u16 = 6379;
const REDIS_PREFIX: &str = "tidegate:";
const KUBERNETES_PREFIX: &str = "tidegate";
const PREFIX_CHARS_MAX: usize = 100;
/// Of names in Kubernetes (RFC 1123).
const LABEL_CHARS_MAX: usize = 63;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let storage = match line.read_argument(lowering, 0) {
        Some(Read::Choice(..)) => kubernetes(lowering, line),
        Some(Read::Text(text)) => match text.value.split_once("://") {
            Some((scheme, rest)) => redis(lowering, line, &text, scheme, rest),
            None => folder(lowering, line, &text),
        },
        _ => None,
    };
    if let Some(storage) = storage {
        lowering.spans.storage = line.argument(0).map(|value| value.location.clone());
        lowering.configuration.storage = storage;
    }
}

fn folder(lowering: &mut Lowering<'_>, line: &Line<'_>, text: &Text) -> Option<Storage> {
    refuse_others(lowering, line, &[], "a folder");
    if text.value.is_empty() {
        return lowering
            .refuse(text.error("bad-value", "the folder has no name").help("for example `storage \"/mnt/shared/tidegate\"`"));
    }
    let path = lowering.path(&text.value, &text.location);
    lowering.spans.files.push((path.clone(), text.location.clone()));
    Some(Storage::Folder(path))
}

fn redis(lowering: &mut Lowering<'_>, line: &Line<'_>, text: &Text, scheme: &str, rest: &str) -> Option<Storage> {
    let known: &[&str] = if scheme == "rediss" { &["password", "prefix", "root"] } else { &["password", "prefix"] };
    refuse_others(lowering, line, known, &format!("`{scheme}://`"));
    let password = line.text(lowering, "password").map(|text| Secret::new(text.value.trim_end_matches(['\r', '\n'])));
    let prefix = prefix(lowering, line, REDIS_PREFIX, |text| text.bytes().all(|byte| byte.is_ascii_graphic()))?;
    if scheme == "redis+unix" {
        let address = RedisAddress::Unix(PathBuf::from(rest));
        if !rest.starts_with('/') {
            return lowering.refuse(
                text.error("bad-url", "the path of the socket is not absolute")
                    .help("for example `redis+unix:///run/redis.sock`"),
            );
        }
        return Some(Storage::Redis(RedisStorage { address, database: 0, username: None, password, prefix }));
    }
    let parsed = match scheme {
        "redis" | "rediss" => parse_redis(rest),
        _ => Err("storage is a folder, or Redis by `redis://`, `rediss://` or `redis+unix://`"),
    };
    match parsed {
        Ok(RedisParts { username, host, port, database }) => {
            let address = match (scheme, line.text(lowering, "root")) {
                ("rediss", Some(text)) => RedisAddress::Tls { host, port, root: Some(check_certificate_file(lowering, &text)?) },
                ("rediss", None) => RedisAddress::Tls { host, port, root: None },
                _ => RedisAddress::Tcp { host, port },
            };
            Some(Storage::Redis(RedisStorage { address, database, username, password, prefix }))
        }
        Err(reason) => lowering.refuse(
            text.error("bad-url", reason).help("for example `redis://10.0.0.5:6379/0`, with the password in `password=`"),
        ),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct RedisParts {
    username: Option<String>,
    host: String,
    port: u16,
    database: u32,
}

/// `[user@]host[:port][/database]`. A password has no place in it, for URLs are shown.
fn parse_redis(rest: &str) -> Result<RedisParts, &'static str> {
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (username, host_port) = match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => return Err("a password has no place in the URL"),
        Some((user, rest)) => (Some(user.to_string()).filter(|user| !user.is_empty()), rest),
        None => (None, authority),
    };
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (host, port) = match host_port.rsplit_once(':') {
        Some((host, port)) if is_port(port) => (host, port.parse().map_err(|_| "the port is not a port")?),
        _ => (host_port, REDIS_PORT),
    };
    let is_host = matches!(address::parse_host_pattern(host), Ok(HostPattern::Exact(_) | HostPattern::Ip(_)));
    if !is_host || port == 0 {
        return Err("there is no host with a port in this URL");
    }
    let database = if database.is_empty() { 0 } else { database.parse().map_err(|_| "the database is a number, as in `/0`")? };
    Ok(RedisParts { username, host: host.trim_matches(['[', ']']).to_string(), port, database })
}

fn kubernetes(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<Storage> {
    refuse_others(lowering, line, &["namespace", "prefix"], "`kubernetes`");
    let is_label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = |text: &str| {
        text.len() <= LABEL_CHARS_MAX && text.bytes().all(is_label) && !text.starts_with('-') && !text.ends_with('-')
    };
    let prefix = prefix(lowering, line, KUBERNETES_PREFIX, is_name);
    let namespace = match line.text(lowering, "namespace") {
        None => None,
        Some(text) if !text.value.is_empty() && is_name(&text.value) => Some(text.value),
        Some(text) => {
            let message = format!("`{}` is not the name of a namespace", shortened(&text.value));
            return lowering
                .refuse(text.error("bad-value", message).help("small letters, digits and `-`, as in `namespace=\"edge\"`"));
        }
    };
    Some(Storage::Kubernetes(KubernetesStorage { namespace, prefix: prefix?, api: None }))
}

fn prefix(lowering: &mut Lowering<'_>, line: &Line<'_>, default: &str, is_sound: impl Fn(&str) -> bool) -> Option<String> {
    let Some(text) = line.text(lowering, "prefix") else {
        return line.property("prefix").is_none().then(|| default.to_string());
    };
    if !text.value.is_empty() && text.value.len() <= PREFIX_CHARS_MAX && is_sound(&text.value) {
        return Some(text.value);
    }
    let message = format!("`{}` cannot stand before keys", shortened(&text.value));
    lowering.refuse(text.error("bad-value", message).help(format!("a short word without blanks, as in `prefix=\"{default}\"`")))
}

fn refuse_others(lowering: &mut Lowering<'_>, line: &Line<'_>, known: &[&str], kind: &str) {
    for name in ["password", "prefix", "root", "namespace"].into_iter().filter(|name| !known.contains(name)) {
        if let Some(value) = line.property(name) {
            let diagnostic = Diagnostic::error(
                "property-of-another-kind",
                value.location.clone(),
                format!("`{name}=` does not belong to {kind}"),
            );
            lowering.report(diagnostic.help("remove it"));
        }
    }
}

/// Nothing where it is the state folder.
pub fn write(line: &mut Writer, storage: &Storage) {
    match storage {
        Storage::State => {}
        Storage::Folder(path) => {
            line.name("storage").argument(path.display());
        }
        Storage::Redis(RedisStorage { address, database, username, password, prefix }) => {
            let user = username.as_ref().map_or_else(String::new, |user| format!("{user}@"));
            let (scheme, place, root) = match address {
                RedisAddress::Tcp { host, port } => ("redis", format!("{user}{}:{port}/{database}", in_url(host)), None),
                RedisAddress::Tls { host, port, root } => {
                    ("rediss", format!("{user}{}:{port}/{database}", in_url(host)), root.as_ref())
                }
                RedisAddress::Unix(path) => ("redis+unix", path.display().to_string(), None),
            };
            line.name("storage").argument(format_args!("{scheme}://{place}"));
            line.secret_property("password", password.as_ref());
            line.property("prefix", prefix).optional("root", root.map(|path| path.display()));
        }
        Storage::Kubernetes(KubernetesStorage { namespace, prefix, api: _ }) => {
            line.name("storage").argument("kubernetes").optional("namespace", namespace.as_ref()).property("prefix", prefix);
        }
    }
}

fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::parse_redis;

    #[test]
    fn urls_of_redis() {
        let check = |text: &str, expected: Result<(&str, &str, u16, u32), &str>| {
            let seen =
                parse_redis(text).map(|parts| (parts.username.unwrap_or_default(), parts.host, parts.port, parts.database));
            let expected = expected.map(|(user, host, port, database)| (user.to_string(), host.to_string(), port, database));
            assert_eq!(seen, expected, "for {text}");
        };
        check("10.0.0.5:6379/0", Ok(("", "10.0.0.5", 6379, 0)));
        check("ops@cache.internal/3", Ok(("ops", "cache.internal", 6379, 3)));
        check("[fd00::5]:7000", Ok(("", "fd00::5", 7000, 0)));
        check("user:word@cache.internal", Err("a password has no place in the URL"));
        check("cache.internal:70000", Err("the port is not a port"));
        check("", Err("there is no host with a port in this URL"));
        check("a b/0", Err("there is no host with a port in this URL"));
        check("cache.internal/x", Err("the database is a number, as in `/0`"));
    }
}
