//! The first lines of the same thing here. What they are made of was read off the file's shape; a line that `check`
//! would not take is never told.

use super::accounts::{FileStatement, Origin, StatementKind, Weight, protections_left};
use super::outline::{
    AnswerLine, Outline, OutlinedAnswer, OutlinedRoute, OutlinedSetting, OutlinedSite, OutlinedTcp, ServerGroup, Service,
    beginning_pattern, beginning_with,
};
use super::written::{self, Bounds, Pools, WrittenNode};

/// Lines to write, whole as they stand.
#[derive(Debug)]
pub struct Beginning {
    pub lines: Vec<String>,
    /// Whether a name stands in them that the file does not say.
    pub is_name_open: bool,
    /// How many other sites and ports the file has.
    pub others: usize,
    /// How many routes of the site were left out.
    pub routes_left_out: usize,
    /// What they are made of.
    pub origin: Origin,
}

/// The lines that say most, and what kept others back.
#[derive(Debug)]
pub struct Telling<'o> {
    pub beginning: Option<Beginning>,
    /// What keeps clients out of sites and ports for which no line is told, since it would stand open.
    pub withheld: Vec<&'o FileStatement>,
    /// All else that does so there.
    pub withheld_too: Vec<&'o FileStatement>,
}

/// What one diagnostic shows.
const BOUNDS: Bounds = Bounds { routes_max: 24, names_max: 32, servers_max: 64, servers_in_place_max: 4 };
/// A file of ten thousand sites is told of by one of its first.
const TRIED_MAX: usize = 16;
const LOOKED_AT_MAX: usize = 200;

/// The lines that say most, of those that `accepts` takes.
pub fn of<'o>(outline: &'o Outline, accepts: &dyn Fn(&str) -> bool) -> Telling<'o> {
    let maps: Vec<&str> =
        outline.settings.iter().map(|setting| setting.line.as_str()).filter(|line| line.starts_with("map ")).collect();
    // Maps come with the lines that name them.
    let named = |text: &str| -> Vec<&str> {
        let is_named = |map: &&str| {
            let name = map.split('"').nth(1).unwrap_or_default();
            text.contains(&format!("map.{name}}}"))
                || text.contains(&format!("map=\"{name}\""))
                || text.contains(&format!("map=\"{name}="))
        };
        maps.iter().copied().filter(is_named).collect()
    };
    let with_maps = |text: &str| [named(text), vec![text]].concat().join("\n");
    let mut telling = told_of(outline, &|text| accepts(&with_maps(text)));
    if let Some(beginning) = &mut telling.beginning {
        let maps = named(&beginning.lines.join("\n"));
        beginning.lines.splice(0..0, maps.into_iter().map(str::to_owned));
    }
    telling
}

fn told_of<'o>(outline: &'o Outline, accepts: &dyn Fn(&str) -> bool) -> Telling<'o> {
    let mut services: Vec<&Service> = outline.services.iter().collect();
    services.sort_by_key(|service| rank(service));
    let mut withheld: Vec<&FileStatement> = Vec::new();
    let mut count_withheld = 0;
    let mut within = Origin::default();
    let mut found: Option<Beginning> = None;
    for (index, service) in services.iter().take(LOOKED_AT_MAX).enumerate() {
        let told = match &found {
            // What keeps clients out of the others is said as well.
            Some(_) => kept_back(service, &outline.statements),
            None if index < TRIED_MAX => of_service(service, &outline.statements, &outline.settings, accepts),
            None => break,
        };
        match told {
            Ok(beginning) => found = found.or(beginning),
            Err(statements) => {
                count_withheld += 1;
                within.within.extend(service.whole_origin().within);
                withheld.extend(statements.into_iter().filter(|one| !withheld.contains(one)).collect::<Vec<_>>());
            }
        }
    }
    withheld.sort_by_key(|statement| statement.at);
    let told = found.as_ref().map(|found| found.origin.clone()).unwrap_or_default();
    let is_told = |at: usize| told.carried.contains(&at) || told.differs.contains_key(&at);
    let mut withheld_too = protections_left(&outline.statements, &within);
    withheld_too.retain(|one| !withheld.contains(one) && !is_told(one.at));
    if let Some(beginning) = found {
        let others = services.len() - 1 - count_withheld + outline.uncounted;
        let mut beginning = Beginning { others, ..beginning };
        beginning.origin.add(&outline.told);
        return Telling { beginning: Some(beginning), withheld, withheld_too };
    }
    let of_group = |group: &ServerGroup| {
        let site = OutlinedSite { answer: Some(OutlinedAnswer::proxy(group.clone())), ..OutlinedSite::default() };
        let is_open = protections_left(&outline.statements, &group.origin).is_empty();
        of_site(&site, group.servers.len() + group.lines.len() > 1)
            .filter(|beginning| is_open && accepts(&beginning.lines.join("\n")))
    };
    let groups = if withheld.is_empty() { outline.groups.as_slice() } else { &[] };
    let beginning = groups.iter().take(TRIED_MAX).find_map(of_group);
    let beginning = beginning.map(|beginning| Beginning { others: groups.len() - 1, ..beginning });
    if beginning.is_none() {
        // Of nothing that is told, nothing keeps anybody out.
        let is_done = |one: &&FileStatement| outline.done_without.contains(&one.at) || withheld.contains(one);
        let all = outline.statements.iter().filter(|one| one.kind == StatementKind::Needed(Weight::Protection));
        withheld_too = all.filter(|one| !is_done(one)).collect();
    }
    Telling { beginning, withheld, withheld_too }
}

/// What hands on comes before what only sends elsewhere.
fn rank(service: &Service) -> u8 {
    let of_answer = |answer: &OutlinedAnswer| match answer {
        OutlinedAnswer::Proxy { .. } | OutlinedAnswer::Scripts { .. } | OutlinedAnswer::Split { .. } => 0,
        OutlinedAnswer::Files { .. } => 1,
        OutlinedAnswer::Respond { .. } => 2,
        OutlinedAnswer::Redirect { .. } => 3,
        OutlinedAnswer::Within { .. } => 0,
        OutlinedAnswer::Lines(lines) => match lines.last() {
            Some(AnswerLine::Servers { .. } | AnswerLine::Block { .. }) | None => 0,
            Some(AnswerLine::Text(text)) if text.starts_with("fastcgi") => 0,
            Some(AnswerLine::Text(text)) if text.starts_with("files") => 1,
            Some(AnswerLine::Text(_)) => 2,
        },
    };
    match service {
        Service::Tcp(_) => 0,
        Service::Site(site) => {
            let answers = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer));
            answers.map(of_answer).min().unwrap_or(4)
        }
    }
}

/// `Err`: what protects it, and would not be there.
type ServiceBeginning<'o> = Result<Option<Beginning>, Vec<&'o FileStatement>>;

/// Whether a site or port would stand open, without its lines.
fn kept_back<'o>(service: &Service, statements: &'o [FileStatement]) -> ServiceBeginning<'o> {
    match service {
        Service::Tcp(tcp) => {
            let left = protections_left(statements, &tcp.whole_origin());
            if left.is_empty() { Ok(None) } else { Err(left) }
        }
        Service::Site(site) => closed(site, statements).map(|_| None),
    }
}

fn of_service<'o>(
    service: &Service,
    statements: &'o [FileStatement],
    settings: &[OutlinedSetting],
    accepts: &dyn Fn(&str) -> bool,
) -> ServiceBeginning<'o> {
    let is_right = |beginning: &Beginning| accepts(&beginning.lines.join("\n"));
    let with_settings = |beginning: Beginning| with_listeners(beginning, settings);
    let site = match service {
        Service::Tcp(tcp) => {
            let left = protections_left(statements, &tcp.whole_origin());
            return if left.is_empty() { Ok(of_tcp(tcp).filter(is_right)) } else { Err(left) };
        }
        Service::Site(site) => closed(site, statements)?,
    };
    // A pattern that only the other proxy takes must not keep back all else.
    let count = |beginning: Beginning, told: &OutlinedSite| {
        Some(Beginning { routes_left_out: site.routes.len() - told.routes.len(), ..beginning })
    };
    let known = without_routes(&site, |route| !route.is_readable(), statements)?;
    if let Some(beginning) = of_site(&known, false).map(with_settings).filter(is_right) {
        return Ok(count(beginning, &known));
    }
    let bare = without_routes(&site, |_| true, statements)?;
    Ok(of_site(&bare, false).map(with_settings).filter(is_right).and_then(|beginning| count(beginning, &bare)))
}

/// The site with all routes shut that somebody is kept out of by what is not carried. What protects all of it keeps it
/// back.
fn closed<'o>(site: &OutlinedSite, statements: &'o [FileStatement]) -> Result<OutlinedSite, Vec<&'o FileStatement>> {
    let mut site = site.clone();
    let left = protections_left(statements, &site.own_origin());
    if !left.is_empty() {
        return Err(left);
    }
    let mut kept_out = Vec::new();
    for route in &mut site.routes {
        let left = protections_left(statements, &route.whole_origin());
        if !left.is_empty() {
            route.answer = OutlinedAnswer::status(403);
            route.steps.clear();
            // Nobody comes in there, so all else that is said of it has no say.
            let within = std::mem::take(&mut route.origin.within);
            route.origin.carry_all(within);
            for statement in &left {
                route.origin.differ(statement.at, "what it protects is refused with 403 in these lines: it is yours to add");
            }
            kept_out.extend(left);
        }
        settle_prefixes(route);
    }
    let serves = site.answer.iter().chain(site.routes.iter().map(|route| &route.answer)).any(|answer| !answer.is_refusal());
    if serves || kept_out.is_empty() { Ok(site) } else { Err(kept_out) }
}

/// What begins so is taken within a segment too, but where whole segments are taken off: there it is those, unless
/// somebody is kept out.
pub fn settle_prefixes(route: &mut OutlinedRoute) {
    let is_guarded = route.is_guarded();
    let is_in_segments = takes_segments_off(&route.steps, &route.answer);
    for written in std::mem::take(&mut route.byte_prefixes) {
        if is_guarded || !is_in_segments {
            let pattern = match route.case {
                Some(_) if is_guarded => beginning_with(&written.prefix).replacen('~', "~(?i)", 1),
                Some(_) | None => beginning_pattern(&written.prefix),
            };
            for own in route.patterns.iter_mut().filter(|own| **own == written.pattern) {
                own.clone_from(&pattern);
            }
        } else {
            let how =
                format!("`{0}x` begins with `{0}` too there, and here `{1}` is whole segments", written.prefix, written.pattern);
            route.origin.differ_too(written.at, how);
        }
    }
    let Some(at) = route.case else { return };
    let is_plain = |pattern: &String| !pattern.starts_with('~');
    let is_of_end = |pattern: &String| pattern.ends_with('$') || is_plain(pattern) && !pattern.ends_with('*');
    if is_guarded && route.patterns.iter().any(is_of_end) {
        route.origin.differ_too(at, OF_DOTS);
    }
    if is_guarded {
        // A folder that is an expression already takes no other letters than those that are written.
        let is_folder =
            |own: &&mut String| own.starts_with("~^/") && own.ends_with('/') && !own.contains(['(', '[', '*', '+', '?']);
        route.patterns.iter_mut().filter(is_folder).for_each(|own| own.insert_str(1, "(?i)"));
        route.patterns.iter_mut().filter(|own| is_plain(own)).for_each(|own| *own = without_case(own));
    } else if route.patterns.iter().any(is_plain) {
        route.origin.differ(at, OF_CASE);
    }
}

/// Whether `strip-prefix` takes something off, which would leave `/apix` as it is where others make `x` of it.
fn takes_segments_off(steps: &[String], answer: &OutlinedAnswer) -> bool {
    let strips = |line: &str| line.starts_with("strip-prefix ");
    fn strips_in(line: &AnswerLine) -> bool {
        match line {
            AnswerLine::Text(text) => text.starts_with("strip-prefix "),
            AnswerLine::Servers { .. } => false,
            AnswerLine::Block { inside, .. } => inside.iter().any(strips_in),
        }
    }
    steps.iter().any(|step| strips(step))
        || match answer {
            OutlinedAnswer::Proxy { strip, .. } | OutlinedAnswer::Files { strip, .. } => strip.is_some(),
            OutlinedAnswer::Within { routes, steps, otherwise } => {
                routes.iter().any(|route| takes_segments_off(&route.steps, &route.answer))
                    || steps.iter().any(|step| strips(step))
                    || otherwise.as_ref().is_some_and(|answer| takes_segments_off(&[], answer))
            }
            OutlinedAnswer::Lines(lines) => lines.iter().any(strips_in),
            OutlinedAnswer::Scripts { .. }
            | OutlinedAnswer::Redirect { .. }
            | OutlinedAnswer::Respond { .. }
            | OutlinedAnswer::Split { .. } => false,
        }
}

pub const OF_CASE: &str = "Caddy takes `/API` where `/api` is written as well, and not `/api` where `/api/*` is: here it is the other \
                       way round";

const OF_DOTS: &str = "Caddy takes the dots and the slash off at the end of `/admin/.` before it compares, and `/admin/.` is `/admin/` here, \
                       which is another path";

/// A pattern as an expression that takes letters large and small.
fn without_case(pattern: &str) -> String {
    match pattern.strip_suffix("/*") {
        Some(folder) => format!("~(?i)^{}/", regex_syntax::escape(folder)),
        None => format!("~(?i)^{}$", regex_syntax::escape(pattern)),
    }
}

/// What none of them takes is answered by the last, so nothing that keeps somebody out can be left out.
fn without_routes<'o>(
    site: &OutlinedSite,
    is_left_out: impl Fn(&OutlinedRoute) -> bool,
    statements: &'o [FileStatement],
) -> Result<OutlinedSite, Vec<&'o FileStatement>> {
    let mut site = site.clone();
    let mut whole = site.origin.clone();
    for route in site.routes.iter().filter(|route| is_left_out(route)) {
        let origin = route.whole_origin();
        if route.is_guarded() {
            return Err(statements.iter().filter(|one| origin.within.contains(&one.at)).take(1).collect());
        }
        whole.within.extend(&origin.within);
    }
    site.origin = whole;
    site.routes.retain(|route| !is_left_out(route));
    Ok(site)
}

/// Whose address a client has is said by listeners, where a line asks for it.
fn with_listeners(mut beginning: Beginning, settings: &[OutlinedSetting]) -> Beginning {
    let asks =
        |line: &String| ["client=", "allow \"", "deny \"", "client-ip", "{client.ip}"].iter().any(|word| line.contains(word));
    if beginning.lines.iter().any(asks) {
        let listeners = settings.iter().filter(|setting| setting.line.starts_with("listener "));
        for (index, setting) in listeners.enumerate() {
            beginning.lines.insert(index, setting.line.clone());
            beginning.origin.add(&setting.origin);
        }
    }
    beginning
}

fn of_site(site: &OutlinedSite, with_pool: bool) -> Option<Beginning> {
    let mut pools = Pools::new(with_pool, BOUNDS);
    let node = written::site(site, &mut pools)?;
    let lines: Vec<String> = pools.nodes.iter().chain([&node]).map(WrittenNode::on_one_line).collect();
    // Hashes of passwords are for the file that is written, and not for a message.
    if lines.iter().any(|line| line.contains("basic-auth") && line.contains("{ user ")) {
        return None;
    }
    Some(Beginning {
        lines,
        is_name_open: written::is_name_open(site),
        others: 0,
        routes_left_out: 0,
        origin: site.whole_origin(),
    })
}

fn of_tcp(tcp: &OutlinedTcp) -> Option<Beginning> {
    let mut pools = Pools::new(false, BOUNDS);
    let node = written::tcp(tcp, &mut pools)?;
    let lines = pools.nodes.iter().chain([&node]).map(WrittenNode::on_one_line).collect();
    Some(Beginning { lines, is_name_open: false, others: 0, routes_left_out: 0, origin: tcp.whole_origin() })
}
