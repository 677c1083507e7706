//! Settings of a route: what holds for its requests as a whole, wherever its line stands in the block. What acts on a
//! request or its answer, in the order written, is in `step`.

use crate::answer_rewrite::AnswerRewrite;
use crate::cache::Cache;
use crate::compress::{Compress, Decompress};
use crate::error_page::{ErrorBody, ErrorPage};
use crate::header_names::HeaderNames;
use crate::pass_on::PassOn;
use crate::path_policy::PathPolicy;
use crate::placeholder::Template;
use crate::pool::PoolName;
use crate::proxy_status::ProxyStatus;
use crate::request_ids::RequestIds;
use crate::request_log::RouteLog;
use crate::send_file::SendFiles;
use crate::traffic::{Mirror, RouteTimeouts};

/// What a site says of all its routes, or a route of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteOptions {
    /// `path-policy`: carried out before a route is looked for.
    pub path_policy: Option<PathPolicy>,
    /// `header-names`; those that collide are dropped where neither says it.
    pub header_names: Option<HeaderNames>,
    /// `pass-on`; nothing where neither says it.
    pub pass_on: Option<PassOn>,
    /// On where neither says it.
    pub request_ids: Switched<RequestIds>,
    /// `proxy-status`, of answers that are made here.
    pub proxy_status: Switched<ProxyStatus>,
    /// The first that fits counts, the route's before the site's.
    pub error_pages: Vec<ErrorPage>,
    pub compress: Switched<Compress>,
    pub decompress: Switched<Decompress>,
    pub cache: Switched<Cache>,
    pub timeouts: RouteTimeouts,
    pub mirrors: Mirrors,
    pub send_files: SendFiles,
    /// The first that fits counts, the route's before the site's.
    pub answer_rewrites: Vec<AnswerRewrite>,
    pub log: RouteLog,
}

/// What can be on with settings, or off in a route whose site has it on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Switched<T> {
    /// As the site says, and off where that says nothing.
    #[default]
    Inherited,
    Off,
    On(Box<T>),
}

impl<T: Clone> Switched<T> {
    fn and(&self, route: &Switched<T>) -> Switched<T> {
        match route {
            Switched::Inherited => self.clone(),
            Switched::Off | Switched::On(_) => route.clone(),
        }
    }

    /// The settings, where it is on.
    pub fn on(&self) -> Option<&T> {
        match self {
            Switched::Inherited | Switched::Off => None,
            Switched::On(settings) => Some(settings),
        }
    }
}

/// Who gets copies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mirrors {
    /// `mirror "off"`: none of those that the site names.
    pub are_off_before: bool,
    /// In the order written.
    pub named: Vec<Mirror>,
}

impl Mirrors {
    fn and(&self, route: &Mirrors) -> Mirrors {
        let kept = if route.are_off_before { &[][..] } else { &self.named };
        Mirrors { are_off_before: self.are_off_before || route.are_off_before, named: [kept, &route.named].concat() }
    }
}

impl RouteOptions {
    /// What holds in a route: these options of its site, and where the route says something, that.
    pub fn and(&self, route: &RouteOptions) -> RouteOptions {
        RouteOptions {
            path_policy: route.path_policy.or(self.path_policy),
            header_names: route.header_names.or(self.header_names),
            pass_on: route.pass_on.or(self.pass_on),
            request_ids: self.request_ids.and(&route.request_ids),
            proxy_status: self.proxy_status.and(&route.proxy_status),
            error_pages: [&route.error_pages[..], &self.error_pages].concat(),
            compress: self.compress.and(&route.compress),
            decompress: self.decompress.and(&route.decompress),
            cache: self.cache.and(&route.cache),
            timeouts: self.timeouts.and(route.timeouts),
            mirrors: self.mirrors.and(&route.mirrors),
            send_files: self.send_files.and(&route.send_files),
            answer_rewrites: [&route.answer_rewrites[..], &self.answer_rewrites].concat(),
            log: self.log.clone().and(&route.log),
        }
    }

    /// These options with the words that hold where neither site nor route says anything. Time-outs are a pool's there.
    pub fn with_defaults(&self) -> RouteOptions {
        RouteOptions {
            path_policy: Some(self.path_policy.unwrap_or(PathPolicy::DEFAULT)),
            header_names: Some(self.header_names.unwrap_or_default()),
            pass_on: Some(self.pass_on.unwrap_or_default()),
            request_ids: Switched::On(Box::new(RequestIds::default())).and(&self.request_ids),
            proxy_status: Switched::Off.and(&self.proxy_status),
            error_pages: self.error_pages.clone(),
            compress: Switched::Off.and(&self.compress),
            decompress: Switched::Off.and(&self.decompress),
            cache: Switched::Off.and(&self.cache),
            timeouts: self.timeouts,
            mirrors: self.mirrors.clone(),
            send_files: self.send_files.clone(),
            answer_rewrites: self.answer_rewrites.clone(),
            log: self.log.clone(),
        }
    }

    /// Pools beside those that answer: of copies, and of pages of errors.
    pub fn pools(&self) -> impl Iterator<Item = &PoolName> {
        self.mirrors.named.iter().map(|mirror| &mirror.pool).chain(self.error_pages.iter().filter_map(ErrorPage::pool))
    }

    /// All texts with placeholders, each option by its name so that a new one is thought of.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let RouteOptions {
            path_policy: _,
            header_names: _,
            pass_on: _,
            request_ids: _,
            proxy_status: _,
            error_pages,
            compress: _,
            decompress: _,
            cache: _,
            timeouts: _,
            mirrors: _,
            send_files: _,
            answer_rewrites,
            log,
        } = self;
        let of_pages = error_pages.iter().flat_map(|page| {
            let (text, asked) = match &page.body {
                ErrorBody::Template { text, .. } => (Some(text), None),
                ErrorBody::Asked(asked) => (None, Some(asked)),
                ErrorBody::File { .. } | ErrorBody::Made(_) => (None, None),
            };
            text.into_iter().chain(asked.into_iter().flat_map(|asked| asked.templates()))
        });
        let of_rewrites = answer_rewrites.iter().map(|rule| &rule.to);
        of_pages.chain(of_rewrites).chain(log.fields.iter().map(|field| &field.value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Mirrors, RouteOptions, Switched};
    use crate::compress::Decompress;
    use crate::error_page::{ErrorBody, ErrorFormat, ErrorPage, ErrorSource};
    use crate::path_policy::{PathCase, PathPolicy};
    use crate::pool::PoolName;
    use crate::traffic::{Mirror, Sample};

    #[test]
    fn a_route_takes_the_place_of_its_site_where_it_says_something() {
        let check = |site: &Switched<Decompress>, route: &Switched<Decompress>, expected: Option<u32>| {
            assert_eq!(site.and(route).on().map(|decompress| decompress.ratio_max), expected, "{site:?} {route:?}");
        };
        let on = |ratio_max| Switched::On(Box::new(Decompress { ratio_max }));
        check(&Switched::Inherited, &Switched::Inherited, None);
        check(&on(1), &Switched::Inherited, Some(1));
        check(&on(1), &Switched::Off, None);
        check(&on(1), &on(2), Some(2));
        check(&Switched::Off, &on(2), Some(2));
        let lower = PathPolicy { case: PathCase::Lower, ..PathPolicy::DEFAULT };
        let site = RouteOptions { path_policy: Some(lower), ..RouteOptions::default() };
        let route = RouteOptions { path_policy: Some(PathPolicy::DEFAULT), ..RouteOptions::default() };
        assert_eq!(site.and(&route).path_policy, route.path_policy);
        assert_eq!(site.and(&RouteOptions::default()), site);
        assert_eq!(RouteOptions::default().and(&site), site);
    }

    #[test]
    fn pages_of_a_route_come_first_and_mirrors_of_a_site_unless_they_are_off() {
        let page = |status| {
            let (statuses, body) = (Vec::new(), ErrorBody::Made(ErrorFormat::Auto));
            ErrorPage { statuses, body, from: ErrorSource::All, status: Some(status) }
        };
        let mirrors = |are_off_before, name: &str| {
            let (pool, sample, methods) = (PoolName(name.into()), Sample::ALL, Vec::new());
            let mirror = Mirror { pool, sample, methods, body_bytes_max: 1, copies_max: 1, total: Mirror::TOTAL };
            Mirrors { are_off_before, named: vec![mirror] }
        };
        let options = |status, mirrors| RouteOptions { error_pages: vec![page(status)], mirrors, ..RouteOptions::default() };
        let check = |off: bool, expected: &[&str]| {
            let both = options(500, mirrors(false, "site")).and(&options(404, mirrors(off, "route")));
            assert_eq!(both.error_pages, [page(404), page(500)]);
            let names: Vec<&str> = both.mirrors.named.iter().map(|mirror| &*mirror.pool.0).collect();
            assert_eq!(names, expected);
        };
        check(false, &["site", "route"]);
        check(true, &["route"]);
    }
}
