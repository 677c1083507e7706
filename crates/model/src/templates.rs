//! All texts with placeholders that a configuration has, for what is prepared only where somebody asks for it.
//! What the placeholders mean is in `placeholder`.

use crate::balance::Balance;
use crate::error_page::ErrorBody;
use crate::limiting::CountBy;
use crate::placeholder::{Placeholder, Template, TemplatePart};
use crate::pool::Pool;
use crate::process::AccessLogFormat;
use crate::route_options::RouteOptions;
use crate::site::Site;
use crate::step::{Step, Terminal};

impl Site {
    /// Whether a template of the site or of its routes has that placeholder.
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        let of_routes = self.routes.iter().flat_map(|route| of_terminal(&route.terminal));
        let mut all = of_routes.chain(self.all_steps().flat_map(of_step)).chain(self.all_options().flat_map(of_options));
        all.any(|template| template.has(wanted))
    }
}

impl Pool {
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        match &self.balance {
            Balance::Hash { key, .. } => key.has(wanted),
            Balance::P2c | Balance::RoundRobin | Balance::LeastConn | Balance::Ewma | Balance::Random => false,
        }
    }
}

impl AccessLogFormat {
    pub fn has_placeholder(&self, wanted: &Placeholder) -> bool {
        match self {
            AccessLogFormat::Template(template) => template.has(wanted),
            AccessLogFormat::Json | AccessLogFormat::Common => false,
        }
    }
}

impl Template {
    pub fn has(&self, wanted: &Placeholder) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Placeholder(placeholder) if placeholder == wanted))
    }
}

/// Each step by its name, so that a new one is thought of.
fn of_step(step: &Step) -> Vec<&Template> {
    match step {
        Step::RequestHeader(header) | Step::ResponseHeader(header) => header.changes.iter().map(|change| &change.value).collect(),
        Step::Rewrite { to, .. } => vec![to],
        Step::RateLimit(limit) => of_count(&limit.by),
        Step::ConcurrencyLimit(limit) => of_count(&limit.by),
        Step::StripPrefix(_)
        | Step::AddPrefix(_)
        | Step::BodyLimit { .. }
        | Step::Allow(_)
        | Step::Deny(_)
        | Step::Cors(_)
        | Step::BasicAuth(_)
        | Step::ClientAuth(_) => Vec::new(),
    }
}

/// Each option by its name, for the same reason.
fn of_options(options: &RouteOptions) -> impl Iterator<Item = &Template> {
    let RouteOptions { path_policy: _, error_pages, compress: _, decompress: _, cache: _, timeouts: _, mirrors: _, log } =
        options;
    let of_pages = error_pages.iter().filter_map(|page| match &page.body {
        ErrorBody::Template { text, .. } => Some(text),
        ErrorBody::File { .. } | ErrorBody::Made(_) => None,
    });
    of_pages.chain(log.fields.iter().map(|field| &field.value))
}

fn of_count(by: &CountBy) -> Vec<&Template> {
    match by {
        CountBy::Text(template) => vec![template],
        CountBy::Client | CountBy::All => Vec::new(),
    }
}

fn of_terminal(terminal: &Terminal) -> Vec<&Template> {
    match terminal {
        Terminal::Respond { body, .. } => vec![body],
        Terminal::Redirect { to, .. } => vec![to],
        Terminal::FastCgi(fastcgi) => fastcgi.env.iter().map(|(_, value)| value).collect(),
        Terminal::Split(split) => split.by.iter().collect(),
        Terminal::Proxy { .. } | Terminal::Files(_) => Vec::new(),
    }
}
