//! What a file of HAProxy asks for: its frontends with the backends that they use, as sites and ports, in the mode that
//! each section has of its own or from `defaults`.

mod actions;
mod chains;
mod changed;
mod checks;
mod compared_names;
mod conditions;
mod doors;
pub mod durations;
mod fetches;
mod lexer;
mod logins;
mod modes;
mod query_maps;
mod reasons;
mod rules;
mod samples;
mod servers;
mod settings;
mod sites;
mod tcp;
mod templates;
mod words;

pub use lexer::fault;
pub use reasons::{remedy, why_same};

use super::accounts::{StatementKind, Weight};
use super::outline::{Door, Outline, OutlinedTcp, Service, TO_HTTPS, opens_no_http, tcp_address};
use lexer::{Section, Sections};
use servers::group;
use std::collections::BTreeSet;

const NO_SECTION: &str = "it has no frontend with servers behind it, and no backend with servers";
const IN_ONE_FORM: &str = "paths are brought into one form before any rule looks at them (`/%61dmin`, `//admin` and `/x/../admin` are `/admin`), \
                           where HAProxy compares what was sent unless `normalize-uri` says otherwise";
const NO_DOOR: &str = "it listens on a socket or on what variables say, and not on a port that is told";
pub fn outline(text: &str) -> Outline {
    let mut sections = lexer::sections(text);
    modes::settle(&mut sections);
    let mut outline = Outline { statements: words::statements(&sections), ..Outline::default() };
    let binds = sections.all.iter().flat_map(|section| section.lines_of("bind")).flat_map(doors::doors);
    outline.opens_no_http = opens_no_http(&binds.map(|(door, _)| door).collect::<Vec<_>>());
    let mut kept = BTreeSet::new();
    for section in sections.all.iter().filter(|section| matches!(section.kind.as_str(), "frontend" | "listen")) {
        kept.extend(front(section, &sections, &mut outline));
    }
    if outline.services.is_empty() && outline.without.is_none_or(|why| why == TO_HTTPS) {
        backends(&sections, &mut outline);
    }
    weigh_choices(&sections, &kept, &mut outline);
    unused(&sections, &mut outline);
    settings::of_process(&sections, &mut outline);
    query_maps::settle(&mut outline);
    if asks_for_paths(&sections) {
        outline.remarks.push(IN_ONE_FORM.to_owned());
    }
    reasons::of_statements(&sections, &mut outline);
    outline.or_without(NO_SECTION)
}

/// Whether a rule or a named condition looks at paths.
fn asks_for_paths(sections: &Sections) -> bool {
    let is_of_path = |word: &String| {
        let fetch = word.trim_start_matches('!').split(['_', ',', '(']).next().unwrap_or_default();
        matches!(fetch, "path" | "url" | "uri" | "base" | "pathq")
    };
    let asks = |line: &lexer::HaProxyLine| {
        let is_rule = matches!(line.word(0), "acl" | "http-request" | "use_backend" | "redirect" | "tcp-request");
        is_rule && line.words.iter().skip(1).any(is_of_path)
    };
    sections.all.iter().any(|section| section.lines.iter().any(asks))
}

/// A choice of a backend that keeps clients out does so itself: without it they come to another one, unasked. What is
/// kept is refused in its place.
fn weigh_choices(sections: &Sections, kept: &BTreeSet<usize>, outline: &mut Outline) {
    let keeps_out = StatementKind::Needed(Weight::Protection);
    let protections: BTreeSet<usize> =
        outline.statements.iter().filter(|statement| statement.kind == keeps_out).map(|statement| statement.at).collect();
    let is_closed = |section: &Section| !section.places().is_disjoint(&protections) || !sites::has_servers(section);
    let chosen = |name: &str, section: &Section| {
        section.kind == "backend" && (section.name == name || name.contains("%[")) && is_closed(section)
    };
    let choices: BTreeSet<usize> = sections
        .all
        .iter()
        .flat_map(|section| section.lines_of("use_backend"))
        .filter(|line| sections.all.iter().any(|section| chosen(line.word(1), section)))
        .map(lexer::HaProxyLine::start)
        .collect();
    for statement in
        outline.statements.iter_mut().filter(|statement| choices.contains(&statement.at) && !kept.contains(&statement.at))
    {
        statement.kind = keeps_out;
    }
}

/// Backends alone, which nothing in the file uses.
fn backends(sections: &Sections, outline: &mut Outline) {
    // Where a file says what it opens, no other port is opened.
    let opens = sections.all.iter().any(|section| matches!(section.kind.as_str(), "frontend" | "listen"));
    for backend in sections.all.iter().filter(|section| section.kind == "backend") {
        let group = group(backend, None);
        let port = group.servers.first().and_then(|server| server.address.rsplit(':').next()?.parse::<u16>().ok());
        match port {
            _ if group.is_empty() => {}
            Some(_) if backend.speaks_tcp() && opens => {}
            Some(port) if backend.speaks_tcp() => {
                let address = tcp_address(None, port);
                let tcp = OutlinedTcp { address, otherwise: Some(group), is_guessed: true, ..OutlinedTcp::default() };
                outline.services.push(Service::Tcp(tcp));
            }
            Some(_) | None => outline.groups.push(group),
        }
    }
}

/// Backends that no line which is told leads to.
fn unused(sections: &Sections, outline: &mut Outline) {
    let told: BTreeSet<usize> = outline.services.iter().flat_map(|service| service.whole_origin().carried).collect();
    let known: BTreeSet<String> = outline.groups.iter().map(|group| group.name.clone()).collect();
    let with_servers = sections.all.iter().filter(|section| matches!(section.kind.as_str(), "backend" | "listen"));
    for section in with_servers.filter(|section| !known.contains(&section.name)) {
        let group = group(section, None);
        let is_told = section.lines.iter().any(|line| line.word(0).starts_with("server") && told.contains(&line.start()));
        if !group.is_empty() && !is_told {
            outline.unused.push(group);
        }
    }
}

fn front(section: &Section, sections: &Sections, outline: &mut Outline) -> BTreeSet<usize> {
    let doors: Vec<(Door, usize)> = section.lines_of("bind").flat_map(doors::doors).collect();
    if doors.is_empty() && doors::sockets(section).is_empty() {
        outline.without.get_or_insert(NO_DOOR);
        return BTreeSet::new();
    }
    let port = doors.first().map(|(door, _)| door.port);
    if section.speaks_tcp() {
        let own = Some(group(section, port)).filter(|group| !group.is_empty());
        tcp::tell(section, sections, &doors, own.as_ref(), outline);
        BTreeSet::new()
    } else {
        sites::FrontedSite::of(section, sections, port).tell(&doors, outline)
    }
}

#[cfg(test)]
mod tests {
    use super::{fault, outline};

    /// Whatever stands in a file, it is read to some end.
    #[test]
    fn no_text_makes_it_panic() {
        let heads = [
            "",
            "global\n",
            "frontend a\n bind :80\n use_backend b if ",
            "listen a\n bind :80\n http-request ",
            "backend a\n server b 10.0.0.4:80 ",
            "frontend a\n bind :80\n acl c ",
        ];
        bolero::check!().with_type::<String>().for_each(|text: &String| {
            for head in heads {
                let text = format!("{head}{text}");
                fault(&text);
                let outline = outline(&text);
                assert!(outline.statements.iter().all(|statement| statement.at < text.len()), "places are in the text");
            }
        });
    }
}
