//! An explanation as text for a terminal of 100 columns: a label at the left edge, what it is behind it.

use super::{
    CertificateSeen, CertificateSource, Explanation, FailedLine, ListenerSeen, Outcome, PoolSeen, ServerLive, Setting,
    WhyNotRoute, WhyNotSite,
};
use crate::wording;
use tidegate_model::Server;
use tidegate_model::listening::shown_address;

const COLUMNS: usize = 100;
const LABEL_COLUMNS: usize = 13;

impl Explanation {
    /// Several lines, each with its line end. A word that is longer than a line stays in one piece, to be copied.
    pub fn render(&self) -> String {
        let mut page = Page::default();
        let request = &self.request;
        page.row("request", &format!("{} {} from {}", request.method, request.url, request.client_ip));
        page.row("outcome", &outcome(&self.outcome));
        self.render_way(&mut page);
        if let Some(pool) = &self.pool {
            render_pool(&mut page, pool);
        }
        page.row("limits", &settings(&self.limits));
        for note in &self.notes {
            page.row("note", note);
        }
        self.render_other_routes(&mut page);
        self.render_other_sites(&mut page);
        page.text
    }

    fn render_way(&self, page: &mut Page) {
        if let Some(listener) = &self.listener {
            page.row("listener", &listener_text(listener));
        }
        if let Some(certificate) = &self.certificate {
            page.row("certificate", &certificate_text(certificate));
        }
        if !self.request.path.is_empty() {
            let query = self.request.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
            page.row("host", &self.request.host);
            page.row("path", &format!("{}{query}", self.request.path));
        }
        if let Some(site) = &self.site {
            page.row("site", site);
        }
        if let Some(route) = &self.route {
            page.row("route", &format!("{}: {}", route.rank, route.title));
            let mut label = "steps";
            for step in &route.steps {
                page.row(label, &format!("{}{}", step.text, if step.of_site { "   (of the site)" } else { "" }));
                label = "";
            }
            page.row("answer", &route.terminal);
        }
    }

    fn render_other_routes(&self, page: &mut Page) {
        if self.other_routes.is_empty() {
            return;
        }
        page.heading("Other routes of the site:");
        for route in &self.other_routes {
            page.below(2, &format!("{}: {}", route.rank, route.title));
            match &route.why {
                WhyNotRoute::Path => page.below(5, "the path does not fit"),
                WhyNotRoute::Shadowed { by } => page.below(5, &format!("it fits, but route {by} is before it")),
                WhyNotRoute::Conditions(lines) => {
                    for FailedLine { line, condition } in lines {
                        page.below(5, &format!("{line} fails at {condition}"));
                    }
                }
            }
        }
        page.left_out(self.other_routes_left_out, "route");
    }

    fn render_other_sites(&self, page: &mut Page) {
        if self.other_sites.is_empty() {
            return;
        }
        let place = self.listener.as_ref().map(|listener| shown_address(listener.address)).unwrap_or_default();
        let is_known = self.site.is_some();
        page.heading(&if is_known { format!("Other sites on {place}:") } else { format!("Hosts that are known on {place}:") });
        for site in &self.other_sites {
            let hosts = site.hosts.join(", ");
            let why = match site.why {
                WhyNotSite::LessSpecific => "its host fits, but a more specific one goes first",
                WhyNotSite::Host => "it has another host",
            };
            let text = if is_known { format!("{} ({hosts}): {why}", site.site) } else { format!("{hosts} (site {})", site.site) };
            page.below(2, &text);
        }
        page.left_out(self.other_sites_left_out, "site");
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Responds { status } => format!("answered here with {status}"),
        Outcome::Redirects { status, to } => format!("redirected with {status} to {to}"),
        Outcome::Proxied { pool } => format!("handed to the pool {pool}"),
        Outcome::PassedOn { by, pool } => format!("the connection is passed on as it is to the pool {pool}, by {by}"),
        Outcome::Split { by: Some(by), shares } => format!("split by {by}: {shares}"),
        Outcome::Split { by: None, shares } => format!("split by chance: {shares}"),
        Outcome::Serves { folder } => format!("a file of {folder}, or 404"),
        Outcome::RunsScript { server, folder } => format!("a script of {folder}, by the FastCGI server {server}, or 404"),
        Outcome::Refused { status, reason, sentence } => format!("refused with {status} {reason}: {sentence}"),
        Outcome::NothingListens => "the connection is refused: nothing listens there".to_owned(),
        Outcome::HandshakeRefused => "the TLS handshake is refused: no site with TLS has this host name".to_owned(),
    }
}

fn listener_text(listener: &ListenerSeen) -> String {
    let ListenerSeen { address, protocol, implied, trusted_proxies, proxy_protocol_from } = listener;
    let implied = if *implied { ", there for redirects to HTTPS" } else { "" };
    let trusted =
        if trusted_proxies.is_empty() { String::new() } else { format!(", trusted-proxies {}", trusted_proxies.join(" ")) };
    let introduced = if proxy_protocol_from.is_empty() {
        String::new()
    } else {
        format!(", accept-proxy-protocol {}", proxy_protocol_from.join(" "))
    };
    format!("{}, {}{implied}{trusted}{introduced}", shown_address(*address), protocol.as_str())
}

fn certificate_text(certificate: &CertificateSeen) -> String {
    let CertificateSeen { site, source, min_version, alpn } = certificate;
    let source = match source {
        CertificateSource::InternalCa => "by the internal CA".to_owned(),
        CertificateSource::Files(files) => format!("from {}", files.join(", ")),
    };
    format!("{source}, of the site {site}; TLS {} and newer, alpn {alpn}", wording::tls_version(*min_version))
}

fn settings(settings: &[Setting]) -> String {
    settings.iter().map(|setting| format!("{} {}", setting.name, setting.value)).collect::<Vec<_>>().join(", ")
}

fn render_pool(page: &mut Page, pool: &PoolSeen) {
    page.row("pool", &format!("{}, balance {}", pool.name, pool.balance));
    let mut label = "servers";
    for server in &pool.servers {
        let priority = match server.priority {
            0 => String::new(),
            Server::BACKUP => ", backup".to_owned(),
            priority => format!(", priority {priority}"),
        };
        let zone = server.zone.as_ref().map(|zone| format!(", zone {zone}")).unwrap_or_default();
        let live = server.live.as_ref().map(live_text).unwrap_or_default();
        page.row(label, &format!("{}, weight {}{priority}{zone}{live}", server.address, server.weight));
        label = "";
    }
    page.row("", &settings(&pool.settings));
}

fn live_text(live: &ServerLive) -> String {
    let why = live.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let state = live.state.as_str();
    format!("; {state}{why}, {} in flight, {} idle connections", live.requests_in_flight, live.idle_connections)
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
