//! An explanation as text for a terminal of 100 columns: a label at the left edge, what it is behind it.

use crate::titles::shown_address;
use tidegate_api::{
    ExplainedCertificate, ExplainedListener, ExplainedPool, ExplainedServer, Explanation, FailedLine, Outcome, OutcomeKind,
    Setting, WhyNotRoute, WhyNotSite,
};
use tidegate_model::Server;

const COLUMNS: usize = 100;
const LABEL_COLUMNS: usize = 13;

/// Several lines, each with its line end. A word that is longer than a line stays in one piece, to be copied.
pub fn text(explained: &Explanation) -> String {
    let mut page = Page::default();
    let request = &explained.request;
    page.row("request", &format!("{} {} from {}", request.method, request.url, request.client));
    page.row("outcome", &outcome(&explained.outcome));
    render_way(explained, &mut page);
    if let Some(pool) = &explained.pool {
        render_pool(&mut page, pool);
    }
    page.row("limits", &settings(&explained.limits));
    for note in &explained.notes {
        page.row("note", note);
    }
    render_other_routes(explained, &mut page);
    render_other_sites(explained, &mut page);
    page.text
}

fn render_way(explained: &Explanation, page: &mut Page) {
    if let Some(listener) = &explained.listener {
        page.row("listener", &listener_text(listener));
    }
    if let Some(certificate) = &explained.certificate {
        page.row("certificate", &certificate_text(certificate));
    }
    if !explained.request.path.is_empty() {
        let query = explained.request.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        page.row("host", &explained.request.host);
        page.row("path", &format!("{}{query}", explained.request.path));
    }
    if let Some(site) = &explained.site {
        page.row("site", site);
    }
    if let Some(route) = &explained.route {
        page.row("route", &format!("{}: {}", route.rank, route.title));
        let mut label = "steps";
        for step in &route.steps {
            page.row(label, &format!("{}{}", step.text, if step.of_site { "   (of the site)" } else { "" }));
            label = "";
        }
        page.row("answer", &route.terminal);
    }
    if let Some(origin) = &explained.origin {
        page.row("origin", origin);
    }
}

fn render_other_routes(explained: &Explanation, page: &mut Page) {
    if explained.other_routes.is_empty() {
        return;
    }
    page.heading("Other routes of the site:");
    for route in &explained.other_routes {
        page.below(2, &format!("{}: {}{}", route.rank, route.title, from(route.origin.as_deref())));
        match route.why {
            WhyNotRoute::Path => page.below(5, "the path does not fit"),
            WhyNotRoute::Shadowed => {
                let by = route.shadowed_by.unwrap_or_default();
                page.below(5, &format!("it fits, but route {by} is before it"));
            }
            WhyNotRoute::Conditions => {
                for FailedLine { line, condition } in &route.failed {
                    page.below(5, &format!("{line} fails at {condition}"));
                }
            }
        }
    }
    page.left_out(explained.other_routes_left_out, "route");
}

fn render_other_sites(explained: &Explanation, page: &mut Page) {
    if explained.other_sites.is_empty() {
        return;
    }
    let place = explained.listener.as_ref().map(|listener| shown_address(&listener.address)).unwrap_or_default();
    let is_known = explained.site.is_some();
    page.heading(&if is_known { format!("Other sites on {place}:") } else { format!("Hosts that are known on {place}:") });
    for site in &explained.other_sites {
        let hosts = site.hosts.join(", ");
        let from = from(site.origin.as_deref());
        let why = match site.why {
            WhyNotSite::LessSpecific => "its host fits, but a more specific one goes first",
            WhyNotSite::Host => "it has another host",
        };
        let text = if is_known {
            format!("{} ({hosts}){from}: {why}", site.site)
        } else {
            format!("{hosts} (site {}){from}", site.site)
        };
        page.below(2, &text);
    }
    page.left_out(explained.other_sites_left_out, "site");
}

/// Where something comes from, behind it.
fn from(origin: Option<&str>) -> String {
    origin.map(|origin| format!(", from {origin}")).unwrap_or_default()
}

fn outcome(outcome: &Outcome) -> String {
    let Outcome { kind, status, reason, sentence, to, pool, folder, by, shares } = outcome;
    let status = status.unwrap_or_default();
    let [reason, sentence, to, pool, folder, shares] =
        [reason, sentence, to, pool, folder, shares].map(|text| text.as_deref().unwrap_or_default());
    let by = by.as_deref();
    match kind {
        OutcomeKind::Responds => format!("answered here with {status}"),
        OutcomeKind::Redirects => format!("redirected with {status} to {to}"),
        OutcomeKind::Proxied => format!("handed to the pool {pool}"),
        OutcomeKind::Passthrough if !shares.is_empty() => {
            format!("the connection is passed on as it is, by {}: {shares}", by.unwrap_or_default())
        }
        OutcomeKind::Passthrough => {
            format!("the connection is passed on as it is to the pool {pool}, by {}", by.unwrap_or_default())
        }
        OutcomeKind::Split => format!("split by {}: {shares}", by.unwrap_or("chance")),
        OutcomeKind::Serves => format!("a file of {folder}, or 404"),
        OutcomeKind::RunsScript => format!("a script of {folder}, by the pool {pool}, or 404"),
        OutcomeKind::Refused => format!("refused with {status} {reason}: {sentence}"),
        OutcomeKind::NothingListens => "the connection is refused: nothing listens there".to_owned(),
        OutcomeKind::HandshakeRefused => match by {
            Some(by) => format!("the TLS handshake is refused by {by}"),
            None => "the TLS handshake is refused: no site with TLS has this host name".to_owned(),
        },
    }
}

fn listener_text(listener: &ExplainedListener) -> String {
    let ExplainedListener { address, scheme, implied, trusted_proxies, proxy_protocol_from } = listener;
    let implied = if *implied { ", there for redirects to HTTPS" } else { "" };
    let trusted =
        if trusted_proxies.is_empty() { String::new() } else { format!(", trusted-proxies {}", trusted_proxies.join(" ")) };
    let introduced = if proxy_protocol_from.is_empty() {
        String::new()
    } else {
        format!(", accept-proxy-protocol {}", proxy_protocol_from.join(" "))
    };
    format!("{}, {scheme}{implied}{trusted}{introduced}", shown_address(address))
}

fn certificate_text(certificate: &ExplainedCertificate) -> String {
    let ExplainedCertificate { site, internal_ca, acme, files, min_version, alpn } = certificate;
    let source = if *acme {
        "obtained by ACME".to_owned()
    } else if *internal_ca {
        "by the internal CA".to_owned()
    } else {
        format!("from {}", files.join(", "))
    };
    format!("{source}, of the site {site}; TLS {min_version} and newer, alpn {alpn}")
}

fn settings(settings: &[Setting]) -> String {
    settings.iter().map(|setting| format!("{} {}", setting.name, setting.value)).collect::<Vec<_>>().join(", ")
}

fn render_pool(page: &mut Page, pool: &ExplainedPool) {
    page.row("pool", &format!("{}, balance {}", pool.name, pool.balance));
    let mut label = "servers";
    for server in &pool.servers {
        let priority = match server.priority {
            0 => String::new(),
            priority if priority == u32::from(Server::BACKUP) => ", backup".to_owned(),
            priority => format!(", priority {priority}"),
        };
        let zone = server.zone.as_ref().map(|zone| format!(", zone {zone}")).unwrap_or_default();
        let bound = |name: &str, count: Option<u32>| count.map(|count| format!(", {name} {count}")).unwrap_or_default();
        let connections = bound("max-connections", server.max_connections);
        let requests = bound("max-requests", server.max_requests);
        let live = live_text(server).unwrap_or_default();
        page.row(label, &format!("{}, weight {}{priority}{zone}{connections}{requests}{live}", server.address, server.weight));
        label = "";
    }
    page.row("", &settings(&pool.settings));
}

/// What a running process knows of it.
fn live_text(server: &ExplainedServer) -> Option<String> {
    let (state, in_flight, idle) = (server.state?.as_str(), server.requests_in_flight?, server.idle_connections?);
    let why = server.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    Some(format!("; {state}{why}, {in_flight} in flight, {idle} idle connections"))
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn row(&mut self, label: &str, text: &str) {
        self.wrapped(&format!("{label:LABEL_COLUMNS$}"), LABEL_COLUMNS, text);
    }

    fn heading(&mut self, text: &str) {
        self.text.push('\n');
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn below(&mut self, indent: usize, text: &str) {
        self.wrapped(&" ".repeat(indent), indent + 2, text);
    }

    fn left_out(&mut self, count: usize, what: &str) {
        if count > 0 {
            self.below(2, &format!("and {count} more {what}{}", if count == 1 { "" } else { "s" }));
        }
    }

    /// Broken between words; the lines behind the first begin at `indent`.
    fn wrapped(&mut self, start: &str, indent: usize, text: &str) {
        let mut line = start.to_owned();
        let mut columns = start.chars().count();
        let mut is_start = true;
        // Runs of spaces stay: they stand in patterns and values.
        for word in text.split(' ') {
            let width = word.chars().count();
            if !is_start && columns + 1 + width > COLUMNS {
                self.text.push_str(line.trim_end());
                self.text.push('\n');
                line = " ".repeat(indent);
                columns = indent;
                is_start = true;
            }
            if !is_start {
                line.push(' ');
                columns += 1;
            }
            line.push_str(word);
            columns += width;
            is_start = false;
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}
