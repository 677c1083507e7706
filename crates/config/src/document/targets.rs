//! Which node a target is, by its name or its address: as it is written, or as it was understood when it was loaded.
//! What is not there is reported with what comes nearest.

use crate::diagnostics::{Location, Sources, nearest, shortened};
use crate::directives::LANGUAGE;
use crate::directives::access_log::ACCESS_LOG;
use crate::directives::admin::ADMIN;
use crate::directives::listener::LISTENER;
use crate::directives::map::MAP;
use crate::directives::pool::POOL;
use crate::directives::site::SITE;
use crate::directives::tcp::TCP;
use crate::document::{EditError, EditFault, Target, json};
use crate::language::Directive;
use crate::load::Loaded;
use crate::pieces::TopNode;
use crate::syntax::{Literal, Node};
use crate::table::{Place, Repeat};
use serde_json::Value;
use tidegate_model::{SiteAddress, UpstreamAddress};

/// Where in the configuration's JSON a target is.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    pub directive: &'static Directive,
    /// Of all nodes at the top level; `None` when there is no such node.
    pub top: Option<usize>,
    pub inner: Inner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// The node itself.
    Whole,
    /// An element of `steps`; `None` for one behind the last route.
    Step(Option<usize>),
    /// An element of `server`; `None` for one that is not there.
    Server(Option<usize>),
}

/// How addresses were written that were understood as something else, such as `{env.SITE}`.
#[derive(Debug, Clone, Copy)]
pub struct Spellings<'l> {
    loaded: &'l Loaded,
}

impl<'l> Spellings<'l> {
    pub fn of(loaded: &'l Loaded) -> Spellings<'l> {
        Spellings { loaded }
    }

    fn of_site(self, wanted: &SiteAddress) -> impl Iterator<Item = &'l str> {
        // A bare host and one with `https://` are the same place.
        let is_wanted =
            |address: &SiteAddress| (address.scheme, address.port, &address.host) == (wanted.scheme, wanted.port, &wanted.host);
        let addresses = self.loaded.spans.addresses.iter().filter(move |(address, _)| is_wanted(address));
        addresses.map(move |(_, at)| written(&self.loaded.files, at))
    }

    /// What a text alone says is understood without having been loaded.
    fn of_server(self, wanted: &UpstreamAddress) -> impl Iterator<Item = &'l str> {
        let servers = self.loaded.spans.servers.not_by_text().filter(move |(address, _)| *address == wanted);
        servers.map(move |(_, at)| written(&self.loaded.files, &at))
    }
}

fn written<'l>(files: &'l Sources, at: &Location) -> &'l str {
    files.file(at.file).text.get(at.span.clone()).unwrap_or_default().trim_matches(['"', '#'])
}

pub fn locate(tops: &[TopNode], spellings: Spellings<'_>, target: &Target) -> Result<Spot, EditError> {
    let whole = |directive, top| Ok(Spot { directive, top, inner: Inner::Whole });
    match target {
        Target::Site { address } => whole(&SITE, site(tops, spellings, address)),
        Target::Pool { name } => {
            refuse_in_place(name)?;
            whole(&POOL, named(tops, &POOL, name))
        }
        Target::Listener { address } => whole(&LISTENER, named(tops, &LISTENER, address)),
        Target::Tcp { address } => whole(&TCP, named(tops, &TCP, address)),
        Target::Map { name } => whole(&MAP, named(tops, &MAP, name)),
        Target::Admin { address } => whole(&ADMIN, named(tops, &ADMIN, address)),
        Target::AccessLog { target } => whole(&ACCESS_LOG, named(tops, &ACCESS_LOG, target)),
        Target::Top { directive } => {
            let known = json::in_json(directive, Place::Top).ok_or_else(|| unknown_directive(directive))?;
            if known.repeat == Repeat::Many {
                let message = format!("there may be several `{directive}`, so one is not named by that word alone");
                return Err(EditError::new(EditFault::Invalid, message).help("name it by its address or its name"));
            }
            whole(known, tops.iter().position(|top| top.name() == known.name))
        }
        Target::Route { site: address, index } => {
            let top =
                site(tops, spellings, address).ok_or_else(|| not_found(tops, &Target::Site { address: address.clone() }))?;
            let steps = json::steps(tops[top].remembered.node().children.as_deref().unwrap_or_default(), Place::Site);
            let routes: Vec<usize> = (0..steps.len()).filter(|step| steps[*step].get("route").is_some()).collect();
            if *index > routes.len() {
                return Err(no_such_route(address, *index));
            }
            Ok(Spot { directive: &SITE, top: Some(top), inner: Inner::Step(routes.get(*index).copied()) })
        }
        Target::Server { pool, address } => {
            refuse_in_place(pool)?;
            let missing = || not_found(tops, &Target::Pool { name: pool.clone() });
            let top = named(tops, &POOL, pool).ok_or_else(missing)?;
            Ok(Spot {
                directive: &POOL,
                top: Some(top),
                inner: Inner::Server(server(&tops[top].remembered.node(), spellings, address)),
            })
        }
    }
}

/// A name with a `:` is what metrics and logs call a pool that has none.
fn refuse_in_place(name: &str) -> Result<(), EditError> {
    if !name.contains(':') {
        return Ok(());
    }
    let message = format!("`{}` is a pool written in place, in a `proxy`, and has no name of its own", shortened(name));
    Err(EditError::new(EditFault::NotFound, message)
        .help("change the route of its `proxy`, or give the servers a `pool` with a name"))
}

fn unknown_directive(word: &str) -> EditError {
    let error = EditError::new(EditFault::NotFound, format!("there is no directive `{}` at the top level", shortened(word)));
    let names = LANGUAGE.names_at(Place::Top);
    match nearest(word, names.iter().copied()) {
        Some(candidate) => error.help(format!("did you mean `{candidate}`?")),
        None => error,
    }
}

/// The error for a target that is not there.
pub fn not_found(tops: &[TopNode], target: &Target) -> EditError {
    if let Target::Route { site, index } = target {
        // A site that is not there was said before.
        return no_such_route(site, *index);
    }
    let (what, name, owner): (&str, &str, Option<(&str, usize)>) = match target {
        Target::Site { address } | Target::Route { site: address, .. } => ("site", address, None),
        Target::Pool { name } => ("pool", name, None),
        Target::Listener { address } => ("listener", address, None),
        Target::Tcp { address } => ("tcp", address, None),
        Target::Map { name } => ("map", name, None),
        Target::Admin { address } => ("admin", address, None),
        Target::AccessLog { target } => ("access-log", target, None),
        Target::Top { directive } => ("directive", directive, None),
        Target::Server { pool, address } => match named(tops, &POOL, pool) {
            Some(top) => ("server", address, Some((pool, top))),
            None => ("pool", pool, None),
        },
    };
    let pool = owner.map(|(_, top)| tops[top].remembered.node());
    let known: Vec<&str> = match &pool {
        Some(pool) => pool.children.iter().flatten().filter(|node| node.name.text == "server").flat_map(texts).collect(),
        None => tops.iter().filter(|top| top.name() == what).flat_map(|top| top.remembered.head.texts()).collect(),
    };
    let message = match owner {
        Some((pool, _)) => format!("the pool `{pool}` has no server `{}`", shortened(name)),
        None if what == "directive" => format!("`{}` is not written, so its default holds", shortened(name)),
        None => format!("there is no {what} `{}`", shortened(name)),
    };
    let error = EditError::new(EditFault::NotFound, message);
    match nearest(name, known) {
        Some(candidate) => error.help(format!("did you mean `{candidate}`?")),
        None => error,
    }
}

fn texts(node: &Node) -> impl Iterator<Item = &str> {
    let arguments = node.entries.iter().filter(|entry| entry.name.is_none());
    arguments.filter_map(|entry| match &entry.value.literal {
        Literal::Text(text) => Some(text.as_str()),
        Literal::Integer(_) | Literal::Float(_) | Literal::Switch(_) | Literal::Null => None,
    })
}

pub fn site(tops: &[TopNode], spellings: Spellings<'_>, address: &str) -> Option<usize> {
    let bare = |address: SiteAddress| SiteAddress { redirect_from_http: false, ..address };
    let parsed = SiteAddress::parse(address).ok().map(bare);
    let find = |is_meant: &dyn Fn(&str) -> bool| {
        tops.iter().position(|top| top.name() == SITE.name && top.remembered.head.texts().any(is_meant))
    };
    find(&|text| text == address)
        .or_else(|| {
            let written: Vec<&str> = parsed.iter().flat_map(|parsed| spellings.of_site(parsed)).collect();
            find(&|text| written.contains(&text))
        })
        .or_else(|| find(&|text| parsed.is_some() && SiteAddress::parse(text).ok().map(bare) == parsed))
}

pub fn named(tops: &[TopNode], directive: &Directive, name: &str) -> Option<usize> {
    let is_it = |top: &TopNode| {
        let argument = top.remembered.head.arguments.first().map(|argument| &argument.literal);
        top.name() == directive.name && matches!(argument, Some(Literal::Text(text)) if text == name)
    };
    tops.iter().position(is_it)
}

/// The position among the servers of a pool.
pub fn server(pool: &Node, spellings: Spellings<'_>, address: &str) -> Option<usize> {
    let parsed = UpstreamAddress::parse(address).ok();
    let spellings: Vec<&str> = parsed.iter().flat_map(|parsed| spellings.of_server(parsed)).collect();
    let servers: Vec<&Node> = pool.children.iter().flatten().filter(|node| node.name.text == "server").collect();
    let find = |is_meant: &dyn Fn(&str) -> bool| servers.iter().position(|server| texts(server).any(is_meant));
    find(&|text| text == address)
        .or_else(|| find(&|text| spellings.contains(&text)))
        .or_else(|| find(&|text| parsed.is_some() && UpstreamAddress::parse(text).ok() == parsed))
}

/// What has to be unique in the value of a whole node, and is somebody else's already.
pub fn taken(
    tops: &[TopNode],
    spellings: Spellings<'_>,
    directive: &Directive,
    value: &Value,
    own: Option<usize>,
) -> Option<EditError> {
    let mut names: Vec<&str> = Vec::new();
    for member in ["addresses", "name", "address", "target"] {
        match value.get(member) {
            Some(Value::String(text)) => names.push(text),
            Some(Value::Array(list)) => names.extend(list.iter().filter_map(Value::as_str)),
            _ => {}
        }
    }
    let holder = |name: &str| match directive.name {
        "site" => site(tops, spellings, name),
        "pool" | "listener" | "map" | "admin" | "access-log" => named(tops, directive, name),
        _ => None,
    };
    let name = names.into_iter().find(|name| holder(name).is_some_and(|top| Some(top) != own))?;
    let message = format!("there is a {} `{}` already", directive.name, shortened(name));
    Some(EditError::new(EditFault::Taken, message).help("change that one, or choose another"))
}

fn no_such_route(site: &str, index: usize) -> EditError {
    EditError::new(EditFault::NotFound, format!("the site `{}` has no route {index}", shortened(site)))
        .help("routes are counted from 0, in the order of the file")
}
