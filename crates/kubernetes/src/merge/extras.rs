//! Pools beside the one that answers: of pages in the place of errors, and of copies.

use super::variants::with_conditions;
use super::{Member, Merging, Owned};
use crate::finding::{FindingCode, Severity};
use crate::manner::{Manner, MannerErrors, MannerMirror};
use crate::reference::ServiceAtPort;
use tidegate_cluster::PortReference;
use tidegate_model::{
    AskedPage, Condition, ConditionKind, ErrorBody, ErrorPage, ErrorSource, Field, HostPattern, LogField, Mirror, Origin,
    Placeholder, PoolName, Route, RouteOptions, RouteRetry, Sample, StatusRange, Template, TemplatePart, Terminal, TextPattern,
};

/// What a Service without endpoints answers.
const NO_SERVER: u16 = 503;
const NO_PATH: u16 = 404;

impl<'m> Merging<'m> {
    /// Errors that are to be answered, by nobody.
    pub(super) fn note_no_pages(&mut self, members: &[Member<'m>]) {
        if self.around.settings.default_backend.is_some() {
            return;
        }
        for Member { age, fragment } in members.iter().copied() {
            let errors = fragment.manner.errors.as_ref();
            if errors.is_some_and(|errors| errors.service.is_none()) {
                let message = "nobody is there to answer errors, so they go on as they are: name a Service by `default-backend`, or give `--default-backend`";
                let field = "metadata.annotations[nginx.ingress.kubernetes.io/custom-http-errors]";
                self.find(&age.key, FindingCode::AnnotationNotTaken, Severity::Warning, field, message.to_owned());
            }
        }
    }
}

/// Has every request go to the host, which it is for under another name. Whoever is trusted says by what the client has
/// come.
pub fn to_host(host: &HostPattern, trusts_scheme: bool) -> Vec<Route> {
    let leading = |scheme: Option<Placeholder>, origin: String| {
        let scheme = scheme.map(TemplatePart::Placeholder);
        let rest = [TemplatePart::Literal(origin), TemplatePart::Placeholder(Placeholder::Uri)];
        let to = Template { parts: scheme.into_iter().chain(rest).collect() };
        Route::of_all(Terminal::Redirect { to, status: 308, prefix: None })
    };
    let field = Field { name: "x-forwarded-proto".to_owned(), value: TextPattern::Exact("https".to_owned()) };
    let condition = Condition { negated: false, kind: ConditionKind::Header(field) };
    let https = leading(None, format!("https://{host}"));
    let of_trusted = trusts_scheme.then(|| with_conditions(https, &[condition]));
    of_trusted.into_iter().chain([leading(Some(Placeholder::Scheme), format!("://{host}"))]).collect()
}

/// The options of a route with these.
pub fn with_extras(
    owned: Owned<'_>,
    last: Option<&ServiceAtPort>,
    mut name: impl FnMut(&ServiceAtPort) -> PoolName,
) -> RouteOptions {
    let manner = &*owned.fragment.manner;
    let mut options = manner.options.clone();
    if let Some(MannerMirror { to, has_bodies }) = &manner.mirror {
        options.mirrors.named.push(Mirror {
            pool: name(to),
            sample: Sample::ALL,
            methods: Vec::new(),
            body_bytes_max: if *has_bodies { Mirror::BODY_BYTES_MAX } else { 0 },
            copies_max: Mirror::COPIES_MAX,
            total: Mirror::TOTAL,
        });
    }
    if let Some(errors) = &manner.errors {
        let headers = headers(&owned.route.origin, owned.route.target.service());
        options.error_pages = asked_pages(errors, &headers, last, name);
    }
    options
}

/// Pages of what no path takes, which an Ingress says that keeps nobody out: none is shown past what it protects.
pub fn pages_of_nobody(
    manner: &Manner,
    origin: &Origin,
    last: Option<&ServiceAtPort>,
    name: impl FnMut(&ServiceAtPort) -> PoolName,
) -> Vec<ErrorPage> {
    let errors = manner.errors.as_ref().filter(|errors| errors.statuses.contains(&NO_PATH) && !manner.protects());
    errors.map(|errors| asked_pages(errors, &headers(origin, None), last, name)).unwrap_or_default()
}

fn asked_pages(
    errors: &MannerErrors,
    headers: &[(String, Template)],
    last: Option<&ServiceAtPort>,
    mut name: impl FnMut(&ServiceAtPort) -> PoolName,
) -> Vec<ErrorPage> {
    let service = errors.service.as_ref().or(last);
    service.map(|service| pages(errors, &name(service), headers)).unwrap_or_default()
}

fn pages(errors: &MannerErrors, pool: &PoolName, headers: &[(String, Template)]) -> Vec<ErrorPage> {
    let page = |statuses: &[u16], from: ErrorSource| {
        let asked = AskedPage {
            pool: pool.clone(),
            retry: RouteRetry::OfPool,
            // As nginx, which leaves the query in place.
            path: Template {
                parts: vec![
                    TemplatePart::Literal(AskedPage::PATH.to_owned()),
                    TemplatePart::Placeholder(Placeholder::QuerySuffix),
                ],
            },
            headers: headers.to_vec(),
            keeps_status: false,
            answer_bytes_max: AskedPage::ANSWER_BYTES_MAX,
            total: AskedPage::TOTAL,
        };
        let statuses: Vec<StatusRange> = statuses.iter().map(|status| StatusRange { first: *status, last: *status }).collect();
        let body = ErrorBody::Asked(Box::new(asked));
        (!statuses.is_empty()).then_some(ErrorPage { statuses, body, from, status: None })
    };
    let from = if errors.of_servers { ErrorSource::All } else { ErrorSource::Proxy };
    let of_no_server = errors.service.is_some() && !errors.statuses.contains(&NO_SERVER);
    let of_no_server = if of_no_server { &[NO_SERVER][..] } else { &[] };
    page(&errors.statuses, from).into_iter().chain(page(of_no_server, ErrorSource::Proxy)).collect()
}

/// What ingress-nginx tells whoever answers in the place of an error.
fn headers(origin: &Origin, service: Option<&ServiceAtPort>) -> Vec<(String, Template)> {
    let of = |placeholder: Placeholder| Template { parts: vec![TemplatePart::Placeholder(placeholder)] };
    let mut headers = vec![
        ("X-Code", of(Placeholder::Log(LogField::Status))),
        ("X-Format", of(Placeholder::RequestHeader("accept".to_owned()))),
        ("X-Original-URI", of(Placeholder::AskedUri)),
        ("X-Namespace", Template::literal(&*origin.namespace)),
        ("X-Ingress-Name", Template::literal(&*origin.name)),
    ];
    if let Some(ServiceAtPort { service, port, manner: _ }) = service {
        headers.push(("X-Service-Name", Template::literal(&*service.name)));
        headers.push(("X-Service-Port", Template::literal(port_text(port))));
    }
    headers.push(("X-Request-ID", of(Placeholder::RequestId)));
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn port_text(port: &PortReference) -> String {
    match port {
        PortReference::Number(number) => number.to_string(),
        PortReference::Name(name) => name.to_string(),
    }
}
