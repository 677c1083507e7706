//! Where a server of nginx listens, as addresses of a site, and what is said of its listeners: proxies in front of it.

use super::scope::{Levels, nearest};
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::{Door, NAME_IN_PLACE, OutlinedSetting, Whereabouts, any_depth, placed, tcp_address, whereabouts};
use std::collections::BTreeSet;
use tidegate_kdl::quoted;
use tidegate_model::parse_network;

const FEWER_NAMES: &str = "names that are expressions, or end with `*`, are left out";
const NO_NAMES: &str =
    "names that are expressions, or end with `*`, stand in no address: write yours in the place of `example.com`";
const OF_BOTH: &str = "it is IPv6 alone there, and here all addresses of the machine, those of IPv4 as well: write a single address, or \
                       have a firewall keep IPv4 out";
const V4_REFUSED: &str = "a site listens for clients of IPv4 as well, and these are refused with 403";
/// Refuses them.
pub const V4_SHUT: &str = "deny \"0.0.0.0/0\"";
/// Why networks of proxies are not trusted.
const TWO_FIELDS: &str = "another server that listens there has who a client is from another field, and a `listener` reads one of \
                          them: have the proxy in front send the same to both";
const NO_FIELD: &str = "`client-ip-header` of a `listener` takes the name of a field, and this is none";

/// Where a server is.
#[derive(Debug, Default)]
pub struct Front {
    pub doors: Vec<(Door, usize)>,
    pub addresses: Vec<String>,
    pub is_name_open: bool,
    pub only_hosts: Vec<String>,
    /// What is said of it.
    pub origin: Origin,
    /// A condition that only sends plain HTTP to HTTPS, as a site does without a word.
    pub to_https: Option<usize>,
    /// Whether there are lines of `listen`, and none of them a place that is known.
    pub is_nowhere: bool,
    pub is_default: bool,
    /// Whether it listens for clients of IPv6 alone.
    pub is_v6_alone: bool,
}

impl Front {
    pub fn is_tls(&self) -> bool {
        self.doors.iter().any(|(door, _)| door.is_tls)
    }
}

/// The names of a server that are names; that which packages come with stands for none.
pub fn hosts(inside: &[Statement]) -> Vec<String> {
    let is_name = |name: &&String| !matches!(name.as_str(), "_" | "__" | "-" | "" | "localhost") && !name.starts_with('$');
    named(inside, "server_name").flat_map(Statement::arguments).filter(is_name).map(|name| any_depth(name)).collect()
}

/// Whether a line says that what listens there is TLS.
pub fn is_over_tls(listen: &Statement) -> bool {
    listen.arguments().iter().any(|word| matches!(word.as_str(), "ssl" | "quic"))
}

/// The address of a line, in one form.
pub fn place_of(listen: &Statement) -> String {
    let address = listen.argument();
    let has_port = address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
    let address = if has_port { address.to_owned() } else { format!("{address}:80") };
    Door::parse(&address, false).map_or(address, |door| tcp_address(door.ip, door.port))
}

/// Where a server listens; `over_tls` are addresses at which others say that it is TLS.
pub fn front(inside: &[Statement], hosts: &[String], has_certificate: bool, over_tls: &[String]) -> Front {
    let mut front = Front::default();
    let is_on = value(inside, "ssl") == Some("on");
    named(inside, "ssl").for_each(|ssl| front.origin.carry(ssl.start()));
    let mut sockets = Vec::new();
    for listen in named(inside, "listen") {
        let is_tls = is_on || is_over_tls(listen) || over_tls.contains(&place_of(listen));
        let address = listen.argument();
        if let Some(path) = address.strip_prefix("unix:").filter(|path| path.starts_with('/') && !is_tls) {
            sockets.push((format!("http://unix:{path}"), listen.start()));
            continue;
        }
        let has_port = address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        let has_name = address.starts_with("unix:") || (!has_port && address.contains('/'));
        let door = if has_port { Door::parse(address, is_tls) } else { Door::parse(&format!("{address}:80"), is_tls) };
        front.doors.extend(door.filter(|_| !has_name && !address.contains('$')).map(|door| (door, listen.start())));
    }
    front.is_default = named(inside, "listen").any(is_default);
    front.is_nowhere = front.doors.is_empty() && sockets.is_empty() && named(inside, "listen").next().is_some();
    // A port that only sends to another one is not opened for more.
    let over_tls = |condition: &&Statement| {
        let first = condition.argument().trim_start_matches('(');
        let is_of_scheme =
            ["$scheme", "$https", "$ssl_protocol", "$server_port"].iter().any(|variable| first.starts_with(variable));
        let to = named(condition.inside(), "return").chain(named(condition.inside(), "rewrite"));
        is_of_scheme && to.flat_map(Statement::arguments).any(|word| word.starts_with("https://"))
    };
    // A site with a name alone does so without a word; elsewhere it is a route.
    let has_https = front.doors.iter().any(|(door, _)| *door == Door::HTTPS);
    let is_usual = has_https && front.doors.iter().all(|(door, _)| door.is_tls || *door == Door::HTTP);
    let redirect = named(inside, "if").find(over_tls).filter(|_| is_usual);
    if let Some(redirect) = redirect {
        front.origin.carry(redirect.start());
        front.to_https = Some(redirect.start());
    }
    if front.doors.is_empty() && !sockets.is_empty() {
        for (address, at) in sockets {
            front.addresses.push(address);
            front.origin.carry(at);
        }
        named(inside, "server_name").for_each(|name| front.origin.carry(name.start()));
        return front;
    }
    let found = everywhere(&front.doors, hosts, redirect.is_some(), &mut front.origin);
    let is_less = found.as_ref().is_some_and(|own| own.is_less);
    for name in named(inside, "server_name") {
        if is_less {
            front.origin.differ(name.start(), FEWER_NAMES);
        } else if found.is_some() {
            front.origin.carry(name.start());
        }
    }
    front.is_name_open = found.is_none();
    let whereabouts = match found {
        Some(found) => found,
        None => {
            named(inside, "server_name").for_each(|name| front.origin.differ(name.start(), NO_NAMES));
            everywhere(&front.doors, &[NAME_IN_PLACE.to_owned()], redirect.is_some(), &mut front.origin).unwrap_or_default()
        }
    };
    front.addresses = whereabouts.addresses;
    front.only_hosts = whereabouts.only_hosts;
    for (address, at) in sockets {
        front.addresses.push(address);
        front.origin.carry(at);
    }
    open_more(&mut front, inside, hosts, has_certificate, redirect.is_some());
    say_of_both_families(&mut front, inside);
    front
}

/// `[::]:80` is IPv6 alone in nginx, and all addresses of the machine here.
fn say_of_both_families(front: &mut Front, inside: &[Statement]) {
    let of = |at: usize| named(inside, "listen").find(|listen| listen.start() == at);
    let is_of_six = |at: usize| of(at).is_some_and(|listen| listen.argument().starts_with("[::]"));
    let is_of_both = |at: usize| of(at).is_some_and(|listen| listen.arguments().iter().any(|word| word == "ipv6only=off"));
    let is_six_alone = |(door, at): &(Door, usize)| match door.ip {
        None => is_of_six(*at) && !is_of_both(*at),
        Some(ip) => ip.is_ipv6(),
    };
    if !front.doors.is_empty() && front.doors.iter().all(is_six_alone) && front.doors.iter().any(|(door, _)| door.ip.is_none()) {
        front.is_v6_alone = true;
        for (_, at) in front.doors.iter().filter(|(door, _)| door.ip.is_none()) {
            front.origin.differ(*at, V4_REFUSED);
        }
        return;
    }
    for (door, at) in front.doors.iter().filter(|(door, at)| door.ip.is_none() && is_of_six(*at) && !is_of_both(*at)) {
        if !front.doors.iter().any(|(other, at)| other.port == door.port && !is_of_six(*at)) {
            front.origin.differ(*at, OF_BOTH);
        }
    }
}

/// Where a server is on all addresses of the machine, and on single ones.
fn everywhere(doors: &[(Door, usize)], hosts: &[String], redirects: bool, origin: &mut Origin) -> Option<Whereabouts> {
    let (on_all, on_one): (Vec<_>, Vec<_>) = doors.iter().copied().partition(|(door, _)| door.ip.is_none());
    let mut found = if on_all.is_empty() && !on_one.is_empty() { None } else { placed(&on_all, hosts, redirects, origin) };
    for (door, at) in on_one {
        let Some(own) = whereabouts(hosts, door) else { continue };
        origin.carry(at);
        match &mut found {
            None => found = Some(own),
            Some(known) => {
                known
                    .addresses
                    .extend(own.addresses.into_iter().filter(|address| !known.addresses.contains(address)).collect::<Vec<_>>());
                known.only_hosts = own.only_hosts;
            }
        }
    }
    found
}

pub fn is_default(listen: &Statement) -> bool {
    listen.arguments().iter().any(|word| is_word_of_default(word))
}

fn is_word_of_default(word: &str) -> bool {
    matches!(word, "default_server" | "default")
}

/// Plain HTTP beside HTTPS where both are served, and all hosts where it is the default.
fn open_more(front: &mut Front, inside: &[Statement], hosts: &[String], has_certificate: bool, redirects: bool) {
    let is_https = front.doors.iter().any(|(door, _)| *door == Door::HTTPS);
    if front.addresses.is_empty() && is_https && hosts.is_empty() && has_certificate {
        front.addresses.push("https://:443".to_owned());
        front.origin.carry_all(front.doors.iter().filter(|(door, _)| *door == Door::HTTPS).map(|(_, at)| *at));
    }
    // Whoever asks for a name that no other server has comes to the default.
    if front.is_default && !front.only_hosts.is_empty() && front.doors.iter().all(|(door, _)| door.ip.is_some()) {
        front.only_hosts.clear();
        let options = named(inside, "listen").filter_map(|listen| listen.options().find(|(word, _)| is_word_of_default(word)));
        front.origin.carry_all(options.map(|(_, at)| at));
    }
    if front.doors.iter().any(|(door, _)| door.ip.is_some()) {
        return;
    }
    let mut more: Vec<String> = Vec::new();
    let plain: Vec<usize> = front.doors.iter().filter(|(door, _)| *door == Door::HTTP).map(|(_, at)| *at).collect();
    if is_https && !redirects && !plain.is_empty() && !front.addresses.is_empty() {
        let names: Vec<String> = front.addresses.iter().filter(|address| !address.contains("://")).cloned().collect();
        if names.is_empty() {
            more.push("http://:80".to_owned());
        }
        more.extend(names.iter().map(|name| format!("http://{name}")));
        for at in plain {
            front.origin.differs.remove(&at);
            front.origin.carry(at);
        }
    }
    for listen in named(inside, "listen").filter(|listen| is_default(listen) && !hosts.is_empty()) {
        let door = front.doors.iter().find(|(_, at)| *at == listen.start()).map(|(door, _)| *door);
        let Some(door) = door.filter(|door| !door.is_tls || has_certificate) else { continue };
        // Port 80 beside HTTPS is a redirect for the names of the site alone.
        if door == Door::HTTP && is_https && redirects {
            continue;
        }
        more.extend(door.address(None));
        let option = listen.options().find(|(word, _)| is_word_of_default(word));
        front.origin.carry_all(option.map(|(_, at)| at));
    }
    for address in more {
        if !front.addresses.contains(&address) {
            front.addresses.push(address);
        }
    }
}

/// What is said of one listener.
#[derive(Debug, Default)]
pub struct Listening {
    trusted: BTreeSet<String>,
    /// The field in which they name the client, in lower case and as it is written.
    field: Option<(String, String)>,
    sends_header: BTreeSet<String>,
    origin: Origin,
}

const LAST_LINE: &str = "of several lines of the field the last one counts here, and the first one in nginx";

/// The listeners of a file, by their address.
pub type Listeners = std::collections::BTreeMap<String, Listening>;

/// Adds what a server says of proxies in front of it; whether the addresses of clients are known then. `Err`: why these
/// proxies are not trusted.
pub fn listen(levels: &Levels<'_>, doors: &[(Door, usize)], listeners: &mut Listeners) -> Result<bool, &'static str> {
    let field = levels.one("real_ip_header");
    let from = levels.nearest(&["set_real_ip_from"]);
    let networks: Vec<(&Statement, String)> = from
        .iter()
        .filter_map(|own| {
            let network = if own.argument() == "unix:" { "127.0.0.1" } else { own.argument() };
            parse_network(network).is_ok().then(|| (*own, network.to_owned()))
        })
        .collect();
    let is_header = |listen: &Statement| listen.arguments().iter().any(|word| word == "proxy_protocol");
    let is_by_header = field.is_some_and(|field| field.argument() == "proxy_protocol");
    let client_field = client_field(levels);
    let headed: Vec<&Statement> = named(levels.inner(), "listen").filter(|listen| is_header(listen)).collect();
    let is_known = !networks.is_empty() && networks.len() == from.len();
    if !is_header_name(&client_field.0) {
        return Err(NO_FIELD);
    }
    let is_another = |door: &Door| {
        let known = listeners.get(&tcp_address(door.ip, door.port)).and_then(|listening| listening.field.as_ref());
        known.is_some_and(|(name, _)| *name != client_field.0)
    };
    if !is_by_header && !networks.is_empty() && doors.iter().any(|(door, _)| is_another(door)) {
        return Err(TWO_FIELDS);
    }
    for (door, at) in doors {
        let own = headed.iter().find(|listen| listen.start() == *at);
        if networks.is_empty() || (own.is_none() && is_by_header) {
            continue;
        }
        let listening = listeners.entry(tcp_address(door.ip, door.port)).or_default();
        let origin = &mut listening.origin;
        if let Some(own) = own {
            listening.sends_header.extend(networks.iter().map(|(_, network)| network.clone()));
            origin.carry_all(own.options().find(|(word, _)| *word == "proxy_protocol").map(|(_, at)| at));
        }
        if !is_by_header {
            listening.field = Some(client_field.clone());
            listening.trusted.extend(networks.iter().map(|(_, network)| network.clone()));
        }
        origin.carry_all(networks.iter().map(|(own, _)| own.start()));
        origin.carry_all(levels.one("real_ip_recursive").map(Statement::start));
        origin.carry_all(field.map(Statement::start));
        if !is_by_header && client_field.0 != "x-forwarded-for" {
            let at = field.map_or(networks[0].0.start(), Statement::start);
            origin.differ(at, LAST_LINE);
        }
    }
    Ok(is_known)
}

/// The field that says who a client is, in lower case and as it is written; `X-Real-IP` where no line names one.
fn client_field(levels: &Levels<'_>) -> (String, String) {
    let written = levels.value("real_ip_header").unwrap_or("X-Real-IP");
    (written.to_ascii_lowercase(), written.to_owned())
}

fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text != "forwarded"
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

/// Whether a field of a proxy in front is believed there, so that conditions see it as it came.
pub fn is_believed(levels: &Levels<'_>, variable: &str) -> bool {
    let (field, _) = client_field(levels);
    // Where another field names the client, this one is made anew of it.
    let is_as_it_came = variable != "x_forwarded_for" || field == "x-forwarded-for";
    is_header_name(&field) && field != "proxy_protocol" && is_as_it_came && !levels.nearest(&["set_real_ip_from"]).is_empty()
}

/// The lines of listeners.
pub fn listener_settings(listeners: Listeners) -> Vec<OutlinedSetting> {
    let line = |word: &str, networks: &BTreeSet<String>| {
        let networks: Vec<String> = networks.iter().map(|network| quoted(network)).collect();
        (!networks.is_empty()).then(|| format!("{word} {}", networks.join(" ")))
    };
    let of = |(address, listening): (String, Listening)| {
        let field = listening.field.filter(|(name, _)| name != "x-forwarded-for");
        let lines = [
            line("trusted-proxies", &listening.trusted),
            field.map(|(_, written)| format!("client-ip-header {}", quoted(&written))),
            line("accept-proxy-protocol", &listening.sends_header),
        ];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        OutlinedSetting { line: format!("listener {} {{ {}; }}", quoted(&address), lines.join("; ")), origin: listening.origin }
    };
    listeners.into_iter().map(of).collect()
}

/// Whether the nearest block says that clients come by another proxy.
pub fn is_behind_proxy(levels: &Levels<'_>) -> bool {
    !nearest(levels.all(), &["set_real_ip_from", "real_ip_header"]).is_empty()
}
