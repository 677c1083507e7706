//! `admin "127.0.0.1:9180" token="{file./etc/tidegate/token}" hosts="app-1.example.com"`: where metrics, health and the
//! API are served, who may use it, and by which names. May stand several times, once for each place.

use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property, Repeat};
use crate::written_line::{Lines, Writer, name_of};
use std::net::SocketAddr;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{Admin, AdminEndpoint, AdminPlace, AdminServes, HostPattern, Secret, UpstreamAddress};

pub static ADMIN: Directive = Directive {
    name: "admin",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one(
        "address",
        Kind::ChoiceOr(&["off"], "an address, as in `\"127.0.0.1:9180\"` or `\"unix:/run/tidegate.sock\"`"),
        "An IP address and a port; `unix:` and a path; or `off`.",
    )],
    properties: &[
        Property::once(
            "serve",
            Kind::Choice(&["everything", "metrics"]),
            "`everything`, which is meant when it is left out; or `metrics`: `/metrics`, `/healthz` and `/readyz` without the API.",
        ),
        Property::once(
            "token",
            Kind::Secret("at least 16 characters"),
            "What clients of the API present. Best from a file or the environment.",
        ),
        Property::once(
            "read-token",
            Kind::Secret("at least 16 characters"),
            "A second token, for clients of the API that look and change nothing.",
        ),
        Property::once(
            "hosts",
            Kind::Text("names, separated by commas"),
            "More names by which `/metrics` is answered; `*.example.com` is one more label, `**.example.com` any number of them.",
        ),
    ],
    summary: "Where `/metrics`, `/healthz`, `/readyz` and the API under `/v1` are served; once for each place.",
    details: "The API is served on the socket `admin.sock` of the state folder, unless a line of `admin` serves it to commands on this machine: on a socket, on \
              `127.0.0.1` or on all addresses, or on any other with a `token`. So `admin \"0.0.0.0:9180\" serve=\"metrics\"` gives a scraper metrics and takes nothing from `tidegate status`. \
              `admin \"off\"` serves nothing, not even there.\n\n\
              `/metrics`, `/healthz` and `/readyz` need no login; that others can reach the API is a warning. The API needs `Authorization: Bearer TOKEN`, \
              on a socket only where a `token` is set: there the permissions of its file decide. Without `token` the process makes one, keeps it as \
              `admin-token` in its state folder, and takes it from this machine only; from others the API then refuses everybody. With `read-token` a client may ask everything that changes \
              nothing, and is refused with 403 beyond that.\n\n\
              `/metrics` is answered by IP address and by names that no site on the internet can have: of one word, below `.internal`, `.local` and `.localhost`, \
              and those of Kubernetes (`tidegate.monitoring.svc`, `….svc.cluster.local`). A scraper that comes by another name gets 403 until `hosts=` has that name: \
              a web page could be made to resolve to this machine, and would read there what runs inside. `/healthz` and `/readyz` say one word and ask for no name; \
              the API is asked by address or as `localhost`, whatever `hosts=` says. On a socket no name is looked at.",
    default: "the API on `admin.sock` in the state folder, and `admin \"127.0.0.1:9180\" serve=\"metrics\"`",
    example: "admin \"unix:/run/tidegate/admin.sock\"\nadmin \"10.0.0.4:9180\" serve=\"metrics\" hosts=\"app-1.example.com,*.mon.example.com\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// Shorter ones can be tried out.
const TOKEN_CHARS_MIN: usize = 16;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let serves = match line.read(lowering, "serve").map(Read::choice) {
        Some(wanted) => {
            let known = AdminServes::NAMES.iter().find(|(name, _)| *name == wanted);
            known.map_or(AdminServes::Everything, |(_, serves)| *serves)
        }
        None => AdminServes::Everything,
    };
    let token = line.text(lowering, "token").and_then(|token| lower_token(lowering, &token));
    let read_token = line.text(lowering, "read-token").and_then(|token| lower_token(lowering, &token));
    let hosts = line.text(lowering, "hosts").map(|hosts| lower_hosts(lowering, &hosts)).unwrap_or_default();
    if let (Some(token), Some(read_token)) = (&token, &read_token)
        && token == read_token
    {
        let message = "`read-token` is the same as `token`, so whoever looks could change everything";
        let at = line.property("read-token").map_or_else(|| line.location(), |value| value.location.clone());
        lowering.report(Diagnostic::error("bad-token", at, message).help("make another one: `openssl rand -hex 32`"));
    }
    if let Some(location) = line.argument(0).map(|value| value.location.clone()) {
        lowering.spans.admin.push((serves, location));
    }
    let place = match read_place(lowering, line, serves) {
        Some(AdminAddress::At(place)) => place,
        Some(AdminAddress::Nowhere) => {
            warn_of_useless_hosts(lowering, line, "nothing is served");
            return switch_off(lowering, line);
        }
        None => return,
    };
    if matches!(place, AdminPlace::Unix(_)) {
        warn_of_useless_hosts(lowering, line, "on a socket no name is looked at");
    }
    if serves == AdminServes::Metrics {
        warn_of_useless_tokens(lowering, line);
    }
    add(lowering, line, AdminEndpoint { place, serves, token, read_token, hosts, is_implied: false });
}

/// What the argument says.
enum AdminAddress {
    Nowhere,
    At(AdminPlace),
}

fn read_place(lowering: &mut Lowering<'_>, line: &Line<'_>, serves: AdminServes) -> Option<AdminAddress> {
    let text = match line.read_argument(lowering, 0)? {
        Read::Choice(..) => return Some(AdminAddress::Nowhere),
        Read::Text(text) => text,
        _ => return None,
    };
    if let Some(path) = text.value.strip_prefix("unix:") {
        if path.is_empty() {
            lowering
                .report(text.error("bad-address", "the path of the socket is missing").help("write `unix:/run/tidegate.sock`"));
            return None;
        }
        let path = lowering.path(path, &text.location);
        if path.as_os_str().len() > UpstreamAddress::UNIX_PATH_BYTES_MAX {
            let message = format!("the path of a socket has at most {} bytes", UpstreamAddress::UNIX_PATH_BYTES_MAX);
            lowering.report(text.error("bad-address", message).help("choose a shorter path, as in `unix:/run/tidegate.sock`"));
            return None;
        }
        return Some(AdminAddress::At(AdminPlace::Unix(path)));
    }
    match text.value.parse::<SocketAddr>() {
        Ok(address) => {
            // Whoever writes `serve="metrics"` means others to reach it.
            if !address.ip().is_loopback() && serves == AdminServes::Everything {
                warn_of_open_address(lowering, &text, address);
            }
            Some(AdminAddress::At(AdminPlace::Tcp(address)))
        }
        Err(_) => {
            lowering.report(not_an_address(&text));
            None
        }
    }
}

fn switch_off(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    match lowering.configuration.admin {
        Admin::Default => lowering.configuration.admin = Admin::Off,
        Admin::Off => lowering.report(
            Diagnostic::error("duplicate-directive", line.location(), "`admin \"off\"` is written twice")
                .help("remove one of them"),
        ),
        Admin::At(_) => report_off_beside_others(lowering, line),
    }
}

fn report_off_beside_others(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let message = "one line of `admin` says that nothing is served, and another one where";
    lowering.report(Diagnostic::error("duplicate-directive", line.location(), message).help("remove one of them"));
}

fn add(lowering: &mut Lowering<'_>, line: &Line<'_>, endpoint: AdminEndpoint) {
    match &mut lowering.configuration.admin {
        Admin::Default => lowering.configuration.admin = Admin::At(vec![endpoint]),
        Admin::Off => report_off_beside_others(lowering, line),
        Admin::At(known) if known.iter().any(|known| known.place == endpoint.place) => {
            let message = format!("there are two lines of `admin` for `{}`", endpoint.place);
            lowering.report(Diagnostic::error("duplicate-listener", line.location(), message).help("put both into one"));
        }
        Admin::At(known) => known.push(endpoint),
    }
}

fn lower_token(lowering: &mut Lowering<'_>, token: &Text) -> Option<Secret> {
    // As it comes from a file, with the line end that editors put there.
    let value = token.value.trim_end_matches(['\r', '\n']);
    if value.chars().count() < TOKEN_CHARS_MIN || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("a token has at least {TOKEN_CHARS_MIN} visible ASCII characters and no blanks");
        lowering.report(token.error("bad-token", message).help("for example what `openssl rand -hex 32` prints"));
        return None;
    }
    Some(Secret::new(value))
}

fn lower_hosts(lowering: &mut Lowering<'_>, hosts: &Text) -> Vec<HostPattern> {
    let mut patterns = Vec::new();
    for name in hosts.value.split(',').map(str::trim) {
        match parse_host_pattern(name) {
            Ok(pattern @ (HostPattern::Exact(_) | HostPattern::Wildcard(_) | HostPattern::DeepWildcard(_))) => {
                if let Some(who) = who_else_has(&pattern) {
                    let diagnostic = Diagnostic::warning("open-admin", hosts.location.clone(), format!("`{pattern}` is {who}"));
                    lowering.report(diagnostic.help("name the hosts by which you ask, as in `hosts=\"app-1.example.com\"`"));
                }
                patterns.push(pattern);
            }
            Ok(HostPattern::Any | HostPattern::Socket(_)) => {
                lowering.report(hosts.error("bad-name", "an empty entry stands between the commas"));
            }
            Ok(HostPattern::Ip(_)) => {
                let message = format!("`{name}` is an address, and by addresses `/metrics` is answered anyway");
                lowering.report(hosts.error("bad-name", message).help("name hosts only"));
            }
            Err(reason) => {
                let help = "for example `hosts=\"app-1.example.com\"` or `hosts=\"*.example.com\"`, without scheme and port";
                lowering.report(hosts.error("bad-name", reason).help(help));
            }
        }
    }
    patterns
}

/// Beneath which registries of countries sell names; those with others are few.
const SOLD_BENEATH: &[&str] = &["ac", "co", "com", "edu", "gov", "ne", "net", "or", "org"];

/// Others whose pages could have a name of the pattern, which is then wider than whoever listed it means.
fn who_else_has(pattern: &HostPattern) -> Option<&'static str> {
    let is_country = |word: &str| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    match pattern {
        HostPattern::Exact(name) if is_country(name) => Some("the domain of a country, which can have a site itself"),
        HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => {
            let is_sold = match parent.split_once('.') {
                // Names below those that are nobody's are as good as addresses.
                None => is_public_below(parent),
                Some((second, top)) => SOLD_BENEATH.contains(&second) && is_country(top),
            };
            is_sold.then_some("every name below a domain where anybody can have one: their pages would read `/metrics`")
        }
        HostPattern::Exact(_) | HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => None,
    }
}

/// Whether names of one more word can be on the internet.
fn is_public_below(parent: &str) -> bool {
    HostPattern::Exact(format!("x.{parent}")).is_public()
}

/// Who reaches a socket is no browser, so that nobody is asked for a name there.
fn warn_of_useless_hosts(lowering: &mut Lowering<'_>, line: &Line<'_>, why: &str) {
    warn_of_useless(lowering, line, "hosts", why);
}

fn warn_of_useless_tokens(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    for name in ["token", "read-token"] {
        warn_of_useless(lowering, line, name, "what is served there needs no token");
    }
}

fn warn_of_useless(lowering: &mut Lowering<'_>, line: &Line<'_>, name: &str, why: &str) {
    if let Some(value) = line.property(name) {
        let message = format!("`{name}=` does nothing here: {why}");
        lowering.report(Diagnostic::warning("without-effect", value.location.clone(), message).help("remove it"));
    }
}

fn warn_of_open_address(lowering: &mut Lowering<'_>, text: &Text, address: SocketAddr) {
    let who = if address.ip().is_unspecified() { "everyone who reaches this machine" } else { "the network of this address" };
    let message = format!("the admin endpoint is open to {who}");
    let diagnostic = Diagnostic::warning("open-admin", text.location.clone(), message).help(format!(
        "say `serve=\"metrics\"` where only those are wanted, or bind it to `127.0.0.1:{}` or to a `unix:` socket",
        address.port()
    ));
    lowering.report(diagnostic);
}

fn not_an_address(text: &Text) -> Diagnostic {
    let diagnostic = text.error("bad-address", format!("`{}` is not an IP address with a port", text.value));
    if text.secret {
        return diagnostic;
    }
    match text.value.rsplit_once(':') {
        Some(("" | "*", port)) => diagnostic.help(format!("write `127.0.0.1:{port}`, or for every address `0.0.0.0:{port}`")),
        Some(("localhost", port)) => diagnostic.help(format!("write `127.0.0.1:{port}`")),
        Some(_) => diagnostic.help("names are not looked up here: write the IP address"),
        None => diagnostic.help("for example `127.0.0.1:9180`, `unix:/run/tidegate.sock` or `off`"),
    }
}

pub fn write(lines: &mut Lines, admin: &Admin) {
    match admin {
        Admin::Default => {}
        Admin::Off => lines.line().off("admin"),
        Admin::At(endpoints) => {
            // Several are shown as a list, each as a whole.
            let is_one = endpoints.len() == 1;
            lines.extend(endpoints, |line, endpoint| {
                if is_one {
                    line.name("admin")
                } else {
                    line.repeated("admin")
                };
                write_endpoint(line, endpoint);
            });
        }
    }
}

pub fn write_endpoint(
    line: &mut Writer,
    AdminEndpoint { place, serves, token, read_token, hosts, is_implied: _ }: &AdminEndpoint,
) {
    line.argument(place);
    line.unless(&AdminServes::Everything, "serve", serves, |serves| name_of(AdminServes::NAMES, serves));
    line.secret_property("token", token.as_ref());
    line.secret_property("read-token", read_token.as_ref());
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    line.optional("hosts", (!hosts.is_empty()).then(|| hosts.join(",")));
}
