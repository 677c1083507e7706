//! `admin "127.0.0.1:9180" token="{file./etc/tidegate/token}" hosts="app-1.example.com"`: where metrics, health and the
//! API are served, who may use it, and by which names.

use crate::diagnostics::Diagnostic;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place, Property};
use crate::written_line::Writer;
use std::net::SocketAddr;
use tidegate_model::address::parse_host_pattern;
use tidegate_model::{Admin, HostPattern, Secret, UpstreamAddress};

pub static ADMIN: Directive = Directive {
    name: "admin",
    places: &[Place::Top],
    arguments: &[Argument::one(
        "address",
        Kind::ChoiceOr(&["off"], "an address, as in `\"127.0.0.1:9180\"` or `\"unix:/run/tidegate.sock\"`"),
        "An IP address and a port; `unix:` and a path; or `off`.",
    )],
    properties: &[
        Property::once(
            "token",
            Kind::Secret("at least 16 characters"),
            "What clients of the API present. Best from a file or the environment.",
        ),
        Property::once(
            "hosts",
            Kind::Text("names, separated by commas"),
            "More names by which `/metrics` is answered; `*.example.com` is one more label.",
        ),
    ],
    summary: "Where `/metrics`, `/healthz`, `/readyz` and the API under `/v1` are served.",
    details: "The first three need no login, so an address that others can reach is a warning. The API needs `Authorization: Bearer TOKEN`, \
              on a socket only where a `token` is set: there the permissions of its file decide. Without `token` the process makes one and keeps it as \
              `admin-token` in its state folder; on an address that is not of this machine the API then refuses everybody.\n\n\
              `/metrics` is answered by IP address and by names that no site on the internet can have: of one word, below `.internal`, `.local` and `.localhost`, \
              and those of Kubernetes (`tidegate.monitoring.svc`, `….svc.cluster.local`). A scraper that comes by another name gets 403 until `hosts=` has that name: \
              a web page could be made to resolve to this machine, and would read there what runs inside. `/healthz` and `/readyz` say one word and ask for no name; \
              the API is asked by address or as `localhost`, whatever `hosts=` says. On a socket no name is looked at.",
    default: "`127.0.0.1:9180`",
    example: "admin \"127.0.0.1:9180\" hosts=\"app-1.example.com,*.mon.example.com\"",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// Shorter ones can be tried out.
const TOKEN_CHARS_MIN: usize = 16;

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    if let Some(token) = line.text(lowering, "token") {
        lower_token(lowering, &token);
    }
    if let Some(hosts) = line.text(lowering, "hosts") {
        lower_hosts(lowering, &hosts);
    }
    lower_address(lowering, line);
    warn_of_useless_hosts(lowering, line);
}

fn lower_address(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    lowering.spans.admin = line.argument(0).map(|value| value.location.clone());
    let text = match line.read_argument(lowering, 0) {
        Some(Read::Choice(..)) => {
            lowering.configuration.admin = Admin::Off;
            return;
        }
        Some(Read::Text(text)) => text,
        _ => return,
    };
    if let Some(path) = text.value.strip_prefix("unix:") {
        if path.is_empty() {
            lowering
                .report(text.error("bad-address", "the path of the socket is missing").help("write `unix:/run/tidegate.sock`"));
            return;
        }
        let path = lowering.path(path, &text.location);
        if path.as_os_str().len() > UpstreamAddress::UNIX_PATH_BYTES_MAX {
            let message = format!("the path of a socket has at most {} bytes", UpstreamAddress::UNIX_PATH_BYTES_MAX);
            lowering.report(text.error("bad-address", message).help("choose a shorter path, as in `unix:/run/tidegate.sock`"));
            return;
        }
        lowering.configuration.admin = Admin::Unix(path);
        return;
    }
    match text.value.parse::<SocketAddr>() {
        Ok(address) => {
            if !address.ip().is_loopback() {
                warn_of_open_address(lowering, &text, address);
            }
            lowering.configuration.admin = Admin::Tcp(address);
        }
        Err(_) => lowering.report(not_an_address(&text)),
    }
}

fn lower_token(lowering: &mut Lowering<'_>, token: &Text) {
    // As it comes from a file, with the line end that editors put there.
    let value = token.value.trim_end_matches(['\r', '\n']);
    if value.chars().count() < TOKEN_CHARS_MIN || !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("a token has at least {TOKEN_CHARS_MIN} visible ASCII characters and no blanks");
        let diagnostic = token.error("bad-token", message).help("for example what `openssl rand -hex 32` prints");
        lowering.report(diagnostic);
        return;
    }
    lowering.configuration.admin_token = Some(Secret::new(value));
}

fn lower_hosts(lowering: &mut Lowering<'_>, hosts: &Text) {
    for name in hosts.value.split(',').map(str::trim) {
        match parse_host_pattern(name) {
            Ok(pattern @ (HostPattern::Exact(_) | HostPattern::Wildcard(_))) => {
                if let Some(who) = who_else_has(&pattern) {
                    let diagnostic = Diagnostic::warning("open-admin", hosts.location.clone(), format!("`{pattern}` is {who}"));
                    lowering.report(diagnostic.help("name the hosts by which you ask, as in `hosts=\"app-1.example.com\"`"));
                }
                lowering.configuration.admin_hosts.push(pattern);
            }
            Ok(HostPattern::Any | HostPattern::Socket(_)) => {
                lowering.report(hosts.error("bad-name", "an empty entry stands between the commas"))
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
}

/// Beneath which registries of countries sell names; those with others are few.
const SOLD_BENEATH: &[&str] = &["ac", "co", "com", "edu", "gov", "ne", "net", "or", "org"];

/// Others whose pages could have a name of the pattern, which is then wider than whoever listed it means.
fn who_else_has(pattern: &HostPattern) -> Option<&'static str> {
    let is_country = |word: &str| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    match pattern {
        HostPattern::Exact(name) if is_country(name) => Some("the domain of a country, which can have a site itself"),
        HostPattern::Wildcard(parent) => {
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
fn warn_of_useless_hosts(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let why = match &lowering.configuration.admin {
        Admin::Tcp(_) => return,
        Admin::Unix(_) => "on a socket no name is looked at",
        Admin::Off => "nothing is served",
    };
    if let Some(hosts) = line.property("hosts") {
        let diagnostic =
            Diagnostic::warning("without-effect", hosts.location.clone(), format!("`hosts=` does nothing here: {why}"));
        lowering.report(diagnostic.help("remove it"));
    }
}

fn warn_of_open_address(lowering: &mut Lowering<'_>, text: &Text, address: SocketAddr) {
    let who = if address.ip().is_unspecified() { "everyone who reaches this machine" } else { "the network of this address" };
    let message = format!("the admin endpoint is open to {who}");
    let diagnostic = Diagnostic::warning("open-admin", text.location.clone(), message)
        .help(format!("bind it to `127.0.0.1:{}` or to a `unix:` socket", address.port()));
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

pub fn write(line: &mut Writer, admin: &Admin, token: Option<&Secret>, hosts: &[HostPattern]) {
    line.name("admin");
    match admin {
        Admin::Off => line.argument("off"),
        Admin::Tcp(address) => line.argument(address),
        Admin::Unix(path) => line.argument(format_args!("unix:{}", path.display())),
    };
    line.secret_property("token", token);
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    line.optional("hosts", (!hosts.is_empty()).then(|| hosts.join(",")));
}
