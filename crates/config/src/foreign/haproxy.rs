//! What a file of HAProxy asks for: its frontends with the backends that they use, by name, by path or all, in the mode
//! that each section has of its own or from `defaults`.

use super::outline::{
    Door, GroupedServer, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup, Service, addresses,
    below, is_plain, upstream_with_port,
};

const BY_MAP: &str = "which backend is asked is in a map of its own, or computed: `split to=` and `map` do that here";
const NO_SECTION: &str = "it has neither a frontend nor servers";
const TLS_OF_TCP: &str =
    "`tcp` hands connections on as they are, so TLS in front of a server that speaks no HTTP is not ended here";

const GUARDS: [&str; 6] = ["deny", "auth", "tarpit", "silent-drop", "reject", "track-sc0"];
const HTTP_WORDS: [&str; 12] = [
    "http-request",
    "http-response",
    "http-check",
    "httpchk",
    "httplog",
    "forwardfor",
    "cookie",
    "hdr(host)",
    "path_beg",
    "path",
    "redirect",
    "compression",
];
const CONDITIONS: [&str; 2] = ["if", "unless"];

#[derive(Debug, Default)]
struct Section {
    kind: String,
    name: String,
    lines: Vec<Vec<String>>,
    is_tcp: Option<bool>,
}

impl Section {
    fn all<'s>(&'s self, name: &'static str) -> impl Iterator<Item = &'s [String]> {
        self.lines.iter().filter(move |line| line.first().is_some_and(|word| word == name)).map(|line| &line[1..])
    }

    fn value(&self, name: &'static str) -> Option<&str> {
        self.all(name).next()?.first().map(String::as_str)
    }

    fn has_word(&self, words: &[&str]) -> bool {
        self.lines.iter().flatten().any(|word| words.contains(&word.as_str()))
    }
}

pub fn outline(text: &str) -> Outline {
    let sections = sections(text);
    let reader = HaProxyReader { sections: &sections };
    let mut outline = Outline::default();
    for section in &sections {
        match section.kind.as_str() {
            "frontend" => reader.front(section, &mut outline),
            "listen" => reader.front(section, &mut outline),
            _ => {}
        }
    }
    let has_front = sections.iter().any(|section| matches!(section.kind.as_str(), "frontend" | "listen"));
    if outline.services.is_empty() && !has_front {
        let backends = sections.iter().filter(|section| section.kind == "backend");
        for backend in backends {
            let group = group(backend, None);
            let port = group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse::<u16>().ok());
            match port {
                _ if group.is_empty() => {}
                Some(port) if is_tcp(backend) => {
                    let tcp = OutlinedTcp { address: format!(":{port}"), otherwise: Some(group), ..OutlinedTcp::default() };
                    outline.services.push(Service::Tcp(tcp));
                }
                Some(_) | None => outline.groups.push(group),
            }
        }
    }
    outline.or_without(NO_SECTION)
}

fn sections(text: &str) -> Vec<Section> {
    const KINDS: [&str; 5] = ["defaults", "frontend", "backend", "listen", "global"];
    let mut sections: Vec<Section> = Vec::new();
    let mut of_defaults = None;
    for line in text.lines() {
        let words = words(line);
        let Some(first) = words.first() else { continue };
        let is_section =
            !line.starts_with([' ', '\t']) && (KINDS.contains(&first.as_str()) || super::signs::is_section_of_haproxy(first));
        if is_section {
            let name = words.get(1).cloned().unwrap_or_default();
            // A mode of `defaults` holds for the sections behind it.
            let is_tcp = if first == "defaults" { None } else { of_defaults };
            let address = words.get(2).map(|address| vec!["bind".to_owned(), address.clone()]);
            let lines = address.filter(|_| first == "listen" || first == "frontend").into_iter().collect();
            sections.push(Section { kind: first.clone(), name, lines, is_tcp });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        if first == "mode" {
            section.is_tcp = words.get(1).map(|mode| mode == "tcp");
            if section.kind == "defaults" {
                of_defaults = section.is_tcp;
            }
        }
        section.lines.push(words);
    }
    sections
}

/// Words of a line, without a comment and quotes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '#') => break,
            (None, '"' | '\'') => {
                quote = Some(c);
                is_word = true;
            }
            (None, '\\') => word.extend(characters.next()),
            (None, c) if c.is_whitespace() => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (Some(_) | None, c) => word.push(c),
        }
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Without a word about it, by what only HTTP has.
fn is_tcp(section: &Section) -> bool {
    let by_words = || {
        let has_http = section.has_word(&HTTP_WORDS);
        let has_tcp = section.has_word(&[
            "tcplog",
            "tcp-check",
            "mysql-check",
            "pgsql-check",
            "redis-check",
            "smtpchk",
            "req_ssl_sni",
            "req.ssl_sni",
        ]);
        has_tcp && !has_http
    };
    section.is_tcp.unwrap_or_else(by_words)
}

/// A condition of a line, as far as it is one of these.
#[derive(Debug, Clone, PartialEq)]
enum Condition {
    Host(Vec<String>),
    Sni(Vec<String>),
    Path(Vec<String>),
    /// Not understood, or more than one.
    Other,
}

struct HaProxyReader<'s> {
    sections: &'s [Section],
}

impl HaProxyReader<'_> {
    fn backend(&self, name: &str, port: Option<u16>) -> Option<ServerGroup> {
        let section =
            self.sections.iter().find(|section| section.name == name && matches!(section.kind.as_str(), "backend" | "listen"))?;
        Some(group(section, port)).filter(|group| !group.is_empty())
    }

    fn front(&self, section: &Section, outline: &mut Outline) {
        let doors: Vec<Door> = section.all("bind").flat_map(doors).collect();
        let own = Some(group(section, doors.first().map(|door| door.port))).filter(|group| !group.is_empty());
        if doors.is_empty() && own.is_none() {
            return;
        }
        if is_tcp(section) { self.tcp(section, &doors, own, outline) } else { self.http(section, &doors, own, outline) }
    }

    fn tcp(&self, section: &Section, doors: &[Door], own: Option<ServerGroup>, outline: &mut Outline) {
        if doors.iter().any(|door| door.is_tls) {
            outline.without.get_or_insert(TLS_OF_TCP);
            return;
        }
        let Some(door) = doors.first() else { return };
        let port = Some(door.port);
        let default = section.value("default_backend").and_then(|name| self.backend(name, port));
        let mut tcp = OutlinedTcp { address: format!(":{}", door.port), by_name: Vec::new(), otherwise: own.or(default) };
        for rule in section.all("use_backend") {
            let (Some(name), condition) = (rule.first(), condition(section, rule)) else { continue };
            if let (Some(Condition::Sni(names) | Condition::Host(names)), Some(group)) = (condition, self.backend(name, port)) {
                tcp.by_name.push((names, group));
            }
        }
        if tcp.otherwise.is_some() || !tcp.by_name.is_empty() {
            // Each port hands on the same.
            let ports = doors.iter().map(|door| OutlinedTcp { address: format!(":{}", door.port), ..tcp.clone() });
            outline.services.extend(ports.map(Service::Tcp));
        } else {
            outline.without.get_or_insert(BY_MAP);
        }
    }

    fn http(&self, section: &Section, doors: &[Door], own: Option<ServerGroup>, outline: &mut Outline) {
        let secure = doors.iter().find(|door| door.is_tls);
        let door = secure.or(doors.first()).copied().unwrap_or(Door::HTTP);
        let (mut guards, mut refused): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for rule in section.all("http-request") {
            let Some(word) = rule.first().filter(|word| GUARDS.contains(&word.as_str())) else { continue };
            match condition(section, rule) {
                Some(Condition::Path(patterns)) if word == "deny" => refused.extend(patterns.iter().map(|path| refusal(path))),
                _ => guards.push(format!("http-request {word}")),
            }
        }
        guards.dedup();
        let mut all = OutlinedSite {
            addresses: addresses(&[], door).unwrap_or_default(),
            guards: guards.clone(),
            ..OutlinedSite::default()
        };
        if !refused.is_empty() {
            all.routes.push(OutlinedRoute::of(refused.clone(), OutlinedAnswer::status(403)));
        }
        let port = Some(door.port);
        let mut is_by_map = false;
        for rule in section.all("use_backend") {
            let Some(name) = rule.first() else { continue };
            is_by_map |= name.contains("%[");
            let Some(group) = self.backend(name, port) else { continue };
            match condition(section, rule) {
                Some(Condition::Host(hosts) | Condition::Sni(hosts)) => {
                    if let Some(addresses) = addresses(&hosts, door) {
                        let answer = Some(OutlinedAnswer::proxy(group));
                        let routes = all.routes.iter().filter(|route| route.patterns == refused).cloned().collect();
                        let site = OutlinedSite { addresses, routes, answer, guards: guards.clone(), ..OutlinedSite::default() };
                        outline.services.push(Service::Site(site));
                    }
                }
                Some(Condition::Path(patterns)) => all.routes.push(OutlinedRoute::of(patterns, OutlinedAnswer::proxy(group))),
                None => all.answer = Some(OutlinedAnswer::proxy(group)),
                Some(Condition::Other) => {}
            }
        }
        let default = section.value("default_backend").and_then(|name| self.backend(name, port));
        all.answer = all.answer.or(own.or(default).map(OutlinedAnswer::proxy));
        if all.answer.is_some() || all.routes.len() > usize::from(!refused.is_empty()) {
            outline.services.push(Service::Site(all));
        } else if is_by_map {
            outline.without.get_or_insert(BY_MAP);
        }
    }
}

/// The condition behind `if`; `None` without one.
fn condition(section: &Section, rule: &[String]) -> Option<Condition> {
    let start = rule.iter().position(|word| CONDITIONS.contains(&word.as_str()))?;
    let words: Vec<&str> = rule[start + 1..].iter().map(String::as_str).filter(|word| !matches!(*word, "{" | "}")).collect();
    if rule[start] == "unless" || words.iter().any(|word| matches!(*word, "||" | "or") || word.starts_with('!')) {
        return Some(Condition::Other);
    }
    if rule[start + 1..].first().is_some_and(|word| word == "{") {
        let is_one = rule[start + 1..].iter().filter(|word| *word == "{").count() == 1;
        return Some(if is_one { criterion(&words) } else { Condition::Other });
    }
    let [name] = words.as_slice() else { return Some(Condition::Other) };
    let acls: Vec<&[String]> = section.all("acl").filter(|acl| acl.first().is_some_and(|word| word == name)).collect();
    let criteria: Vec<Condition> =
        acls.iter().map(|acl| criterion(&acl[1..].iter().map(String::as_str).collect::<Vec<_>>())).collect();
    // Lines of one name are alternatives.
    criteria
        .into_iter()
        .reduce(|one, other| match (one, other) {
            (Condition::Host(one), Condition::Host(other)) => Condition::Host([one, other].concat()),
            (Condition::Sni(one), Condition::Sni(other)) => Condition::Sni([one, other].concat()),
            (Condition::Path(one), Condition::Path(other)) => Condition::Path([one, other].concat()),
            (Condition::Host(_) | Condition::Sni(_) | Condition::Path(_) | Condition::Other, _) => Condition::Other,
        })
        .or(Some(Condition::Other))
}

/// A pattern that takes all that HAProxy's does: what begins so, also within a segment.
fn refusal(pattern: &str) -> String {
    pattern.strip_suffix("/*").map_or_else(|| pattern.to_owned(), |stem| format!("~^{}", regex_syntax::escape(stem)))
}

/// `hdr(host) -i a.com b.com`
fn criterion(words: &[&str]) -> Condition {
    let Some((fetch, rest)) = words.split_first() else { return Condition::Other };
    let mut is_end = fetch.contains("_end") || fetch.contains("_dom");
    let mut values = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match *word {
            "-i" | "--" => {}
            "-m" => match rest.next() {
                Some(&("end" | "dom")) => is_end = true,
                Some(&("str" | "beg")) => {}
                _ => return Condition::Other,
            },
            word if word.starts_with('-') => return Condition::Other,
            word => values.push(word.to_owned()),
        }
    }
    if values.is_empty() {
        return Condition::Other;
    }
    let fetch = fetch.split(',').next().unwrap_or_default().to_ascii_lowercase();
    let hosts = |values: Vec<String>| -> Vec<String> {
        let with_all = |name: String| if is_end { format!(".{}", name.trim_start_matches('.')) } else { name };
        values.into_iter().map(with_all).map(|name| name.split(':').next().unwrap_or_default().to_owned()).collect()
    };
    match fetch.as_str() {
        "hdr(host)" | "req.hdr(host)" | "hdr_dom(host)" | "hdr_end(host)" | "req.fhdr(host)" | "var(txn.txnhost)" => {
            Condition::Host(hosts(values))
        }
        "req_ssl_sni" | "req.ssl_sni" | "ssl_fc_sni" | "ssl_fc_sni_end" => {
            let names = hosts(values).into_iter();
            Condition::Sni(
                names
                    .flat_map(|name| match name.strip_prefix('.') {
                        Some(domain) => vec![domain.to_owned(), format!("*.{domain}")],
                        None => vec![name],
                    })
                    .collect(),
            )
        }
        "path_beg" | "path_dir" => Condition::Path(values.iter().map(|path| below(path)).collect()),
        "path" if words.contains(&"beg") => Condition::Path(values.iter().map(|path| below(path)).collect()),
        "path" => Condition::Path(values),
        _ => Condition::Other,
    }
}

fn doors(bind: &[String]) -> Vec<Door> {
    let is_tls = bind.iter().any(|word| word == "ssl");
    let addresses = bind.first().map(String::as_str).unwrap_or_default().split(',');
    addresses
        .filter_map(|address| {
            let address = address.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
            let address = address.strip_prefix('*').unwrap_or(address);
            let port = address.rsplit(':').next()?.split('-').next()?;
            let host = address.rsplit_once(':').map_or("", |(host, _)| host);
            Door::parse(&format!("{host}:{port}"), is_tls)
        })
        .collect()
}

fn group(section: &Section, port: Option<u16>) -> ServerGroup {
    let mut group = ServerGroup { name: section.name.clone(), ..ServerGroup::default() };
    let of_all: Vec<&String> = section.all("default-server").flatten().collect();
    for server in section.all("server") {
        let [_, address, options @ ..] = server else { continue };
        let has = |word: &str| options.iter().chain(of_all.iter().copied()).any(|option| option == word);
        let behind = |word: &str| options.iter().position(|option| option == word).and_then(|at| options.get(at + 1));
        let address = ["ipv4@", "ipv6@", "unix@"].iter().fold(address.as_str(), |address, kind| address.trim_start_matches(kind));
        let Some(address) = upstream_with_port(address, port).filter(|_| !has("disabled")) else { continue };
        let weight = behind("weight").and_then(|weight| weight.parse().ok()).filter(|weight| *weight > 1);
        let address = if has("ssl") && !address.starts_with("unix:") { format!("https://{address}") } else { address };
        group.servers.push(GroupedServer { address, weight, is_backup: has("backup") });
        let name = behind("sni")
            .and_then(|name| name.strip_prefix("str(")?.strip_suffix(')'))
            .or(behind("verifyhost").map(String::as_str));
        if has("ssl") && behind("verify").is_some_and(|verify| verify == "none") {
            group.add_line("tls verify=#false");
        } else if let Some(name) = name.filter(|name| has("ssl") && is_plain(name)) {
            group.add_line(format!("tls sni=\"{name}\""));
        }
        if has("send-proxy-v2") {
            group.add_line("send-proxy-protocol \"v2\"");
        } else if has("send-proxy") {
            group.add_line("send-proxy-protocol \"v1\"");
        }
    }
    for template in section.all("server-template") {
        if let [_, _, address, ..] = template
            && let Some(address) = upstream_with_port(address, port).filter(|address| !address.starts_with('_'))
        {
            group.add_line(format!("discover dns=\"{address}\""));
        }
    }
    let balance = section.value("balance").unwrap_or_default();
    match balance.split('(').next().unwrap_or_default() {
        "leastconn" => group.add_line("balance \"least-conn\""),
        "source" => group.add_line("balance \"hash\" key=\"{client.ip}\""),
        "uri" if !is_tcp(section) => group.add_line("balance \"hash\" key=\"{path}\""),
        "random" => group.add_line("balance \"random\""),
        _ => {}
    }
    if let Some(cookie) =
        section.all("cookie").find(|cookie| cookie.iter().any(|word| word == "insert")).and_then(|cookie| cookie.first())
    {
        group.add_line(format!("sticky cookie=\"{cookie}\""));
    }
    group
}
