//! `route "/api/*" { … }`: which requests it takes, and what is done with them.

use crate::diagnostics::{Diagnostic, Location, shortened};
use crate::directives::matching;
use crate::directives::nested_route::{self, Steps};
use crate::directives::origin::{self, ORIGIN};
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::patterns;
use crate::table::{Argument, Block, Kind, Place, Property, Repeat};
use std::sync::Arc;
use tidegate_model::{AccessRule, MatchLine, Origin, PathPattern, Route, RouteOptions, Step, Template, Terminal};

pub static ROUTE: Directive = Directive {
    name: "route",
    places: &[Place::Site, Place::Route],
    repeat: Repeat::Many,
    arguments: &[Argument::any(
        "patterns",
        Kind::Text("a path pattern, as in `\"/api/*\"`"),
        "Any of these. `/a` is that path exactly; `/a/*` is `/a` and everything below; `/a*` is whatever begins so, `/ab` too; `~^/v[0-9]+/` is a regular expression, `~(?i)^/a` one that takes large and small letters. \
                  None matches every path.",
    )],
    properties: &[Property::once(
        "name",
        Kind::Text("a name, as in `\"cart\"`"),
        "What its requests are called in metrics and in the access log; routes of one name in a site are counted together. Letters, digits, `_`, `-`, `.` and `/`.",
    )],
    block: Block::Required(Place::Route),
    summary: "Takes the requests that match, and says what is done with them.",
    details: "File order wins: the first route that matches is taken, and no other is looked at. A route that can never be reached is a \
              warning. Patterns are compared with the decoded and normalised path.\n\n\
              Steps run in phases, wherever they stand: `cors` answers preflights; `allow` and `deny`; limits by client, and `csrf`; `client-auth`, `basic-auth` and `jwt`; limits by who has logged in; then all others. In each phase \
              they run in the order written, those of the site first, up to the terminal step, which answers: `proxy`, `files`, `fastcgi`, `respond` or `redirect`. `deny \"all\"` is an end by itself. \
              `check` says where a step runs before one that is written in front of it, and `explain` lists them as they run.\n\n\
              A `route` within a route takes what both of them match, is done with what both of them say, the outer steps first, and stands in front of the outer one's own end. Its patterns lie below those of the \
              outer one, or there are none: so a file of another team (`route \"/shop/*\" { include \"shop.kdl\"; }`) decides nothing outside of its prefix.",
    example: "route \"/api/*\" \"~^/v[0-9]+/\" {\n    match method=\"GET,POST\"\n    strip-prefix \"/api\"\n    proxy \"10.0.0.4:8080\"\n}",
    ..Directive::PLAIN
};

/// A route while its lines are read.
#[derive(Debug)]
pub struct RouteDraft {
    name: Option<String>,
    pub origin: Option<Arc<Origin>>,
    pub paths: Vec<(PathPattern, Location)>,
    pub matches: Vec<MatchLine>,
    pub options: RouteOptions,
    pub steps: Vec<(Step, Location)>,
    terminal: Option<Terminal>,
    terminal_at: Option<Location>,
    pub location: Location,
    /// Some pattern or condition could not be read, so what the route matches is not known.
    pub faulty: bool,
}

impl RouteDraft {
    fn new(location: Location) -> RouteDraft {
        RouteDraft {
            name: None,
            origin: None,
            paths: Vec::new(),
            matches: Vec::new(),
            options: RouteOptions::default(),
            steps: Vec::new(),
            terminal: None,
            terminal_at: None,
            location,
            faulty: false,
        }
    }

    /// Where the route sends its clients, when it does nothing else.
    pub fn redirect(&self) -> Option<(&Template, &Location)> {
        match (&self.terminal, &self.terminal_at) {
            (Some(Terminal::Redirect { to, prefix: None, .. }), Some(at)) => Some((to, at)),
            _ => None,
        }
    }

    /// A terminal step that stands directly in a site.
    pub fn of_site(terminal: Option<Terminal>, location: Location) -> RouteDraft {
        RouteDraft { terminal, terminal_at: Some(location.clone()), ..RouteDraft::new(location) }
    }

    /// A route of its own for a `files` that leaves requests to those behind it, with what was written so far.
    pub fn take_files_that_go_on(&mut self) -> Option<RouteDraft> {
        match &self.terminal {
            Some(Terminal::Files(files)) if files.goes_on => {}
            Some(_) | None => return None,
        }
        let location = self.terminal_at.take().unwrap_or_else(|| self.location.clone());
        let terminal_at = Some(location.clone());
        Some(RouteDraft { terminal: self.terminal.take(), terminal_at, steps: self.steps.clone(), ..RouteDraft::new(location) })
    }

    /// Who denies all has answered.
    pub fn end_by_denial(&mut self) {
        let at = self.steps.iter().find(|(step, _)| denies_all(step)).map(|(_, at)| at.clone());
        if at.is_some() {
            self.terminal = Some(Terminal::Respond { status: 403, body: Template::literal(""), content_type: None });
            self.terminal_at = at;
        }
    }

    /// Whether its requests go to an upstream.
    pub fn asks_others(&self) -> bool {
        match &self.terminal {
            Some(Terminal::Proxy { .. } | Terminal::Split(_) | Terminal::FastCgi(_)) => true,
            Some(Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_)) | None => false,
        }
    }

    /// Whether it takes only requests for which it has a file.
    pub fn goes_on(&self) -> bool {
        matches!(&self.terminal, Some(Terminal::Files(files)) if files.goes_on)
    }

    /// `None` when a fault kept it from being complete.
    pub fn finish(self) -> Option<Route> {
        let RouteDraft { name, origin, paths, matches, options, steps, terminal, faulty, .. } = self;
        let terminal = terminal.filter(|_| !faulty)?;
        let paths = paths.into_iter().map(|(path, _)| path).collect();
        let steps = without_places(steps);
        Some(Route { name, origin, paths, matches, options, steps, terminal })
    }
}

/// Whether it is `deny "all"`.
pub fn denies_all(step: &Step) -> bool {
    let Step::Deny(AccessRule { networks, .. }) = step else { return false };
    let has_all = |is_v4: bool| networks.iter().any(|network| network.prefix_len() == 0 && network.addr().is_ipv4() == is_v4);
    has_all(true) && has_all(false)
}

/// Steps without the places where they were written.
pub fn without_places(steps: Vec<(Step, Location)>) -> Vec<Step> {
    steps.into_iter().map(|(step, _)| step).collect()
}

/// The routes that a block makes: those within it, each as if it stood in the site, and behind them its own.
pub fn read(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Vec<RouteDraft> {
    let mut draft = RouteDraft::new(line.location());
    draft.name = read_name(lowering, line);
    for value in line.arguments() {
        match patterns::read_path_pattern(lowering, value, "a `route`") {
            Some(pattern) => draft.paths.push((pattern, value.location.clone())),
            None => draft.faulty = true,
        }
    }
    let lines = line.lines(lowering);
    let all_understood = lines.len() == line.children().len();
    let mut within = Vec::new();
    for child in &lines {
        if child.directive.name == ROUTE.name {
            within.extend(read(lowering, child).into_iter().map(|route| (route, Steps::BehindTheOuter)));
            continue;
        }
        lower_child(lowering, &mut draft, child);
        within.extend(draft.take_files_that_go_on().map(|route| (route, Steps::Complete)));
    }
    warn_of_idle_steps(lowering, &draft, &lines);
    warn_of_rewrites(lowering, &draft);
    if draft.terminal_at.is_none() && within.is_empty() && line.node.children.is_some() && all_understood {
        draft.end_by_denial();
        if draft.terminal_at.is_none() {
            let diagnostic = Diagnostic::error("nothing-answers", line.location(), "nothing answers in this route")
                .help("add `proxy`, `respond` or `redirect`");
            lowering.report(diagnostic);
        }
    }
    let has_own_end = draft.terminal_at.is_some() || within.is_empty();
    let mut routes: Vec<RouteDraft> =
        within.into_iter().map(|(route, steps)| nested_route::join(lowering, &draft, route, steps)).collect();
    routes.extend(has_own_end.then_some(draft));
    routes
}

fn read_name(lowering: &mut Lowering<'_>, line: &Line<'_>) -> Option<String> {
    let name = line.text(lowering, "name")?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if name.value.is_empty() || name.value.len() > Route::NAME_BYTES_MAX || !name.value.chars().all(is_part) {
        let message = format!("`{}` cannot be the name of a route", shortened(&name.value));
        let most = Route::NAME_BYTES_MAX;
        let help = format!("a name has letters, digits, `_`, `-`, `.` and `/`, and at most {most} of them");
        lowering.report(name.error("bad-name", message).help(help));
        return None;
    }
    Some(name.value)
}

/// An application beneath a prefix that a `rewrite` has taken off: that is not undone in its answers.
fn warn_of_rewrites(lowering: &mut Lowering<'_>, draft: &RouteDraft) {
    let rewrites_location = match &draft.terminal {
        Some(Terminal::Proxy { rewrites_location, .. }) => *rewrites_location,
        Some(Terminal::Split(split)) => split.rewrites_location(),
        Some(Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) | Terminal::FastCgi(_)) | None => false,
    };
    let is_mounted = draft.steps.iter().any(|(step, _)| matches!(step, Step::StripPrefix(_) | Step::AddPrefix(_)));
    let rewrite = draft.steps.iter().find(|(step, _)| matches!(step, Step::Rewrite { .. }));
    if let (Some((_, at)), true, false) = (rewrite, rewrites_location, is_mounted) {
        let message = "`rewrite-location` does not undo this: what a `rewrite` makes of one path says nothing about others";
        let diagnostic = Diagnostic::warning("rewrite-not-undone", at.clone(), message);
        lowering.report(diagnostic.help("take the prefix off with `strip-prefix`, as in `strip-prefix \"/app\"`"));
    }
}

/// What happens on the way to an upstream, in a route none of whose requests go to one.
fn warn_of_idle_steps(lowering: &mut Lowering<'_>, draft: &RouteDraft, lines: &[Line<'_>]) {
    match &draft.terminal {
        None | Some(Terminal::Proxy { .. } | Terminal::Split(_)) => return,
        Some(Terminal::Respond { .. } | Terminal::Redirect { .. } | Terminal::Files(_) | Terminal::FastCgi(_)) => {}
    }
    let is_idle = |line: &&Line<'_>| match line.directive.name {
        "mirror" => true,
        "send-file" | "rewrite-location" | "rewrite-cookie-path" | "rewrite-cookie-domain" => {
            !matches!(draft.terminal, Some(Terminal::FastCgi(_)))
        }
        "timeout" => match draft.terminal {
            Some(Terminal::FastCgi(_)) => false,
            Some(Terminal::Files(_)) => line.property("total").is_none(),
            _ => true,
        },
        _ => false,
    };
    for line in lines.iter().filter(is_idle) {
        let message = format!("`{}` does nothing here: no request of this route goes to an upstream", line.directive.name);
        lowering.report(Diagnostic::warning("without-effect", line.location(), message).help("remove it"));
    }
}

fn lower_child(lowering: &mut Lowering<'_>, draft: &mut RouteDraft, line: &Line<'_>) {
    match line.directive.lower {
        Lower::Step(lower) => {
            let step = line.lower_step(lowering, lower);
            draft.steps.extend(step.map(|step| (step, line.location())));
        }
        Lower::Option(lower) => lower(lowering, &mut draft.options, line),
        Lower::Terminal(lower) => {
            let terminal = lower(lowering, line);
            match &draft.terminal_at {
                Some(first) => lowering.report(second_terminal(line, first.clone())),
                None => {
                    draft.terminal = terminal;
                    draft.terminal_at = Some(line.location());
                }
            }
        }
        Lower::Inside if line.directive.name == ORIGIN.name => draft.origin = origin::read(lowering, line),
        // A `route` was read before.
        Lower::Inside => {
            let read = matching::read_line(lowering, line);
            draft.faulty |= read.is_none();
            draft.matches.extend(read);
        }
        Lower::Reading => {}
        Lower::Top(_) | Lower::Pool(_) | Lower::Limits(_) => unreachable!("the table has no such directive in a route"),
    }
    if let (Lower::Step(_) | Lower::Option(_), Some(terminal_at)) = (line.directive.lower, &draft.terminal_at) {
        let message = format!("`{}` is never run", line.directive.name);
        let diagnostic = Diagnostic::warning("unreachable-step", line.location(), message)
            .label(terminal_at.clone(), "this has answered before")
            .help(format!("move `{}` in front of it", line.directive.name));
        lowering.report(diagnostic);
    }
}

/// A second step that answers, where only one can.
pub fn second_terminal(line: &Line<'_>, first: Location) -> Diagnostic {
    Diagnostic::error("second-terminal", line.location(), "only one step can answer, and this is the second")
        .label(first, "this one answers")
        .help("remove one of them, or put each into a `route` of its own")
}
