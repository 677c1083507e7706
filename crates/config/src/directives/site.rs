//! `site "example.com" { … }`: the addresses it answers on, its certificates, its steps and its routes.
//! What concerns several sites at once (equal addresses, ports shared by TLS and plain HTTP) is in `checks`.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::auth_any;
use crate::directives::client_auth;
use crate::directives::count_by::check_limits;
use crate::directives::listen::{self, LISTEN, WrittenPlace};
use crate::directives::matching;
use crate::directives::origin::{self, ORIGIN};
use crate::directives::route::{self, ROUTE, RouteDraft, without_places};
use crate::directives::tls::{self, TlsDraft};
use crate::forms::is_port_of_tls;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::spans::WrittenAddress;
use crate::table::{Argument, Block, Kind, Place, Repeat};
use crate::{log_in, reachability, redirects, sign_in, step_order};
use std::sync::Arc;
use tidegate_foreign::traefik_rule;
use tidegate_model::{Origin, Route, RouteOptions, Scheme, Site, SiteAddress, Step, TlsSource};

pub static SITE: Directive = Directive {
    name: "site",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument::one_or_more(
        "addresses",
        Kind::Text("an address, as in `\"example.com\"`"),
        "`[scheme://]host[:port]`. The host may be `*.example.com` (one label in front), `**.example.com` (any number of them) or an IP address; `:8080` alone is any host. `http://unix:PATH` is a socket of this machine.",
    )],
    block: Block::Required(Place::Site),
    summary: "What is served on one or more addresses.",
    details: "Without scheme and port a site is HTTPS on port 443, and port 80 redirects to it. A scheme or a port in the address says \
              otherwise; port 80 is plain HTTP. An IP address as host listens on that address only. Where connections arrive at another port than clients ask for, `listen` says where.\n\n\
              Steps written directly in a site run before those of the route that is taken, in each phase of `route`, wherever they stand. A step that answers \
              (`proxy`, `respond`, `redirect` and their like) directly in a site is a route of its own that matches everything; routes behind it are \
              never reached.\n\n\
              A request whose host belongs to no site is answered with 421, and a TLS handshake for such a name is refused, unless \
              there is a site for any host.",
    example: "site \"example.com\" \"www.example.com\" {\n    tls \"internal\"\n    proxy \"10.0.0.4:8080\"\n}",
    lower: Lower::Top(lower),
    ..Directive::PLAIN
};

/// A site while its lines are read.
#[derive(Debug, Default)]
struct SiteDraft {
    origin: Option<Arc<Origin>>,
    tls: TlsDraft,
    listen: Vec<WrittenPlace>,
    options: RouteOptions,
    steps: Vec<(Step, Location)>,
    routes: Vec<RouteDraft>,
    /// Where a terminal step stands directly in the site.
    terminal_at: Option<Location>,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let mut addresses = read_addresses(lowering, line);
    let mut draft = SiteDraft::default();
    let first_file = lowering.spans.files.len();
    let lines = line.lines(lowering);
    let all_understood = lines.len() == line.children().len();
    for child in lines {
        lower_child(lowering, &mut draft, &child);
    }
    if draft.tls.client_auth_at.is_none() {
        let steps = draft.steps.iter().chain(draft.routes.iter().flat_map(|route| &route.steps));
        client_auth::check_uses(lowering, line.children(), steps);
    }
    if !addresses.is_empty() && addresses.iter().all(|written| written.address.scheme == Scheme::Http) {
        matching::warn_of_ja4(lowering, line.children());
    }
    let tls = tls::finish(lowering, draft.tls, &mut addresses);
    listen::apply(lowering, draft.listen, &mut addresses);
    if draft.routes.is_empty() && draft.steps.iter().any(|(step, _)| route::denies_all(step)) {
        let mut denial = RouteDraft::of_site(None, line.location());
        denial.steps.append(&mut draft.steps);
        denial.end_by_denial();
        draft.routes.push(denial);
    }
    let is_never_asked =
        tls.source == TlsSource::Reject && addresses.iter().all(|written| written.address.scheme == Scheme::Https);
    if draft.routes.is_empty() && line.node.children.is_some() && all_understood && !is_never_asked {
        let diagnostic = Diagnostic::error("nothing-answers", line.location(), "nothing answers in this site")
            .help("add `proxy`, `respond`, `redirect` or a `route`");
        lowering.report(diagnostic);
    }
    reachability::check_paths(lowering, &draft.routes, draft.options.path_policy.unwrap_or_default());
    reachability::check(lowering, &draft.routes);
    auth_any::check(lowering, line.children());
    redirects::check(lowering, &draft.routes, &addresses, !draft.steps.is_empty());
    log_in::check(lowering, line.children());
    sign_in::check(lowering, line.children());
    step_order::check(lowering, (&draft.options, &draft.steps), &draft.routes);
    check_limits(lowering, std::iter::once(&*draft.steps).chain(draft.routes.iter().map(|route| &*route.steps)));
    let routes: Option<Vec<Route>> = draft.routes.into_iter().map(RouteDraft::finish).collect();
    lowering.spans.addresses.extend(addresses.iter().map(|written| (written.address.clone(), written.at.clone())));
    let addresses: Vec<SiteAddress> = addresses.into_iter().map(|written| written.address).collect();
    let files = first_file..lowering.spans.files.len();
    if !files.is_empty() {
        lowering.spans.files_of_sites.push((addresses.clone(), files));
    }
    if let Some(routes) = routes
        && (!routes.is_empty() || is_never_asked)
        && !addresses.is_empty()
    {
        let steps = without_places(draft.steps);
        lowering.configuration.sites.push(Arc::new(Site {
            origin: draft.origin,
            addresses,
            tls,
            options: draft.options,
            steps,
            routes,
        }));
    }
}

fn lower_child(lowering: &mut Lowering<'_>, draft: &mut SiteDraft, line: &Line<'_>) {
    match line.directive.lower {
        Lower::Step(lower) => {
            let step = line.lower_step(lowering, lower);
            draft.steps.extend(step.map(|step| (step, line.location())));
        }
        Lower::Option(lower) => lower(lowering, &mut draft.options, line),
        Lower::Terminal(lower) => {
            let terminal = lower(lowering, line);
            if let Some(first) = &draft.terminal_at {
                lowering.report(route::second_terminal(line, first.clone()));
                return;
            }
            let route = RouteDraft::of_site(terminal, line.location());
            draft.terminal_at = (!route.goes_on()).then(|| line.location());
            draft.routes.push(route);
        }
        Lower::Inside if line.directive.name == ROUTE.name => draft.routes.extend(route::read(lowering, line)),
        Lower::Inside if line.directive.name == LISTEN.name => draft.listen = listen::read(lowering, line),
        Lower::Inside if line.directive.name == ORIGIN.name => draft.origin = origin::read(lowering, line),
        Lower::Inside => tls::lower(lowering, &mut draft.tls, line),
        Lower::Reading => {}
        Lower::Top(_) | Lower::Pool(_) | Lower::Limits(_) => unreachable!("the table has no such directive in a site"),
    }
}

/// Whether somebody may have meant plain HTTP: a port that nobody knows as one of TLS, and no word of it.
fn is_tls_unexpected(address: &SiteAddress) -> bool {
    address.scheme == Scheme::Https && !address.redirect_from_http && !is_port_of_tls(address.port)
}

fn has_tls_line(line: &Line<'_>) -> bool {
    line.children().iter().any(|child| child.name.text == "tls")
}

fn tls_without_a_word(text: &Text, address: &SiteAddress) -> Diagnostic {
    let plain = address.to_string().replacen("https://", "http://", 1);
    let message = format!("`{}` is HTTPS: without a scheme only port 80 is plain HTTP", text.shown());
    Diagnostic::warning("tls-without-a-word", text.location.clone(), message)
        .help(format!("write `{plain}` for plain HTTP, or `{address}` if TLS is meant"))
}

fn read_addresses(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<WrittenAddress> {
    let mut addresses = Vec::new();
    for text in line.read_arguments(lowering) {
        let text = text.text();
        match SiteAddress::parse(&text.value) {
            Ok(address) if address.port == 0 && address.socket().is_none() => {
                lowering.report(text.error("bad-address", "port 0 cannot be listened on"));
            }
            Ok(address) => {
                let says_https = text.value.starts_with("https://");
                if !text.value.contains("://") && is_tls_unexpected(&address) && !has_tls_line(line) {
                    lowering.report(tls_without_a_word(&text, &address));
                }
                addresses.push(WrittenAddress { address, at: text.location, says_https });
            }
            Err(reason) => {
                let diagnostic = text.error("bad-address", reason);
                lowering.report(match meant(&text.value) {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                });
            }
        }
    }
    addresses
}

/// The line that is meant by what is no address.
fn meant(written: &str) -> Option<String> {
    let is_address = |text: &str| !text.is_empty() && SiteAddress::parse(text).is_ok();
    if let Some(help) = traefik_rule::help(written) {
        return Some(help);
    }
    match written {
        "*" | "_" | "*:443" | "default" | "default_server" | "*:*" => {
            return Some("for any host, write `site \"https://:443\"` or `site \"http://:80\"`".into());
        }
        _ if written.starts_with("*:") && is_address(&written[1..]) => {
            return Some(format!("for any host, write `site \"{}\"`", &written[1..]));
        }
        _ if written.starts_with('.') && is_address(&format!("*{written}")) => {
            return Some(format!("write `site \"{}\" \"*{written}\"`", &written[1..]));
        }
        _ if written.starts_with(['~', '^']) || written.contains(".*") || written.contains('(') => {
            return Some("hosts have no regular expressions; `*.example.com` is any one label in front, `**.example.com` any number of them, and names can be listed: `site \"example.com\" \"www.example.com\"`".into());
        }
        _ => {}
    }
    if let Some((scheme @ ("tcp" | "udp" | "tls" | "stream"), rest)) = written.split_once("://") {
        return Some(match scheme {
            "udp" => "UDP is not handed on in this version".into(),
            _ => format!("connections are handed on as they are with `tcp \"{}\" {{ … }}`", rest.trim_start_matches('*')),
        });
    }
    if let Some(port) = written.split(' ').next().filter(|port| port.parse::<u16>().is_ok()) {
        return Some(format!("write `site \":{port}\"` for any host, which is TLS, or `site \"http://:{port}\"` without"));
    }
    let several: Vec<&str> = written.split([',', ' ']).filter(|part| !part.is_empty()).collect();
    if several.len() > 1 && several.iter().all(|part| is_address(part)) {
        let quoted: Vec<String> = several.iter().map(|part| format!("\"{part}\"")).collect();
        return Some(format!("each address has quotes of its own: `site {} {{ … }}`", quoted.join(" ")));
    }
    if several.len() > 1 && is_address(several[0]) {
        return Some(format!("write `site \"{}\" {{ … }}`; what else is meant for it stands in its block", several[0]));
    }
    let host_start = written.find("://").map_or(0, |position| position + 3);
    let (host, path) = written[host_start..].split_once('/')?;
    let host = format!("{}{host}", &written[..host_start]);
    if !is_address(&host) {
        return None;
    }
    Some(match path {
        "" | "*" => format!("write `site \"{host}\" {{ … }}`"),
        path if path.ends_with("/*") || path.ends_with('/') => {
            let path = path.trim_end_matches('*').trim_end_matches('/');
            format!("write `site \"{host}\" {{ route \"/{path}/*\" {{ … }} }}`")
        }
        path => format!("write `site \"{host}\" {{ route \"/{}/*\" {{ … }} }}`", path.trim_end_matches('*')),
    })
}
