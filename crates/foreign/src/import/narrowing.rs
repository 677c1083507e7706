//! What of a site is to blame when `check` refuses it. A header line that is none of ours is left out, a route that is
//! refused answers 503, and all else is served: one line of thousands does not take a whole site away.

use super::Importer;
use crate::accounts::Origin;
use crate::outline::{OutlinedAnswer, OutlinedRoute, OutlinedSite};
use crate::written::{self, Pools, WrittenNode};
use std::collections::{BTreeMap, BTreeSet};

/// Sites of more routes are refused as a whole: each route is looked at alone.
const ROUTES_MAX: usize = 400;

/// A site without what is refused in it.
#[derive(Debug, Default)]
pub struct NarrowedSite {
    pub site: OutlinedSite,
    /// What `check` says of routes, by their place.
    pub routes: BTreeMap<usize, String>,
    /// The sentences of `check` about header lines of the site that are left out.
    pub lines: Vec<String>,
    /// What each statement that is not carried for it was to be.
    pub reasons: BTreeMap<usize, String>,
}

impl Importer<'_> {
    /// `None` where what is to blame cannot be told from the rest.
    pub(super) fn narrowed(&self, site: &OutlinedSite) -> Option<NarrowedSite> {
        if site.routes.len() > ROUTES_MAX {
            return None;
        }
        let mut narrowed = NarrowedSite { site: site.clone(), ..NarrowedSite::default() };
        let bare = |steps: &[String]| OutlinedSite {
            addresses: site.addresses.clone(),
            answer: Some(OutlinedAnswer::status(404)),
            steps: steps.to_vec(),
            ..OutlinedSite::default()
        };
        if let Some(fault) = self.fault_of(&bare(&site.steps)) {
            let dropped = drop_headers(&mut narrowed.site.steps, fault, &|steps| self.fault_of(&bare(steps)))?;
            self.lose(&mut narrowed, None, &dropped);
        }
        for (index, route) in site.routes.iter().enumerate() {
            let with = |route: &OutlinedRoute| OutlinedSite { routes: vec![route.clone()], ..bare(&[]) };
            let Some(fault) = self.fault_of(&with(route)) else { continue };
            let own = &mut narrowed.site.routes[index];
            let of_steps = |steps: &[String]| self.fault_of(&with(&OutlinedRoute { steps: steps.to_vec(), ..route.clone() }));
            if let Some(dropped) = drop_headers(&mut own.steps, fault.clone(), &of_steps) {
                narrowed.routes.insert(index, said_of(&dropped));
                self.lose(&mut narrowed, Some(index), &dropped);
                continue;
            }
            (own.steps, own.answer) = (Vec::new(), OutlinedAnswer::status(503));
            if self.fault_of(&with(own)).is_some() {
                return None;
            }
            let within = route.whole_origin().within;
            own.origin.lose(&within);
            own.origin.within.extend(&within);
            // What all routes of a site have is said by the others.
            let within = within.difference(&site.origin.carried).copied();
            let why = format!("its paths answer 503: {fault}");
            for at in within {
                narrowed.reasons.entry(at).or_insert_with(|| format!("a route that it has a part in answers 503: {fault}"));
            }
            narrowed.routes.insert(index, why);
        }
        (self.fault_of(&narrowed.site).is_none()).then_some(narrowed)
    }

    /// What `check` says of a site beside the settings and the pools that it names.
    fn fault_of(&self, site: &OutlinedSite) -> Option<String> {
        let mut pools = Pools::new(false, super::BOUNDS);
        let node = written::site(site, &mut pools)?;
        let settings = self.nodes.iter().filter(|node| !node.is_off && node.text.starts_with("map "));
        let lines: Vec<String> = settings.chain(&pools.nodes).chain([&node]).map(WrittenNode::on_one_line).collect();
        (self.sayings.refused)(&lines.join("\n"))
    }

    /// Takes back that the statements behind header lines that are left out are said: those that have the field's name,
    /// or, where none has it, all about headers.
    fn lose(&self, narrowed: &mut NarrowedSite, route: Option<usize>, dropped: &[DroppedLine]) {
        let site = &mut narrowed.site;
        let mut origins: Vec<&mut Origin> = match route {
            Some(index) => vec![&mut site.routes[index].origin],
            None => {
                let own = [&mut site.origin, &mut site.answer_origin];
                site.routes.iter_mut().map(|route| &mut route.origin).chain(own).collect()
            }
        };
        for DroppedLine { line, fault } in dropped {
            let name = header_name(line).to_ascii_lowercase();
            let carried: BTreeSet<usize> = origins.iter().flat_map(|origin| origin.carried.iter().copied()).collect();
            let of_headers =
                self.outline.statements.iter().filter(|statement| {
                    carried.contains(&statement.at) && statement.name.to_ascii_lowercase().contains("header")
                });
            let of_headers: BTreeSet<usize> = of_headers.map(|statement| statement.at).collect();
            let line_of = |at: usize| self.source.text[at..].lines().next().unwrap_or_default().to_ascii_lowercase();
            let named: BTreeSet<usize> = of_headers.iter().copied().filter(|at| line_of(*at).contains(&name)).collect();
            let places = if named.is_empty() { of_headers } else { named };
            for origin in &mut origins {
                origin.lose(&places);
            }
            let why = left_out(line, fault);
            narrowed.reasons.extend(places.iter().map(|at| (*at, why.clone())));
            if route.is_none() {
                narrowed.lines.push(why);
            }
        }
    }
}

/// A line that is left out, and what `check` says of it.
struct DroppedLine {
    line: String,
    fault: String,
}

fn said_of(dropped: &[DroppedLine]) -> String {
    let each: Vec<String> = dropped.iter().map(|DroppedLine { line, fault }| left_out(line, fault)).collect();
    each.join("; ")
}

/// Values of fields may be secrets, and are not told.
fn left_out(line: &str, fault: &str) -> String {
    format!("`header` of `{}` is left out: {fault}", header_name(line))
}

/// Leaves out response header lines, which keep nobody out, as long as that changes what is said. `None` where
/// something else is to blame.
fn drop_headers(
    steps: &mut Vec<String>,
    first: String,
    fault_of: &dyn Fn(&[String]) -> Option<String>,
) -> Option<Vec<DroppedLine>> {
    let (mut dropped, mut fault, mut index) = (Vec::new(), first, 0);
    while index < steps.len() {
        if !steps[index].starts_with("header ") {
            index += 1;
            continue;
        }
        let line = steps.remove(index);
        match fault_of(steps) {
            None => {
                dropped.push(DroppedLine { line, fault });
                return Some(dropped);
            }
            Some(other) if other != fault => {
                dropped.push(DroppedLine { line, fault: std::mem::replace(&mut fault, other) });
            }
            Some(_) => {
                steps.insert(index, line);
                index += 1;
            }
        }
    }
    None
}

/// `X-A` of `header "X-A" "1"` and of `header add="X-A: 1"`.
fn header_name(line: &str) -> &str {
    let quoted = line.split('"').nth(1).unwrap_or_default();
    quoted.split(':').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::{drop_headers, header_name};

    #[test]
    fn names_stand_in_the_first_text() {
        assert_eq!(header_name("header \"X-A\" \"1\""), "X-A");
        assert_eq!(header_name("header add=\"X-A: 1\" status=\"200\""), "X-A");
        assert_eq!(header_name("header remove=\"Server\""), "Server");
    }

    #[test]
    fn header_lines_are_left_out_and_nothing_else() {
        let check = |steps: &[&str], expected: Option<&[&str]>| {
            let mut steps: Vec<String> = steps.iter().map(|&step| step.to_owned()).collect();
            let bad = |steps: &[String]| steps.iter().find(|step| step.contains("bad")).cloned();
            let Some(first) = bad(&steps) else { panic!("nothing is wrong with {steps:?}") };
            let dropped = drop_headers(&mut steps, first, &bad);
            let left = dropped.map(|_| steps.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(left.as_deref(), expected);
        };
        check(&["header \"bad\"", "header \"good\""], Some(&["header \"good\""]));
        check(&["header \"bad 1\"", "deny \"::/0\"", "header \"bad 2\""], Some(&["deny \"::/0\""]));
        check(&["deny \"bad\"", "header \"good\""], None);
        check(&["header \"bad\"", "allow \"bad\""], None);
    }
}
