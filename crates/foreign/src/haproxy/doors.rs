//! Where sections of HAProxy listen, with the certificates and the rules of TLS there.

use super::conditions::{Condition, Test};
use super::lexer::{HaProxyLine, Section, Sections};
use crate::accounts::Origin;
use crate::outline::{Door, Whereabouts, whereabouts};
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

const FOLDER: &str =
    "for which names the certificates of the folder are is not said here: sites get theirs by ACME, or `tls cert=` names a file";
const OF_STORE: &str =
    "the store that it names has no such certificate in this file: sites get theirs by ACME, or `tls cert=` names a file";
const EVERYBODY: &str =
    "each peer has to begin with the header of the PROXY protocol there as here: name your load balancers in `from=`";
const LAST_UNKNOWN: &str = "the client is the last address of the field that is none of these proxies";
/// More ports of a range are no list that anybody reads.
const PORTS_MAX: u16 = 64;

/// The doors of a `bind`, with the place of the line.
pub fn doors(bind: &HaProxyLine) -> Vec<(Door, usize)> {
    let is_tls = bind.options(2).any(|(option, _, _)| option == "ssl");
    let mut doors = Vec::new();
    for address in bind.word(1).split(',') {
        let address = address.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
        let Some((host, ports)) = address.rsplit_once(':') else { continue };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else { continue };
        let range = first..=last.min(first.saturating_add(PORTS_MAX));
        doors.extend(range.filter_map(|port| Door::parse(&format!("{host}:{port}"), is_tls)).map(|door| (door, bind.start())));
    }
    doors
}

/// The sockets of this machine that it listens on, as addresses of sites.
pub fn sockets(section: &Section) -> Vec<(String, usize)> {
    let of_bind = |bind: &HaProxyLine| {
        let is_tls = bind.options(2).any(|(option, _, _)| option == "ssl");
        let addresses = bind.word(1).split(',').filter_map(move |address| {
            let path = match address.strip_prefix("abns@") {
                Some(name) => format!("@{name}"),
                None => address.trim_start_matches("unix@").to_owned(),
            };
            let is_socket = path.starts_with(['/', '@']) && !path.contains(':');
            (is_socket && !is_tls).then(|| format!("http://unix:{path}"))
        });
        addresses.map(|address| (address, bind.start())).collect::<Vec<_>>()
    };
    section.lines_of("bind").flat_map(of_bind).collect()
}

/// The site of these doors. `has_certificate` is whether all names there have one.
pub fn placed(
    doors: &[(Door, usize)],
    names: &[String],
    is_redirected: bool,
    has_certificate: bool,
    origin: &mut Origin,
) -> Option<Whereabouts> {
    if is_redirected {
        let only_tls: Vec<(Door, usize)> = doors.iter().filter(|(door, _)| door.is_tls).copied().collect();
        for (_, at) in doors {
            origin.carry(*at);
        }
        if names.is_empty() && has_certificate {
            return placed(&only_tls, names, false, true, origin);
        }
        return crate::outline::placed(doors, names, true, origin);
    }
    let mut found: Option<Whereabouts> = None;
    let mut doors = doors.to_vec();
    doors.sort_by_key(|(door, _)| (!door.is_tls, *door != Door::HTTPS));
    for (door, at) in doors {
        let own = match door.address(None) {
            Some(address) if names.is_empty() && door.is_tls && has_certificate => {
                Some(Whereabouts { addresses: vec![address], ..Whereabouts::default() })
            }
            _ => whereabouts(names, door),
        };
        let Some(own) = own else { continue };
        match &mut found {
            None => found = Some(own),
            // Without a name there is one address that the reader fills in.
            Some(known) if known.addresses.is_empty() || own.addresses.is_empty() => {}
            Some(known) => {
                let new = own.addresses.into_iter().filter(|address| !known.addresses.contains(address)).collect::<Vec<_>>();
                known.addresses.extend(new);
            }
        }
        origin.carry(at);
    }
    found
}

/// A file of certificates, its key where that is in a file of its own, and where it is said.
struct CertificateFile {
    path: String,
    key: Option<String>,
    places: Vec<usize>,
}

/// Certificates of a section that listens.
pub struct Certificates<'s> {
    files: Vec<CertificateFile>,
    folders: Vec<usize>,
    /// Certificates of stores that are not in the file.
    untold: Vec<usize>,
    section: &'s Section,
    globals: Vec<&'s Section>,
}

impl<'s> Certificates<'s> {
    pub fn of(section: &'s Section, sections: &'s Sections) -> Certificates<'s> {
        let globals: Vec<&Section> = sections.all.iter().filter(|section| section.kind == "global").collect();
        let mut found = Certificates { files: Vec::new(), folders: Vec::new(), untold: Vec::new(), section, globals };
        for (option, value, at) in section.lines_of("bind").flat_map(|line| line.options(2)) {
            let name = value.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let is_file = !value.ends_with('/') && name.contains('.') && !value.contains(super::lexer::OF_ENVIRONMENT);
            match option {
                "crt" if value.starts_with('@') => match found.of_store(sections, value, at) {
                    Some(file) => found.files.push(file),
                    None => found.untold.push(at),
                },
                "crt" if is_file => {
                    let path = found.path("crt-base", value);
                    found.files.push(CertificateFile { path, key: None, places: vec![at] });
                }
                "crt" => found.folders.push(at),
                _ => {}
            }
        }
        found
    }

    /// A path, below the folder that `global` names where it is relative.
    fn path(&self, base: &'static str, written: &str) -> String {
        let base = self.globals.iter().flat_map(|global| global.lines_of(base)).last().map(|line| line.word(1));
        match base {
            Some(base) if !written.starts_with('/') => format!("{}/{written}", base.trim_end_matches('/')),
            _ => written.to_owned(),
        }
    }

    /// `@web/site`: what `load` of a `crt-store` calls so, by its alias or its file.
    fn of_store(&self, sections: &Sections, value: &str, at: usize) -> Option<CertificateFile> {
        let (store, name) = value[1..].split_once('/')?;
        let store = sections.all.iter().find(|section| section.kind == "crt-store" && section.name == store)?;
        let is_it =
            |line: &&HaProxyLine| line.behind("alias").or(line.behind("crt")) == Some(name) || line.behind("crt") == Some(name);
        let load = store.lines_of("load").find(is_it)?;
        let mut places = vec![at, load.start()];
        let mut path = |base: &'static str, written: &str| match store.lines_of(base).last() {
            Some(own) if !written.starts_with('/') => {
                places.push(own.start());
                format!("{}/{written}", own.word(1).trim_end_matches('/'))
            }
            _ => self.path(base, written),
        };
        let file = path("crt-base", load.behind("crt")?);
        let key = load.behind("key").map(|key| path("key-base", key));
        Some(CertificateFile { path: file, key, places })
    }

    pub fn is_for_all(&self) -> bool {
        !self.files.is_empty()
    }

    /// The files whose names tell that they are for one of these, or else all.
    fn files_for(&self, names: &[String]) -> Vec<&CertificateFile> {
        let is_for = |file: &&CertificateFile| {
            let stem = file.path.rsplit('/').next().unwrap_or_default();
            names.iter().any(|name| {
                let name = name.trim_start_matches("*.");
                let parent = name.split_once('.').map_or("", |(_, parent)| parent);
                stem.starts_with(&format!("{name}."))
                    || [format!("_.{parent}."), format!("wildcard.{parent}."), format!("star.{parent}.")]
                        .iter()
                        .any(|wild| !parent.is_empty() && stem.starts_with(wild))
            })
        };
        let told: Vec<_> = self.files.iter().filter(is_for).collect();
        if told.is_empty() { self.files.iter().collect() } else { told }
    }

    /// The lines of a site for these names, with what says them.
    pub fn lines(&self, names: &[String], origin: &mut Origin) -> Vec<String> {
        let files = self.files_for(names);
        origin.carry_all(self.files.iter().flat_map(|file| file.places.iter().copied()));
        for at in &self.untold {
            origin.differ(*at, OF_STORE);
        }
        for at in &self.folders {
            origin.differ(*at, FOLDER);
        }
        let inside = self.inside(origin);
        let block = if inside.is_empty() { String::new() } else { format!(" {{ {}; }}", inside.join("; ")) };
        if files.is_empty() {
            return if inside.is_empty() { Vec::new() } else { vec![format!("tls{block}")] };
        }
        let line = |(index, file): (usize, &&CertificateFile)| {
            let block = if index == 0 { block.as_str() } else { "" };
            let key = file.key.as_ref().map(|key| format!(" key={}", quoted(key))).unwrap_or_default();
            format!("tls cert={}{key}{block}", quoted(&file.path))
        };
        files.iter().enumerate().map(line).collect()
    }

    /// What stands in the block of `tls`.
    fn inside(&self, origin: &mut Origin) -> Vec<String> {
        let over_tls: Vec<&HaProxyLine> =
            self.section.lines_of("bind").filter(|line| line.options(2).any(|(option, _, _)| option == "ssl")).collect();
        let mut inside = Vec::new();
        let of_binds = |wanted: &dyn Fn(&str, &str) -> bool| -> Option<Vec<usize>> {
            let place =
                |line: &&HaProxyLine| line.options(2).find(|(option, value, _)| wanted(option, value)).map(|(_, _, at)| at);
            over_tls.iter().map(place).collect()
        };
        let newest = |option: &str, value: &str| {
            (option == "ssl-min-ver" && value == "TLSv1.3") || matches!(option, "force-tlsv13" | "no-tlsv12")
        };
        let of_global = self
            .globals
            .iter()
            .flat_map(|global| global.lines_of("ssl-default-bind-options"))
            .find(|line| line.has("no-tlsv12") || line.behind("ssl-min-ver") == Some("TLSv1.3"));
        match (of_binds(&newest), of_global) {
            (Some(places), _) if !over_tls.is_empty() => {
                origin.carry_all(places);
                inside.push("min \"1.3\"".to_owned());
            }
            (_, Some(line)) => {
                origin.carry(line.start());
                inside.push("min \"1.3\"".to_owned());
            }
            _ => {}
        }
        // Who gives no tickets at one address gives none at all.
        let no_tickets = over_tls.iter().flat_map(|line| line.options(2)).filter(|(option, _, _)| *option == "no-tls-tickets");
        let defaults = self.globals.iter().flat_map(|global| global.lines_of("ssl-default-bind-options"));
        let of_defaults = defaults.filter(|line| line.has("no-tls-tickets")).map(HaProxyLine::start);
        let without_tickets: Vec<usize> = no_tickets.map(|(_, _, at)| at).chain(of_defaults).collect();
        if !without_tickets.is_empty() {
            origin.carry_all(without_tickets);
            inside.push("tickets #false".to_owned());
        }
        let alone = |protocol: &str| of_binds(&|option, value| option == "alpn" && value == protocol);
        for protocol in ["http/1.1", "h2"] {
            if let Some(places) = alone(protocol).filter(|places| !places.is_empty()) {
                origin.carry_all(places);
                inside.push(format!("alpn {}", quoted(protocol)));
            }
        }
        inside.extend(self.clients(&over_tls, origin));
        inside
    }

    /// Certificates of clients, where all that it listens on asks for the same.
    fn clients(&self, over_tls: &[&HaProxyLine], origin: &mut Origin) -> Option<String> {
        let of = |line: &HaProxyLine| {
            let value =
                |name: &str| line.options(2).find(|(option, _, _)| *option == name).map(|(_, value, at)| (value.to_owned(), at));
            (value("verify"), value("ca-file").or_else(|| value("ca-verify-file")), value("crl-file"))
        };
        let all: Vec<_> = over_tls.iter().map(|line| of(line)).collect();
        let (Some((verify, _)), Some((ca, _)), crl) = all.first()? else { return None };
        type PlacedValue = Option<(String, usize)>;
        let same = |one: &(PlacedValue, PlacedValue, PlacedValue)| {
            let text = |part: &PlacedValue| part.as_ref().map(|(text, _)| text.clone());
            text(&one.0).as_deref() == Some(verify) && text(&one.1).as_deref() == Some(ca) && text(&one.2) == text(crl)
        };
        let mode = match verify.as_str() {
            "required" => "require",
            "optional" => "request",
            _ => return None,
        };
        if !all.iter().all(same) || ca.starts_with('@') {
            return None;
        }
        for (verify, ca, crl) in &all {
            origin.carry_all([verify, ca, crl].into_iter().flatten().map(|(_, at)| *at));
        }
        let crl = crl.as_ref().map(|(file, _)| format!(" crl={}", quoted(&self.path("ca-base", file)))).unwrap_or_default();
        Some(format!("client-auth ca={}{crl} mode={}", quoted(&self.path("ca-base", ca)), quoted(mode)))
    }
}

/// Whether a line has clients known by another address than that of their connection.
pub fn sets_source(line: &HaProxyLine) -> bool {
    line.words.iter().take(3).any(|word| word == "set-src")
}

/// Proxies in front whose `X-Forwarded-For` counts, and the line that says so.
pub struct BelievedPeers {
    pub at: usize,
    networks: Vec<String>,
    places: BTreeSet<usize>,
    /// The field in which they name the client, in lower case.
    field: String,
}

/// `http-request set-src hdr(x-forwarded-for) if { src 10.0.0.0/8 }`: that only some are believed is what makes it one
/// of ours.
pub fn believed(section: &Section) -> Option<BelievedPeers> {
    let mut lines = section.lines.iter().filter(|line| sets_source(line));
    let line = lines.next().filter(|line| line.word(0) == "http-request")?;
    let field = line.word(2).to_ascii_lowercase();
    let fetches = ["hdr(", "req.hdr(", "hdr_ip(", "req.hdr_ip(", "req.fhdr("];
    let argument = fetches.iter().find_map(|fetch| field.strip_prefix(fetch)?.strip_suffix(')'))?;
    let name = argument.strip_suffix(",-1").unwrap_or(argument);
    let is_name =
        !name.is_empty() && name != "forwarded" && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if lines.next().is_some() || !is_name {
        return None;
    }
    let (networks, places) = networks_of(section, line)?;
    Some(BelievedPeers { at: line.start(), networks, places, field: name.to_owned() })
}

/// The networks that the condition of a line asks for and nothing else, and the lines of `acl` that say them.
fn networks_of(section: &Section, line: &HaProxyLine) -> Option<(Vec<String>, BTreeSet<usize>)> {
    let read = super::conditions::of_line(section, line, &super::fetches::Variables::new());
    match read.condition {
        Condition::Test(Test::Source(networks)) => Some((networks, read.places)),
        _ => None,
    }
}

/// The `listener` lines for what proxies in front of these doors say of their clients.
pub fn behind_others(section: &Section) -> Vec<(String, Origin)> {
    let mut lines = Vec::new();
    let expect = section.lines.iter().find(|line| line.word(0) == "tcp-request" && line.has("expect-proxy"));
    let expected = expect.and_then(|line| Some((networks_of(section, line)?, line.start())));
    let believed = believed(section);
    let listed = |networks: &[String]| networks.iter().map(|network| quoted(network)).collect::<Vec<_>>().join(" ");
    for bind in section.lines_of("bind") {
        let accept = bind.options(2).find(|(option, _, _)| *option == "accept-proxy").map(|(_, _, at)| at);
        for (door, _) in doors(bind) {
            let mut origin = Origin::default();
            let mut inside = Vec::new();
            match (&expected, accept) {
                (_, Some(at)) => {
                    origin.carry(at);
                    origin.differ(at, EVERYBODY);
                    inside.push("accept-proxy-protocol from=\"0.0.0.0/0\" \"::/0\"".to_owned());
                }
                (Some(((networks, places), at)), None) => {
                    origin.carry(*at);
                    origin.carry_all(places.iter().copied());
                    inside.push(format!("accept-proxy-protocol from={}", listed(networks)));
                }
                (None, None) => {}
            }
            if let Some(believed) = &believed {
                origin.carry(believed.at);
                origin.carry_all(believed.places.iter().copied());
                origin.differ(believed.at, LAST_UNKNOWN);
                inside.push(format!("trusted-proxies {}", listed(&believed.networks)));
                if believed.field != "x-forwarded-for" {
                    inside.push(format!("client-ip-header {}", quoted(&believed.field)));
                }
            }
            if !inside.is_empty() {
                let address = crate::outline::tcp_address(door.ip, door.port);
                lines.push((format!("listener {} {{ {}; }}", quoted(&address), inside.join("; ")), origin));
            }
        }
    }
    lines
}

/// Where a `bind` says that clients of IPv4 have no part in its ports.
pub fn of_v6_alone(bind: &HaProxyLine) -> Option<usize> {
    bind.options(2).find(|(option, _, _)| *option == "v6only").map(|(_, _, at)| at)
}

/// Whether clients of IPv4 find nobody on the port of this door.
pub fn is_closed_to_v4(section: &Section, door: Door) -> bool {
    // One address of the machine has a site of its own.
    let is_same = |own: &Door| own.ip.is_none() && own.port == door.port;
    let binds = || section.lines_of("bind").filter(|bind| doors(bind).iter().any(|(own, _)| is_same(own)));
    door.ip.is_none() && binds().next().is_some() && binds().all(|bind| of_v6_alone(bind).is_some())
}

/// Keeps clients of IPv4 out of a site that listens for them as well.
pub const V4_SHUT: &str = "deny \"0.0.0.0/0\"";
pub const V4_REFUSED: &str = "a site listens for clients of IPv4 as well, and these are refused with 403";
