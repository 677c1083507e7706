//! What becomes of a request in a block of nginx: `rewrite`, `if` and `return` in their order, and behind them what
//! answers. A request that is sent on within the server has the answer of the location that it comes to.

use super::answered::NOT_TOLD;
use super::asked::AskedVariable;
use super::conditions::{Asking, Question};
use super::draft::{AnswerKind, Draft, Step};
use super::expressions::is_everything;
use super::files::Beside;
use super::guards::Guarding;
use super::locations::{Location, Modifier};
use super::looser::looser;
use super::rewrites::Query;
use super::scope::{Levels, values_set};
use super::variables::{Moment, Values};
use super::{NginxReader, words};
use crate::accounts::Origin;
use crate::braces::{Statement, named};
use crate::outline::{AnswerLine, CLOSED, OutlinedAnswer};
use crate::sent_paths::sent;
use tidegate_kdl::quoted;

/// As often as a request is sent on within a server.
pub const DEPTH_MAX: usize = 4;
/// Blocks of one server are read so often, beside once for each step of a chain that begins in each of them and of its
/// `rewrite` lines.
pub const BLOCKS_MAX: usize = 1_000;
pub const ROUND: &str = "requests are sent on within the file too often";
const FIELD_OF_SENT: &str = "files that an application sends have the fields of its answer alone, so `send-file` is not written for \
                             them: have the application say `Content-Disposition`, and write that line";
const BEHIND_ANOTHER: &str = "it asks for the address of a client, which another proxy tells, and which proxies are trusted is not \
                              known here: write `trusted-proxies` and `client-ip-header` for the `listener`";
const FIRST_REFERER: &str = "of several lines of `Referer` the first counts there, and here any that is known lets a request in";
const TYPE_OF_ENDING: &str = "its text has the type of the path's ending there, as `text/html` for `/x.html`, and here one type for all \
                              paths: `content-type=` of `respond`";
const FILES_OF_LOCATIONS: &str = "a file that is there is for the locations of the server to give or to keep, and no route asks whether one is: \
                                  `try_files $uri $uri/ /index.php?$args;` in `location /` is carried";
const ASKED_BEHIND_LOCATIONS: &str = "it is asked for what no other location takes, and not for what one does";
const SENT_ON: &str = "where it is sent on to is not told";
const IN_ITS_BLOCK: &str = "its block says what no single route does";

/// The server that a block stands in.
pub struct ServerScope<'s> {
    pub inside: &'s [Statement],
    pub http: &'s [Statement],
    pub locations: Vec<Location<'s>>,
    pub server_name: Option<String>,
    pub server_port: Option<u16>,
    pub is_behind_another: bool,
    /// A condition that says what a site does without a word.
    pub skipped: Option<usize>,
}

/// Where in a server something is answered.
#[derive(Debug, Clone, Copy)]
pub struct Place<'l> {
    pub modifier: Modifier,
    pub path: &'l str,
    /// Which of the locations it is; none is the server itself. Blocks do not tell: two empty ones may be one slice.
    pub index: Option<usize>,
}

/// How a request came there.
#[derive(Debug, Clone, Default)]
pub struct Coming {
    /// What changed its path.
    pub changes: Vec<Step>,
    pub depth: usize,
    /// Whether it was sent on within the server, so that what is `internal` answers.
    pub is_within: bool,
    /// A path like those that come there then.
    pub sample: Option<String>,
}

impl Place<'_> {
    /// The server itself.
    pub const WHOLE: Place<'static> = Place { modifier: Modifier::Prefix, path: "/", index: None };
}

impl<'s> ServerScope<'s> {
    /// A location as a place.
    pub fn place<'l>(&self, location: &'l Location<'s>) -> Place<'l> {
        let index = self.locations.iter().position(|own| std::ptr::eq(own.statement, location.statement));
        Place { modifier: location.modifier, path: location.path, index }
    }

    /// Whether what runs scripts by their ending are the only locations.
    fn has_scripts_alone(&self) -> bool {
        self.locations.iter().all(|location| location.is_expression() && location.path.contains(".php"))
    }

    pub fn levels(&self) -> Levels<'s> {
        Levels::of(vec![self.inside, self.http])
    }

    pub fn values(&self, levels: &Levels<'s>) -> Values<'s> {
        Values {
            set: values_set(levels),
            server_name: self.server_name.clone(),
            server_port: self.server_port,
            document_root: levels.value("root").filter(|root| !root.contains('$')).map(str::to_owned),
            captures: Vec::new(),
        }
    }
}

impl Coming {
    pub fn changed(&self) -> bool {
        !self.changes.is_empty()
    }
}

impl<'s> NginxReader<'s> {
    /// The routes of a block, in the order in which the first that fits is taken.
    pub(super) fn routes(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let mut coming = coming.clone();
        let mut found = Vec::new();
        if let Some(limit) = named(levels.inner(), "limit_except").next() {
            found.extend(self.limited(scope, levels, limit, place, &coming)?);
        }
        let mut rules = Origin::default();
        if self.rules(scope, levels, place, &mut coming, &mut found, &mut rules)? {
            for draft in &mut found {
                draft.origin.add(&rules);
            }
            return Ok(found);
        }
        let mut drafts = self.content(scope, levels, place, &coming)?;
        for draft in &mut drafts {
            draft.origin.add(&rules);
            draft.steps.extend(coming.changes.clone());
        }
        found.extend(drafts);
        Ok(found)
    }

    /// Counts a block that is read; `Err` where requests are sent on too often.
    pub(super) fn count_block(&self, coming: &Coming) -> Result<(), String> {
        self.blocks_read.set(self.blocks_read.get() + 1);
        let blocks_max = BLOCKS_MAX + self.blocks_of_server.get() * (DEPTH_MAX + 2);
        if coming.depth > DEPTH_MAX || self.blocks_read.get() > blocks_max {
            self.has_gone_round.set(true);
            return Err(ROUND.to_owned());
        }
        Ok(())
    }

    /// `rewrite`, `if` and `return` of a block; whether nothing comes behind them.
    pub(super) fn rules(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &mut Coming,
        found: &mut Vec<Draft>,
        origin: &mut Origin,
    ) -> Result<bool, String> {
        // Of conditions that give no answer by themselves, the last that holds counts.
        let mut late: Vec<Vec<Draft>> = Vec::new();
        let mut is_end = false;
        let block = levels.inner();
        for (index, statement) in block.iter().enumerate().filter(|(_, own)| Some(own.start()) != scope.skipped) {
            let count = coming.changes.len();
            match statement.name() {
                "return" | "rewrite" => {
                    let drafts = match statement.name() {
                        "return" => self.returned(statement, scope, levels, place, coming).map(|draft| vec![draft]),
                        _ => self.rewrite(statement, scope, levels, coming, origin),
                    };
                    let is_of_server = std::ptr::eq(levels.inner(), scope.inside);
                    let drafts = drafts.or_else(|why| {
                        if is_of_server { Ok(vec![self.shut_before_locations(statement, &why)]) } else { Err(why) }
                    })?;
                    is_end = drafts.last().is_some_and(Draft::is_for_all);
                    found.extend(drafts);
                    // With `break` nothing behind it is asked of what it takes.
                    if coming.changes.len() > count && block[index + 1..].iter().any(is_rule) {
                        if is_everything(statement.argument()) {
                            break;
                        }
                        let mut drafts = self.content(scope, levels, place, coming)?;
                        for draft in &mut drafts {
                            draft.paths.push(sent(statement.argument()));
                            draft.steps.extend(coming.changes.clone());
                        }
                        found.extend(drafts);
                        coming.changes.truncate(count);
                    }
                }
                "if" => match self.conditional(statement, scope, levels, place, coming) {
                    Ok(Conditional::End(drafts)) => {
                        is_end = drafts.last().is_some_and(Draft::is_for_all);
                        found.extend(drafts);
                    }
                    Ok(Conditional::Late(drafts)) => late.push(drafts),
                    Err(why) => self.explain(statement.start(), why),
                },
                "break" => {
                    origin.carry(statement.start());
                    break;
                }
                _ => {}
            }
            if is_end {
                break;
            }
        }
        found.extend(late.into_iter().rev().flatten());
        Ok(is_end)
    }

    /// What a line of the server takes, which has another answer there than any location has, and one that is not told.
    fn shut_before_locations(&self, statement: &Statement, why: &str) -> Draft {
        self.explain(statement.start(), why);
        let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(403));
        let pattern = if statement.name() == "rewrite" { statement.argument() } else { "^" };
        if is_everything(pattern) {
            draft.origin.differ(statement.start(), NOT_TOLD);
        } else {
            draft.paths = vec![sent(&looser(pattern))];
            draft.origin.within.insert(statement.start());
            draft.closed = Some(SENT_ON);
        }
        draft
    }

    /// What is answered to other methods than those of a `limit_except`.
    fn limited(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        limit: &'s Statement,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let mut methods: Vec<&str> = limit.arguments().iter().map(String::as_str).collect();
        if methods.contains(&"GET") && !methods.contains(&"HEAD") {
            methods.push("HEAD");
        }
        let levels = levels.within_condition(limit.inside());
        let mut drafts = self.content(scope, &levels, place, coming)?;
        for draft in &mut drafts {
            draft.conditions.insert(0, format!("not method={}", quoted(&methods.join(","))));
            draft.steps.extend(coming.changes.clone());
            // The block of the statement is none by itself.
            let of_block = words::places(limit.inside());
            draft.origin.carried.retain(|at| !of_block.contains(at));
            draft.origin.within.retain(|at| !of_block.contains(at));
            draft.origin.carry(limit.start());
        }
        Ok(drafts)
    }

    fn returned(
        &self,
        statement: &'s Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Draft, String> {
        let values = scope.values(levels);
        let (status, text) = match statement.arguments() {
            [to] if to.parse::<u16>().is_err() => (302, Some(to)),
            [status] => (status.parse().map_err(|_| "it has no status".to_owned())?, None),
            [status, text, ..] => (status.parse().map_err(|_| "it has no status".to_owned())?, Some(text)),
            [] => return Err("it says nothing".to_owned()),
        };
        let mut used = Vec::new();
        let mut steps = Vec::new();
        let answer = match (status, text) {
            (301 | 302 | 303 | 307 | 308, Some(to)) => {
                let expression = location_expression(place);
                let sent = self.sent_to(to, expression.as_deref(), Query::AsWritten, &values, &mut used)?;
                steps.extend(sent.steps);
                OutlinedAnswer::Redirect { to: sent.to, status }
            }
            // What closes the connection there is refused here.
            (444, _) => OutlinedAnswer::status(403),
            (200..=299 | 304..=306 | 309..=599, text) => {
                let body = text.filter(|text| !text.is_empty());
                let body = match body {
                    Some(text) => Some(
                        values
                            .template(text, Moment::Request, &self.tables, &mut used)
                            .ok_or_else(|| format!("nothing here has what the text of `return {status}` names"))?,
                    ),
                    None => None,
                };
                let kind = body.as_ref().and_then(|_| super::settings::media_type(levels));
                match (body, kind) {
                    (Some(body), Some(kind)) => OutlinedAnswer::Lines(vec![AnswerLine::Text(format!(
                        "respond {status} body={} content-type={}",
                        quoted(&body),
                        quoted(&kind)
                    ))]),
                    (body, _) => OutlinedAnswer::Respond { status, body },
                }
            }
            _ => return Err(format!("`return {status}` is no answer here")),
        };
        // What names the path means the one that it has become.
        if !steps.is_empty() || names_path(&answer) {
            steps.splice(0..0, coming.changes.clone());
        }
        let mut draft = Draft::of(AnswerKind::Local, answer);
        draft.steps = steps;
        draft.origin.carry(statement.start());
        draft.origin.carry_all(used);
        if status == 444 {
            draft.origin.differ(statement.start(), CLOSED);
        }
        let is_body = text.is_some() && !matches!(status, 301 | 302 | 303 | 307 | 308);
        if is_body && !has_one_type(place, levels) {
            draft.origin.differ(statement.start(), TYPE_OF_ENDING);
        }
        let kind = levels.one("default_type").filter(|_| text.is_some());
        draft.origin.carry_all(kind.map(Statement::start));
        self.say_more(&mut draft, scope, levels);
        Ok(draft)
    }

    pub(super) fn content_of_server(&self, scope: &ServerScope<'s>, coming: &Coming) -> Result<Vec<Draft>, String> {
        let mut drafts = self.content(scope, &scope.levels(), Place::WHOLE, coming)?;
        for draft in &mut drafts {
            draft.steps.extend(coming.changes.clone());
        }
        Ok(drafts)
    }

    /// The routes of a location, with what it says claimed.
    pub(super) fn of_location(
        &self,
        scope: &ServerScope<'s>,
        location: &Location<'s>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        self.count_block(coming)?;
        let levels = location.levels(scope.inside, scope.http);
        let internal = named(location.statement.inside(), "internal").next();
        let place = scope.place(location);
        let mut drafts = match internal.filter(|_| !coming.is_within) {
            Some(_) => {
                let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(404));
                self.say_more(&mut draft, scope, &scope.levels());
                for own in location.statement.inside().iter().filter(|own| words::says_how_it_is_kept(own)) {
                    self.explain(own.start(), FIELD_OF_SENT);
                }
                vec![draft]
            }
            None => self.routes(scope, &levels, place, coming)?,
        };
        // What one of them says, none of the others has to.
        let mut all = Origin::default();
        for draft in &drafts {
            all.carry_all(draft.origin.carried.iter().copied());
            all.differs.extend(draft.origin.differs.clone());
        }
        for draft in &mut drafts {
            draft.origin.add(&all);
        }
        let nested: Vec<usize> =
            named(location.statement.inside(), "location").flat_map(|inner| words::places([inner])).collect();
        let mut own = words::places([location.statement]);
        own.retain(|at| !nested.contains(at));
        for draft in &mut drafts {
            draft.origin.within.extend(&own);
            draft.origin.carry(location.statement.start());
            draft.origin.carry_all(internal.map(Statement::start));
        }
        Ok(drafts)
    }

    fn conditional(
        &self,
        statement: &'s Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Conditional, String> {
        let values = scope.values(levels);
        let inside = statement.inside();
        let within = levels.within_condition(inside);
        let asking = Asking { tables: &self.tables, values: &values, levels: &within };
        let (question, otherwise) = asking.question_and_how(statement)?;
        let is_said = |inner: &Statement| !matches!(inner.name(), "set" | "break");
        if !inside.iter().any(is_said) {
            return if inside.iter().any(|inner| inner.name() == "set") {
                self.explain(statement.start(), "the variable that it sets is asked for by nothing that is carried");
                Ok(Conditional::Late(Vec::new()))
            } else {
                Err(IN_ITS_BLOCK.to_owned())
            };
        }
        let asked = match question {
            Question::AskedVariable(asked) => asked,
            Question::Always | Question::Never => return Err("it holds always or never".to_owned()),
            Question::File { is_there: false, kind } => {
                return self.missing_of_block(statement, kind, scope, levels, place, coming).map(Conditional::End);
            }
            Question::File { is_there: true, .. } => {
                return Err("no route asks whether a file is there: `files … else=\"next\"` answers with one that is".to_owned());
            }
        };
        let all = [asked.conditions.as_slice(), asked.alternatives.as_slice()].concat();
        if scope.is_behind_another && self.tables.ask_for_address(&all) {
            return Err(BEHIND_ANOTHER.to_owned());
        }
        let coming = Coming { depth: coming.depth + 1, ..coming.clone() };
        self.count_block(&coming)?;
        let is_end = inside.iter().any(|inner| match inner.name() {
            "return" | "break" => true,
            "rewrite" => is_everything(inner.argument()) || inner.arguments().get(2).is_none_or(|flag| flag != "break"),
            _ => false,
        });
        let mut drafts = self.with_captures(&asked, || self.routes(scope, &within, place, &coming))?;
        if is_end && !drafts.last().is_some_and(Draft::is_for_all) && drafts.len() > 1 {
            // Behind a `rewrite` that did not fit, the block around goes on.
            drafts.retain(|draft| !draft.is_for_all());
        }
        let of_block = words::places(inside);
        for draft in &mut drafts {
            draft.paths.splice(0..0, asked.paths.clone());
            draft.conditions.splice(0..0, asked.conditions.clone());
            if !asked.alternatives.is_empty() {
                if !draft.alternatives.is_empty() {
                    return Err("its conditions are too many for one route".to_owned());
                }
                draft.alternatives.clone_from(&asked.alternatives);
            }
            // The block of the statement is none by itself.
            draft.origin.carried.retain(|at| !of_block.contains(at));
            let differs: Vec<String> =
                draft.origin.differs.iter().filter(|(at, _)| of_block.contains(at)).map(|(_, how)| how.clone()).collect();
            draft.origin.differs.retain(|at, _| !of_block.contains(at));
            draft.origin.within.retain(|at| !of_block.contains(at));
            match otherwise.map(str::to_owned).or_else(|| differs.into_iter().next()) {
                Some(how) => draft.origin.differ(statement.start(), how),
                None => draft.origin.carry(statement.start()),
            }
            named(levels.inner(), "valid_referers").for_each(|own| draft.origin.differ(own.start(), FIRST_REFERER));
        }
        Ok(if is_end { Conditional::End(drafts) } else { Conditional::Late(drafts) })
    }

    /// Routes whose texts may name groups of a condition.
    fn with_captures<T>(&self, asked: &AskedVariable, make: impl FnOnce() -> T) -> T {
        let count = self.tables.captured.borrow().len();
        self.tables.captured.borrow_mut().extend(asked.captures.clone());
        let made = make();
        self.tables.captured.borrow_mut().truncate(count);
        made
    }

    /// What a block says of files that are not there, unless those that are there are for locations.
    fn missing_of_block(
        &self,
        statement: &'s Statement,
        kind: char,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        if place.index.is_none() && !scope.has_scripts_alone() {
            return Err(FILES_OF_LOCATIONS.to_owned());
        }
        self.missing_file(statement, kind, scope, levels, place, coming)
    }

    /// What the server says of files that are not there, in the block that has what no other location takes.
    pub(super) fn missing_of_server(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Option<Vec<Draft>> {
        if place.path != "/" || place.modifier == Modifier::Exact || scope.has_scripts_alone() || coming.changed() {
            return None;
        }
        let kind_of = |own: &Statement| match own.arguments() {
            [asked, name] if name == "$request_filename)" => asked.strip_prefix("(!-")?.chars().next(),
            _ => None,
        };
        let (own, kind) = named(scope.inside, "if")
            .filter(|own| super::answers::script_rewritten_to(own).is_some())
            .find_map(|own| Some((own, kind_of(own)?)))?;
        let mut drafts = self.missing_file(own, kind, scope, levels, place, coming).ok()?;
        for draft in &mut drafts {
            draft.origin.carried.remove(&own.start());
            draft.origin.differ(own.start(), ASKED_BEHIND_LOCATIONS);
        }
        Some(drafts)
    }

    /// `if (!-e $request_filename) { rewrite … last; }`: files, and where there is none what the block says.
    fn missing_file(
        &self,
        statement: &'s Statement,
        kind: char,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let within = levels.within_condition(statement.inside());
        let beside = Beside { files: true, folders: kind != 'f' };
        let tried: &[&str] = if kind == 'f' { &["{path}"] } else { &["{path}", "{path}/"] };
        let script = super::answers::script_rewritten_to(statement);
        if let Some(mut draft) = script.and_then(|script| self.scripts_behind(scope, (levels, place), script, beside)) {
            draft.origin.carry(statement.start());
            return Ok(vec![draft]);
        }
        let mut files =
            self.files(scope, levels, place, coming, &super::files::Tried { paths: tried, goes_on: true, fallback: None })?;
        files.origin.carry(statement.start());
        let coming = Coming { depth: coming.depth + 1, ..coming.clone() };
        let mut drafts = vec![files];
        drafts.extend(self.routes(scope, &within, place, &coming)?);
        let of_block = words::places(statement.inside());
        for draft in &mut drafts {
            draft.origin.carried.retain(|at| !of_block.contains(at));
            draft.origin.within.retain(|at| !of_block.contains(at));
            draft.origin.differs.retain(|at, _| !of_block.contains(at));
            draft.origin.carry(statement.start());
        }
        Ok(drafts)
    }

    /// Adds to a route what its block says beside the answer.
    pub(super) fn say_more(&self, draft: &mut Draft, scope: &ServerScope<'s>, levels: &Levels<'s>) {
        let mut values = scope.values(levels);
        let mut origin = Origin::default();
        if draft.kind != AnswerKind::Local {
            let guarding = Guarding {
                tables: &self.tables,
                zones: &self.zones,
                groups: &self.groups,
                locations: &scope.locations,
                levels,
                values: &values.clone(),
                is_behind_another: scope.is_behind_another,
            };
            let steps = guarding.steps(&mut values, &mut origin);
            draft.steps.extend(steps);
        }
        let fields = super::fields::Fields { tables: &self.tables, levels, values: &values };
        if let (AnswerKind::Proxy, Some((pass, host))) = (draft.kind, self.pass_of(scope, levels)) {
            draft.steps.extend(fields.of_requests(pass, host.as_deref(), &mut origin));
        }
        draft.steps.extend(fields.of_answers(draft.kind, &mut origin));
        let settings = super::settings::Settings {
            tables: &self.tables,
            groups: &self.groups,
            locations: &scope.locations,
            server: scope.inside,
            http: scope.http,
            levels,
            values: &values,
            caches: &self.caches,
            merging: &self.merging,
        };
        draft.steps.extend(settings.steps(draft.kind, &mut origin));
        draft.origin.add(&origin);
        draft.origin.carry_all(values.set.iter().map(|(_, _, at)| *at));
    }
}

/// The routes of an `if`.
enum Conditional {
    /// Nothing behind them is looked at where it holds.
    End(Vec<Draft>),
    Late(Vec<Draft>),
}

fn is_rule(statement: &Statement) -> bool {
    matches!(statement.name(), "return" | "rewrite" | "if")
}

/// Whether a text of an answer depends on the path as it is then.
fn names_path(answer: &OutlinedAnswer) -> bool {
    let names = |text: &str| ["{path", "{uri", "{query"].iter().any(|name| text.contains(name));
    match answer {
        OutlinedAnswer::Redirect { to: text, .. } | OutlinedAnswer::Respond { body: Some(text), .. } => names(text),
        OutlinedAnswer::Lines(lines) => lines.iter().any(|line| names(line.text())),
        OutlinedAnswer::Respond { body: None, .. }
        | OutlinedAnswer::Proxy { .. }
        | OutlinedAnswer::Files { .. }
        | OutlinedAnswer::Scripts { .. }
        | OutlinedAnswer::Split { .. }
        | OutlinedAnswer::Within { .. } => false,
    }
}

/// The expression whose groups texts of a location may name.
pub fn location_expression(place: Place<'_>) -> Option<String> {
    match place.modifier {
        Modifier::Sensitive => Some(place.path.to_owned()),
        Modifier::Insensitive => Some(format!("(?i){}", place.path)),
        Modifier::Exact | Modifier::Before | Modifier::Prefix | Modifier::Named => None,
    }
}

/// Whether a text has the same type by whatever path of the block it is asked for.
fn has_one_type(place: Place<'_>, levels: &Levels<'_>) -> bool {
    let last = place.path.rsplit('/').next().unwrap_or_default();
    let is_of_one_path = place.modifier == Modifier::Exact && last.split_once('.').is_none_or(|(_, ending)| ending == "txt");
    is_of_one_path || levels.one("types").is_some_and(|types| types.inside().is_empty())
}
