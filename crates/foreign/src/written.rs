//! Lines of ours for what was found in a file: a site, a port, a pool, each with the lines of its block. They stand on
//! one line in a diagnostic, and each on its own in an imported file.

use super::outline::{
    AnswerLine, GroupedServer, NAME_IN_PLACE, OutlinedAnswer, OutlinedRoute, OutlinedSite, OutlinedTcp, ServerGroup,
};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_kdl::quoted;

/// A line of ours and, where it opens one, its block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenNode {
    pub text: String,
    /// The lines of its block; `None` where it opens none.
    pub inside: Option<Vec<WrittenNode>>,
    /// Where the statements begin that it is made of.
    pub within: BTreeSet<usize>,
    /// What is said above it, without the marks of a comment.
    pub comments: Vec<String>,
    /// Whether it is written so that it has no effect, with its block.
    pub is_off: bool,
    /// What is to blame for that.
    pub why_off: Option<String>,
    /// Whether its name stands in the place of one that the reader has to write.
    pub is_name_open: bool,
}

/// As far as lines go in.
const INDENT: &str = "    ";

impl WrittenNode {
    pub fn line(text: impl Into<String>) -> WrittenNode {
        WrittenNode { text: text.into(), ..WrittenNode::default() }
    }

    pub fn block(text: impl Into<String>, inside: Vec<WrittenNode>) -> WrittenNode {
        WrittenNode { text: text.into(), inside: Some(inside), ..WrittenNode::default() }
    }

    /// Made of the statements that begin there.
    pub fn made_of(self, within: &BTreeSet<usize>) -> WrittenNode {
        WrittenNode { within: within.clone(), ..self }
    }

    /// Without comments, and blocks in braces on the line.
    pub fn on_one_line(&self) -> String {
        match &self.inside {
            None => self.text.clone(),
            Some(inside) => {
                let inside: Vec<String> = inside.iter().map(WrittenNode::on_one_line).collect();
                format!("{} {{ {} }}", self.text, inside.join("; "))
            }
        }
    }

    /// Each line on its own, with comments above.
    pub fn write(&self, depth: usize, text: &mut String) {
        let indent = INDENT.repeat(depth);
        for comment in &self.comments {
            text.push_str(format!("{indent}// {comment}").trim_end());
            text.push('\n');
        }
        let off = if self.is_off { "/-" } else { "" };
        match &self.inside {
            None => text.push_str(&format!("{indent}{off}{}\n", self.text)),
            Some(inside) => {
                text.push_str(&format!("{indent}{off}{} {{\n", self.text));
                for node in inside {
                    node.write(depth + 1, text);
                }
                text.push_str(&format!("{indent}}}\n"));
            }
        }
    }
}

/// Bounds of what is written.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub routes_max: usize,
    pub names_max: usize,
    /// Of a pool that has more, no line is written: a part of it could send elsewhere what another part takes.
    pub servers_max: usize,
    /// More servers are a pool of their own, whose lines can be read.
    pub servers_in_place_max: usize,
}

/// The site, and the pools that it is the first to name; `None` where it has no lines.
pub fn site(site: &OutlinedSite, pools: &mut Pools) -> Option<WrittenNode> {
    if site.routes.len() > pools.bounds.routes_max || site.addresses.len() > pools.bounds.names_max {
        return None;
    }
    let mut inside: Vec<WrittenNode> = site.steps.iter().map(WrittenNode::line).collect();
    let count = inside.len();
    let only = (!site.only_hosts.is_empty()).then(|| host_condition(&site.only_hosts));
    for route in &site.routes {
        inside.push(self::route(route, only.as_deref(), pools)?);
    }
    if let Some(answer) = &site.answer {
        let steps = steps(answer, pools)?;
        match only {
            None => inside.extend(steps),
            Some(only) => {
                let condition = WrittenNode::line(format!("match {only}"));
                inside.push(WrittenNode::block("route", [vec![condition], steps].concat()));
            }
        }
    }
    if inside.len() == count {
        return None;
    }
    let named: Vec<String> = site.addresses.iter().map(|address| quoted(address)).collect();
    let names = if named.is_empty() { quoted(NAME_IN_PLACE) } else { named.join(" ") };
    let node = WrittenNode::block(format!("site {names}"), inside).made_of(&site.whole_origin().within);
    Some(WrittenNode { is_name_open: is_name_open(site), ..node })
}

/// Says once for a site, as its line at that index, what all servers in its routes have of times.
pub fn say_times_once(site: &mut WrittenNode, index: usize) {
    let (mut all, mut count) = (BTreeSet::new(), 0);
    let is_alike = site.inside.iter().flatten().all(|node| gather_times(node, &mut all, &mut count));
    let times = all.pop_first().filter(|times| is_alike && all.is_empty() && !times.is_empty() && count > 1);
    if let (Some(times), Some(inside)) = (times, &mut site.inside) {
        inside.iter_mut().for_each(without_times);
        inside.insert(index, WrittenNode::line(times));
    }
}

/// The times of all servers in place; whether nothing else says any, or may.
fn gather_times(node: &WrittenNode, all: &mut BTreeSet<String>, count: &mut usize) -> bool {
    let word = node.text.split(' ').next().unwrap_or_default();
    match word {
        "proxy" => {
            let own = node.inside.iter().flatten().find(|line| line.text.starts_with("timeout "));
            all.insert(own.map(|line| line.text.clone()).unwrap_or_default());
            *count += 1;
            true
        }
        "timeout" | "fastcgi" | "split" | "mirror" => false,
        _ => node.inside.iter().flatten().all(|node| gather_times(node, all, count)),
    }
}

fn without_times(node: &mut WrittenNode) {
    let is_proxy = node.text.starts_with("proxy ");
    let Some(inside) = &mut node.inside else { return };
    if is_proxy {
        inside.retain(|line| !line.text.starts_with("timeout "));
    } else {
        inside.iter_mut().for_each(without_times);
    }
    if is_proxy && inside.is_empty() {
        node.inside = None;
    }
}

/// What stands behind `match` for these hosts, of which those with a `~` in front are expressions.
pub fn host_condition(hosts: &[String]) -> String {
    if !hosts.iter().any(|host| host.starts_with('~')) {
        return format!("host={}", quoted(&hosts.join(",")));
    }
    let text = |host: &String| match (host.strip_prefix('~'), host.strip_prefix("*.")) {
        (Some(text), _) => text.to_owned(),
        (None, None) if host.starts_with("**.") => format!("(?i)^.+{}\\.?(:[0-9]+)?$", regex_syntax::escape(&host[2..])),
        (None, Some(domain)) => format!("(?i)^[^.]+\\.{}\\.?(:[0-9]+)?$", regex_syntax::escape(domain)),
        (None, None) => format!("(?i)^{}\\.?(:[0-9]+)?$", regex_syntax::escape(host)),
    };
    let all: Vec<String> = hosts.iter().map(text).collect();
    let text = if let [one] = all.as_slice() {
        one.clone()
    } else {
        all.iter().map(|one| format!("(?:{one})")).collect::<Vec<_>>().join("|")
    };
    format!("header={}", quoted(&format!("Host: ~{text}")))
}

/// Whether a name stands in its address that the file does not say.
pub fn is_name_open(site: &OutlinedSite) -> bool {
    site.addresses.is_empty() || site.is_name_open
}

fn route(route: &OutlinedRoute, only: Option<&str>, pools: &mut Pools) -> Option<WrittenNode> {
    let patterns: String = route.patterns.iter().flat_map(|pattern| [" ".to_owned(), quoted(pattern)]).collect();
    let conditions: Vec<&str> = only.into_iter().chain(route.conditions.iter().map(String::as_str)).collect();
    let line = |more: Option<&str>| {
        let all: Vec<&str> = conditions.iter().copied().chain(more).collect();
        (!all.is_empty()).then(|| WrittenNode::line(format!("match {}", all.join(" "))))
    };
    let matches: Vec<WrittenNode> = match route.alternatives.as_slice() {
        [] => line(None).into_iter().collect(),
        several => several.iter().filter_map(|one| line(Some(one))).collect(),
    };
    let guards = route.steps.iter().map(WrittenNode::line);
    let inside = matches.into_iter().chain(guards).chain(steps(&route.answer, pools)?).collect();
    Some(WrittenNode::block(format!("route{patterns}"), inside).made_of(&route.whole_origin().within))
}

pub fn tcp(tcp: &OutlinedTcp, pools: &mut Pools) -> Option<WrittenNode> {
    let names_max = pools.bounds.names_max;
    if tcp.by_name.len() > names_max || tcp.by_name.iter().any(|(names, _)| names.len() > names_max) {
        return None;
    }
    let mut inside = Vec::new();
    for (names, group) in &tcp.by_name {
        let names: String = names.iter().flat_map(|name| [" ".to_owned(), quoted(name)]).collect();
        inside.push(WrittenNode::block(format!("sni{names}"), vec![pools.proxy(group)?]).made_of(&group.origin.within));
    }
    if let Some(group) = &tcp.otherwise {
        inside.push(pools.proxy(group)?);
    }
    let origin = tcp.whole_origin();
    (!inside.is_empty()).then(|| WrittenNode::block(format!("tcp {}", quoted(&tcp.address)), inside).made_of(&origin.within))
}

/// The steps of a site or a route, up to the one that answers.
fn steps(answer: &OutlinedAnswer, pools: &mut Pools) -> Option<Vec<WrittenNode>> {
    let property =
        |name: &str, value: &Option<String>| value.as_ref().map(|value| format!(" {name}={}", quoted(value))).unwrap_or_default();
    let change = |name: &str, prefix: &Option<String>| {
        prefix.as_ref().map(|prefix| WrittenNode::line(format!("{name} {}", quoted(prefix))))
    };
    let mut steps = Vec::new();
    match answer {
        OutlinedAnswer::Proxy { group, strip, add } => {
            steps.extend(change("strip-prefix", strip));
            steps.extend(change("add-prefix", add));
            steps.push(pools.proxy(group)?);
        }
        OutlinedAnswer::Files { root, strip, is_tried: true, .. } => {
            steps.extend(change("strip-prefix", strip));
            steps.push(WrittenNode::line(format!("files {} try=\"{{path}}\" else=\"next\"", quoted(root))));
        }
        OutlinedAnswer::Files { root, strip, fallback, is_listing, is_tried: false } => {
            let listing = if *is_listing { " listing=#true" } else { "" };
            steps.extend(change("strip-prefix", strip));
            steps.push(WrittenNode::line(format!("files {}{}{listing}", quoted(root), property("fallback", fallback))));
        }
        OutlinedAnswer::Scripts { server, root, fallback, is_static } => {
            let files = if *is_static { " static=#true" } else { "" };
            let root = property("root", root);
            steps.push(WrittenNode::line(format!("fastcgi {}{root}{}{files}", quoted(server), property("fallback", fallback))));
        }
        OutlinedAnswer::Redirect { to, status } => {
            steps.push(WrittenNode::line(format!("redirect {} status={status}", quoted(to))));
        }
        OutlinedAnswer::Respond { status, body } => {
            steps.push(WrittenNode::line(format!("respond {status}{}", property("body", body))));
        }
        OutlinedAnswer::Lines(lines) => {
            for line in lines {
                steps.push(answer_line(line, pools)?);
            }
        }
        OutlinedAnswer::Split { shares } => {
            let mut inside = Vec::new();
            for (group, weight) in shares {
                let mut node = pools.proxy(group)?;
                node.text.push_str(&format!(" weight={weight}"));
                inside.push(node);
            }
            steps.push(WrittenNode::block("split", inside));
        }
        OutlinedAnswer::Within { routes, steps: own, otherwise } => {
            steps.extend(own.iter().map(WrittenNode::line));
            for inner in routes {
                steps.push(route(inner, None, pools)?);
            }
            if let Some(answer) = otherwise {
                steps.extend(self::steps(answer, pools)?);
            }
        }
    }
    Some(steps)
}

fn answer_line(line: &AnswerLine, pools: &mut Pools) -> Option<WrittenNode> {
    Some(match line {
        AnswerLine::Text(text) => WrittenNode::line(text),
        AnswerLine::Servers { word, group, options, inside } => pools.handed_on(word, group, options, inside)?,
        AnswerLine::Block { text, inside } => {
            // What a map has is the name of a pool, which another one of that name has taken.
            let mut is_named = |line: &AnswerLine| match line {
                AnswerLine::Servers { group, .. } => pools.named(group) == group.name,
                AnswerLine::Text(_) | AnswerLine::Block { .. } => true,
            };
            if text.starts_with("split to=") && inside.iter().filter(|line| is_named(line)).count() < inside.len() {
                let mut node = WrittenNode::line("respond 503");
                node.comments
                    .push(format!("`{text}` names pools of which the file has several here: write it, and a pool for each"));
                return Some(node);
            }
            let inside: Option<Vec<WrittenNode>> = inside.iter().map(|line| answer_line(line, pools)).collect();
            WrittenNode::block(text, inside?)
        }
    })
}

/// Pools that the lines name, each written once.
#[derive(Debug)]
pub struct Pools {
    pub nodes: Vec<WrittenNode>,
    /// Where the pool of a name stands, as long as that is there.
    places: BTreeMap<String, usize>,
    /// Whether servers are never written in place.
    always: bool,
    bounds: Bounds,
}

impl Pools {
    pub fn new(always: bool, bounds: Bounds) -> Pools {
        Pools { nodes: Vec::new(), places: BTreeMap::new(), always, bounds }
    }

    /// `proxy` with the servers of the group, or with the name of its pool.
    pub fn proxy(&mut self, group: &ServerGroup) -> Option<WrittenNode> {
        self.handed_on("proxy", group, "", &[])
    }

    /// The word with servers, with these properties, and these lines in its block.
    fn handed_on(&mut self, word: &str, group: &ServerGroup, options: &str, own: &[String]) -> Option<WrittenNode> {
        if group.is_empty() || group.servers.len() > self.bounds.servers_max {
            return None;
        }
        let is_in_place = |server: &GroupedServer| server.weight.is_none() && !server.is_backup && server.properties.is_empty();
        let servers = &group.servers;
        let is_few = !group.is_apart && !servers.is_empty() && servers.len() <= self.bounds.servers_in_place_max;
        if !self.always && is_few && servers.iter().all(is_in_place) {
            let addresses: Vec<String> = servers.iter().map(|server| quoted(&server.address)).collect();
            let text = format!("{word} {}{options}", addresses.join(" "));
            let inside: Vec<WrittenNode> = group.lines.iter().chain(own).map(WrittenNode::line).collect();
            return Some(if inside.is_empty() { WrittenNode::line(text) } else { WrittenNode::block(text, inside) });
        }
        let name = if word == "fastcgi" {
            let mut group = group.clone();
            group.add_line("protocol \"fastcgi\"");
            self.named(&group)
        } else {
            self.named(group)
        };
        let text = format!("{word} {}{options}", quoted(&name));
        let inside: Vec<WrittenNode> = own.iter().map(WrittenNode::line).collect();
        Some(if inside.is_empty() { WrittenNode::line(text) } else { WrittenNode::block(text, inside) })
    }

    /// The name of the pool, which is written where it is not yet.
    pub fn named(&mut self, group: &ServerGroup) -> String {
        let lines: Vec<WrittenNode> = group.servers.iter().map(server).chain(group.lines.iter().map(WrittenNode::line)).collect();
        let own = pool_name(&group.name);
        let mut name = own.clone();
        let mut number = 1;
        while self.of_name(&name).is_some_and(|node| node.inside.as_ref() != Some(&lines)) {
            number += 1;
            name = format!("{own}-{number}");
        }
        if self.of_name(&name).is_none() {
            let mut node = WrittenNode::block(format!("pool {}", quoted(&name)), lines).made_of(&group.origin.within);
            if name != own {
                node.comments
                    .push(format!("not like pool {}, whose name it has there: each pool counts for itself", quoted(&own)));
            }
            self.places.insert(name.clone(), self.nodes.len());
            self.nodes.push(node);
        }
        name
    }

    /// The pool of that name.
    pub fn of_name(&self, name: &str) -> Option<&WrittenNode> {
        let node = self.nodes.get(*self.places.get(name)?)?;
        (node.text.strip_prefix("pool ") == Some(quoted(name).as_str())).then_some(node)
    }
}

fn server(server: &GroupedServer) -> WrittenNode {
    let GroupedServer { address, weight, is_backup, properties } = server;
    let weight = weight.map(|weight| format!(" weight={weight}")).unwrap_or_default();
    let backup = if *is_backup { " backup=#true" } else { "" };
    let properties: String = properties.iter().flat_map(|property| [" ", property]).collect();
    WrittenNode::line(format!("server {}{weight}{backup}{properties}", quoted(address)))
}

/// A name without what a pool's cannot have.
fn pool_name(written: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = written.chars().map(allowed).collect();
    if name.is_empty() { "app".to_owned() } else { name }
}
