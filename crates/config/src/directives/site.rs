//! `site "example.com" { … }`: the addresses it answers on, its certificates, its steps and its routes.
//! What concerns several sites at once (equal addresses, ports shared by TLS and plain HTTP) is in `checks`.

use crate::diagnostics::{Diagnostic, Location};
use crate::directives::count_by::{WrittenLimit, check_limits};
use crate::directives::route::{self, RouteDraft};
use crate::directives::tls::{self, TlsDraft};
use crate::lowering::{self, Line, Lowering};
use crate::reachability;
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Repeat};
use std::net::IpAddr;
use std::sync::Arc;
use tidegate_model::{HostPattern, Route, Scheme, Site, SiteAddress, Step, TlsSource};

pub static SITE: Directive = Directive {
    name: "site",
    places: &[Place::Top],
    repeat: Repeat::Many,
    arguments: &[Argument {
        name: "addresses",
        kind: Kind::Text("an address, as in `\"example.com\"`"),
        count: Count::OneOrMore,
        summary: "`[scheme://]host[:port]`. The host may be `*.example.com` or an IP address; `:8080` alone is any host.",
    }],
    properties: &[],
    block: Block::Required(Place::Site),
    summary: "What is served on one or more addresses.",
    details: "Without scheme and port a site is HTTPS on port 443, and port 80 redirects to it. A scheme or a port in the address says \
              otherwise; port 80 is plain HTTP. An IP address as host listens on that address only.\n\n\
              Steps written directly in a site run before those of the route that is taken, wherever they stand. A terminal step \
              (`proxy`, `respond`, `redirect`) directly in a site is a route of its own that matches everything; routes behind it are \
              never reached.\n\n\
              A request whose host belongs to no site is answered with 421, and a TLS handshake for such a name is refused, unless \
              there is a site for any host.",
    default: "",
    example: "site \"example.com\" \"www.example.com\" {\n    tls \"internal\"\n    proxy \"10.0.0.4:8080\"\n}",
    lower: Lower::Top(lower),
};

/// A site while its lines are read.
#[derive(Debug, Default)]
pub struct SiteDraft {
    pub tls: TlsDraft,
    steps: Vec<Step>,
    limits: Vec<WrittenLimit>,
    routes: Vec<RouteDraft>,
    /// Where a terminal step stands directly in the site.
    terminal_at: Option<Location>,
}

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    let mut addresses = read_addresses(lowering, line);
    let mut draft = SiteDraft::default();
    let first_file = lowering.spans.files.len();
    let lines = lowering::lines(lowering, line.children(), Place::Site);
    let all_understood = lines.len() == line.children().len();
    for child in lines {
        lower_child(lowering, &mut draft, &child);
    }
    let tls = tls::finish(lowering, draft.tls, &mut addresses);
    if draft.routes.is_empty() && line.node.children.is_some() && all_understood {
        let diagnostic = Diagnostic::error("nothing-answers", line.location(), "nothing answers in this site")
            .help("add `proxy`, `respond`, `redirect` or a `route`");
        lowering.report(diagnostic);
    }
    if tls.source == TlsSource::Automatic {
        for written in &addresses {
            warn_of_internal_certificate(lowering, &written.address, &written.at);
        }
    }
    reachability::check(lowering, &draft.routes);
    let of_routes = draft.routes.iter().map(|route| &*route.limits);
    check_limits(lowering, std::iter::once(&*draft.limits).chain(of_routes));
    let routes: Option<Vec<Route>> = draft.routes.into_iter().map(RouteDraft::finish).collect();
    lowering.spans.addresses.extend(addresses.iter().map(|written| (written.address.clone(), written.at.clone())));
    let addresses: Vec<SiteAddress> = addresses.into_iter().map(|written| written.address).collect();
    let files = first_file..lowering.spans.files.len();
    if !files.is_empty() {
        lowering.spans.files_of_sites.push((addresses.clone(), files));
    }
    if let Some(routes) = routes
        && !routes.is_empty()
        && !addresses.is_empty()
    {
        lowering.configuration.sites.push(Arc::new(Site { addresses, tls, steps: draft.steps, routes }));
    }
}

fn lower_child(lowering: &mut Lowering<'_>, draft: &mut SiteDraft, line: &Line<'_>) {
    match line.directive.lower {
        Lower::Site(lower) => lower(lowering, draft, line),
        Lower::Step(lower) => {
            let step = lower(lowering, line);
            draft.limits.extend(step.as_ref().and_then(|step| WrittenLimit::of(step, line.location())));
            draft.steps.extend(step);
        }
        Lower::Terminal(lower) => {
            let terminal = lower(lowering, line);
            if let Some(first) = &draft.terminal_at {
                lowering.report(route::second_terminal(line, first.clone()));
                return;
            }
            draft.terminal_at = Some(line.location());
            draft.routes.push(RouteDraft::of_site(terminal, line.location()));
        }
        Lower::Reading => {}
        Lower::Top(_)
        | Lower::Route(_)
        | Lower::Pool(_)
        | Lower::FastCgi(_)
        | Lower::Tls(_)
        | Lower::Listener(_)
        | Lower::Limits(_)
        | Lower::User(_)
        | Lower::Inside => {
            unreachable!("the table has no such directive in a site")
        }
    }
}

/// `route` inside a site.
pub fn add_route(draft: &mut SiteDraft, route: RouteDraft) {
    draft.routes.push(route);
}

/// An address as it was written.
#[derive(Debug)]
pub struct WrittenAddress {
    pub address: SiteAddress,
    pub at: Location,
    /// `https://` was written, rather than meant by leaving the scheme out.
    pub says_https: bool,
}

fn read_addresses(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<WrittenAddress> {
    let mut addresses = Vec::new();
    for text in line.read_arguments(lowering) {
        let text = text.text();
        match SiteAddress::parse(&text.value) {
            Ok(address) if address.port == 0 => {
                lowering.report(text.error("bad-address", "port 0 cannot be listened on"));
            }
            Ok(address) => {
                let says_https = text.value.starts_with("https://");
                addresses.push(WrittenAddress { address, at: text.location, says_https });
            }
            Err(reason) => lowering.report(text.error("bad-address", reason)),
        }
    }
    addresses
}

fn warn_of_internal_certificate(lowering: &mut Lowering<'_>, address: &SiteAddress, at: &Location) {
    if address.scheme != Scheme::Https || !is_public(&address.host) {
        return;
    }
    let host = lowering.shown(&address.host.to_string(), at);
    let message = format!("automatic certificates are not available in this version; the internal CA will sign for `{host}`");
    let diagnostic = Diagnostic::warning("internal-certificate", at.clone(), message)
        .help("give the certificate with `tls cert=\"…\" key=\"…\"`, or say `tls \"internal\"`");
    lowering.report(diagnostic);
}

/// Whether a public certificate authority could sign for the host.
fn is_public(host: &HostPattern) -> bool {
    // RFC 2606 and RFC 6761 reserve the first four, RFC 6762 `.local`, ICANN `.internal`.
    const NOT_PUBLIC: [&str; 8] = ["localhost", "test", "example", "invalid", "local", "internal", "lan", "home.arpa"];
    match host {
        HostPattern::Any => false,
        HostPattern::Ip(ip) => !is_private_ip(*ip),
        HostPattern::Wildcard(name) => is_public_name(name, &NOT_PUBLIC),
        HostPattern::Exact(name) => name.contains('.') && is_public_name(name, &NOT_PUBLIC),
    }
}

fn is_public_name(name: &str, not_public: &[&str]) -> bool {
    !not_public.iter().any(|suffix| name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn is_private_ip(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local() || ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_public;
    use tidegate_model::address::parse_host_pattern;

    #[test]
    fn which_names_a_public_authority_could_sign_for() {
        let check = |host: &str, expected: bool| {
            assert_eq!(is_public(&parse_host_pattern(host).expect("a host")), expected, "for {host}");
        };
        check("example.com", true);
        check("*.example.com", true);
        check("8.8.8.8", true);
        check("localhost", false);
        check("app.localhost", false);
        check("intranet", false);
        check("db.internal", false);
        check("printer.local", false);
        check("notlocal.net", true);
        check("mylocal", false);
        check("10.1.2.3", false);
        check("127.0.0.1", false);
        check("[::1]", false);
        check("[fd00::1]", false);
        check("[2001:db8::1]", true);
        check("", false);
    }
}
