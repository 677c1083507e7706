//! Files and scripts of a folder: `root`, `alias`, `index`, `try_files` in all its usual forms, and `fastcgi_pass`.

use super::answers::{is_of_scripts, is_script};
use super::draft::{AnswerKind, Draft, Family, Step};
use super::expressions::with_groups;
use super::index_guards::{NO_INDEX, NO_NAME, takes_folders, without_index};
use super::locations::{Location, Modifier, find};
use super::routes::{Coming, Place, ServerScope, location_expression};
use super::scope::Levels;
use super::settings::is_fixed;
use super::variables::{Moment, Values};
use super::{NginxReader, words};
use crate::accounts::Origin;
use crate::braces::{Statement, named, value};
use crate::outline::{AnswerLine, OutlinedAnswer, ServerGroup, upstream};
use crate::sent_paths::sent;
use tidegate_kdl::quoted;
use tidegate_model::expression;

/// Where the packages of nginx have its files, when nothing else is said.
const FOLDER_OF_PACKAGES: &str = "/usr/share/nginx/html";
const NO_ROOT: &str = "no `root` is said there, so this is the folder of nginx's packages";
const PAGE_OF_FOLDER: &str =
    "a folder answers with its script, and one that has none goes to `fallback=`: no page of HTML is looked for there";
const TWO_GUARDS: &str = "who comes in is asked there in one way, and where it leads to in another: one route has one of each";
const NO_SLASH: &str = "nginx finds nothing by a page without a slash in front, and answers 404: `fallback=\"/index.html\"` of `files` is what \
                        was meant";
const NO_SCRIPTS: &str = "no location runs the script that it ends with: `fastcgi \"unix:/run/php/php8.2-fpm.sock\" root=\"/srv/www\" \
                          fallback=\"/index.php\" static=#true` does";
const OTHER_METHODS: &str =
    "what asks for a file by another method than GET and HEAD goes to the server, where nginx answers 405";
const NO_FOLDER: &str = "where its files lie is in variables";

/// How files are looked for.
pub struct Tried<'t> {
    /// As we write them; none is the path itself, with the index of a folder.
    pub paths: &'t [&'t str],
    /// Whether the routes behind it are asked where there is none.
    pub goes_on: bool,
    pub fallback: Option<String>,
}

/// What answers beside the script of paths that are none.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    pub files: bool,
    /// The scripts that `index` names.
    pub folders: bool,
}

/// How scripts are run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run<'r> {
    /// The script for paths that are none.
    fallback: Option<&'r str>,
    /// The script of a folder, where it is not for `fastcgi_index` to say.
    index: Option<&'r str>,
    with_files: bool,
}

/// The folder of a block.
struct Folder {
    root: String,
    strip: Option<String>,
    /// What changes the path below it.
    steps: Vec<Step>,
    origin: Origin,
}

impl<'s> NginxReader<'s> {
    /// `try_files` of a block.
    pub(super) fn tries(
        &self,
        tries: &'s Statement,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        let [paths @ .., last] = tries.arguments() else { return Err("it says nothing".to_owned()) };
        let values = scope.values(levels);
        let mut is_whole = true;
        let mut tried: Vec<String> = Vec::new();
        for path in paths.iter().filter(|path| !path.is_empty()) {
            let path = path.replace("$request_filename", "$uri").replace("$document_root", "");
            match values.template(&path, Moment::Request, &self.tables, &mut Vec::new()) {
                Some(own) => tried.push(if own.starts_with(['/', '{']) { own } else { format!("/{own}") }),
                None => is_whole = false,
            }
        }
        let names: Vec<&str> = tried.iter().map(String::as_str).collect();
        let is_usual = matches!(names.as_slice(), ["{path}", "{path}/"] | ["{path}/", "{path}"]);
        let never = tried.is_empty();
        let claim = |draft: &mut Draft| {
            if is_whole {
                draft.origin.carry(tries.start());
            } else {
                draft.origin.differ(tries.start(), "what it tries by variables that have no name here is not tried");
            }
        };
        let has_folders = names.iter().any(|path| path.ends_with('/'));
        let shown: &[&str] = if is_usual { &[] } else { &names };
        if last == "=404" {
            if let Some(mut draft) = self.scripts_of_folder(scope, levels, place, has_folders) {
                claim(&mut draft);
                return Ok(vec![draft]);
            }
            let mut files = self.files(scope, levels, place, coming, &Tried { paths: shown, goes_on: false, fallback: None })?;
            claim(&mut files);
            return Ok(vec![files]);
        }
        if let Some(mut draft) = self.one_answer(last, scope, levels, place, coming, (shown, &names)) {
            claim(&mut draft);
            return Ok(vec![draft]);
        }
        let mut drafts = Vec::new();
        if !never {
            let tried = Tried { paths: &names, goes_on: true, fallback: None };
            drafts.push(self.files(scope, levels, place, coming, &tried)?);
        }
        if has_folders
            && place.path == "/"
            && is_script(last.split('?').next().unwrap_or_default())
            && index_script(levels).is_none()
        {
            // The root is there, so that its index answers, or nothing does.
            let of_root = Tried { paths: &[], goes_on: false, fallback: None };
            let mut draft = self.files(scope, levels, place, coming, &of_root)?;
            draft.paths.push("^/$".to_owned());
            drafts.insert(0, draft);
        }
        let behind = self.where_none_is(last, scope, levels, place, coming)?;
        let hands_on = behind.iter().any(|draft| matches!(draft.kind, AnswerKind::Proxy | AnswerKind::Scripts));
        if let Some(files) = drafts.last_mut().filter(|_| hands_on) {
            files.origin.differ(tries.start(), OTHER_METHODS);
        }
        drafts.extend(self.guarded_as(levels, scope, behind)?);
        drafts.iter_mut().for_each(claim);
        Ok(drafts)
    }

    /// What a block sends on within the server, with what keeps clients out of the block: nginx asks there first, and
    /// then where it leads to.
    pub(super) fn guarded_as(
        &self,
        levels: &Levels<'s>,
        scope: &ServerScope<'s>,
        mut drafts: Vec<Draft>,
    ) -> Result<Vec<Draft>, String> {
        let guards = self.guards(scope, levels);
        for draft in drafts.iter_mut().filter(|draft| !draft.answer.is_refusal()) {
            for family in [Family::Access, Family::LogIn, Family::Limit] {
                let of = |steps: &[Step]| -> Vec<Step> { steps.iter().filter(|step| step.family == family).cloned().collect() };
                let (own, outer) = (of(&draft.steps), of(&guards));
                if outer.is_empty() || own == outer {
                    continue;
                }
                if !own.is_empty() && family != Family::Limit {
                    return Err(TWO_GUARDS.to_owned());
                }
                draft.steps.extend(outer.into_iter().filter(|step| !own.contains(step)));
                if draft.kind == AnswerKind::Local {
                    draft.kind = AnswerKind::Files;
                }
            }
        }
        Ok(drafts)
    }

    /// Files and what answers where there is none, where one line of ours is both.
    fn one_answer(
        &self,
        last: &str,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
        (shown, names): (&[&str], &[&str]),
    ) -> Option<Draft> {
        if !last.starts_with('/') {
            return None;
        }
        let path = last.split(['?', '$']).next().unwrap_or_default();
        let tries_itself = names.iter().all(|own| own.starts_with("{path}"));
        // The query of the request goes on by itself, and no other one.
        let behind = last.strip_prefix(path).unwrap_or_default();
        let is_own_query =
            matches!(behind, "" | "?$args" | "?$query_string" | "?$is_args$args" | "$is_args$args" | "$is_args$query_string");
        if tries_itself && is_script(path) && is_own_query {
            let beside = Beside { files: names.contains(&"{path}"), folders: names.contains(&"{path}/") };
            return self.scripts_behind(scope, (levels, place), path, beside);
        }
        if last.contains('$') || coming.depth > 2 {
            return None;
        }
        // A file of the same folder, which answers with 200.
        let index = find(&scope.locations, path);
        let levels_of = |index: usize| scope.locations[index].levels(scope.inside, scope.http);
        let target = index.map_or_else(|| scope.levels(), levels_of);
        let is_files = !target.inner().iter().any(|inner| inner.name().ends_with("_pass") || inner.name() == "return");
        let is_same = index.is_none()
            || index == place.index
            || is_files && self.says_the_same(scope, &target, levels) && value(target.inner(), "alias").is_none();
        let fallback = match value(levels.inner(), "alias") {
            // Below the alias, the path has the prefix of its location.
            Some(_) => path.strip_prefix(place.path.trim_end_matches('/'))?.to_owned(),
            None => path.to_owned(),
        };
        if !is_same || !is_files || fallback == "/" || !fallback.starts_with('/') {
            return None;
        }
        let tried = Tried { paths: shown, goes_on: false, fallback: Some(fallback) };
        self.files(scope, levels, place, coming, &tried).ok()
    }

    /// Whether files of two blocks are those of one folder, with the same said of them.
    fn says_the_same(&self, scope: &ServerScope<'s>, one: &Levels<'s>, other: &Levels<'s>) -> bool {
        let steps = |levels: &Levels<'s>| {
            let mut draft = Draft::of(AnswerKind::Files, OutlinedAnswer::status(200));
            self.say_more(&mut draft, scope, levels);
            draft.steps
        };
        one.value("root") == other.value("root") && steps(one) == steps(other)
    }

    /// The page that answers for `/` where its file has a location of its own, as `location = /index.html`.
    pub(super) fn index_page(&self, scope: &ServerScope<'s>) -> Option<Draft> {
        let all = scope.locations.iter().find(|location| location.is_all())?;
        let levels = all.levels(scope.inside, scope.http);
        let is_answered =
            |own: &Statement| own.name().ends_with("_pass") || matches!(own.name(), "return" | "rewrite" | "if" | "alias");
        if levels.inner().iter().any(is_answered) || levels.value("root").is_none() {
            return None;
        }
        let name = levels.one("index").map_or("index.html", |index| index.argument());
        let path = format!("/{}", name.trim_start_matches('/'));
        let index = find(&scope.locations, &path)?;
        let found = &scope.locations[index];
        let is_root_taken = find(&scope.locations, "/").is_some_and(|index| !scope.locations[index].is_all());
        let inner = found.levels(scope.inside, scope.http);
        let is_plain = !inner.inner().iter().any(is_answered) && named(inner.inner(), "internal").next().is_none();
        let is_one = is_script(&path) || path.contains('$');
        if is_root_taken || found.is_all() || !is_plain || is_one || self.says_the_same(scope, &inner, &levels) {
            return None;
        }
        let place = Place { modifier: Modifier::Exact, path: "/", index: Some(index) };
        let tried = Tried { paths: &[], goes_on: false, fallback: None };
        let mut draft = self.files(scope, &inner, place, &Coming::default(), &tried).ok()?;
        draft.steps.push(Step::of(Family::Path, format!("rewrite {}", quoted(&path))));
        Some(draft)
    }

    /// What answers for a folder whose index is kept for some: nginx asks by the location of the index.
    pub(super) fn guarded_index(&self, scope: &ServerScope<'s>, levels: &Levels<'s>, place: Place<'_>) -> Option<Draft> {
        let is_answered = |own: &Statement| own.name().ends_with("_pass") || matches!(own.name(), "return" | "rewrite" | "alias");
        let is_folder = matches!(place.modifier, Modifier::Before | Modifier::Prefix)
            || place.modifier == Modifier::Exact && place.path.ends_with('/');
        if !is_folder || levels.answering().any(is_answered) {
            return None;
        }
        let name = levels.one("index").map_or("index.html", |index| index.argument());
        let path = format!("{}/{name}", place.path.trim_end_matches('/'));
        let index = find(&scope.locations, &path)?;
        let target = &scope.locations[index];
        let inner = target.levels(scope.inside, scope.http);
        let is_other = place.index != Some(index) && !name.contains(['$', '/']) && !is_script(name);
        if !is_other || inner.answering().any(is_answered) || named(inner.inner(), "internal").next().is_some() {
            return None;
        }
        if self.guards(scope, &inner) == self.guards(scope, levels) && !words::protects(target.statement) {
            return None;
        }
        let place = Place { modifier: Modifier::Exact, path: place.path, index: Some(index) };
        let mut draft = self.content(scope, &inner, place, &Coming::default()).ok()?.pop()?;
        draft.paths.push("/$".to_owned());
        draft.origin.within.extend(words::places([target.statement]));
        Some(draft)
    }

    /// What answers where no file is.
    fn where_none_is(
        &self,
        last: &str,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
    ) -> Result<Vec<Draft>, String> {
        if let Some(status) = last.strip_prefix('=') {
            let status = status.parse::<u16>().map_err(|_| "it ends with no status".to_owned())?;
            let mut draft = Draft::of(AnswerKind::Local, OutlinedAnswer::status(status));
            self.say_more(&mut draft, scope, levels);
            return Ok(vec![draft]);
        }
        let mut coming = Coming { depth: coming.depth + 1, is_within: true, ..coming.clone() };
        if !last.starts_with(['/', '@', '$']) {
            // No location begins without a slash, and no file does.
            let mut draft = Draft::of(AnswerKind::Files, OutlinedAnswer::status(404));
            self.say_more(&mut draft, scope, levels);
            named(levels.inner(), "try_files").for_each(|tries| draft.origin.differ(tries.start(), NO_SLASH));
            return Ok(vec![draft]);
        }
        if last.starts_with('@') {
            let location = scope.locations.iter().find(|own| own.modifier == Modifier::Named && own.path == last);
            let location = location.ok_or_else(|| format!("`{last}` is no location of its server"))?;
            return self.of_location(scope, location, &coming);
        }
        let values = scope.values(levels);
        let bare = last.replace("$is_args$args", "").replace("$is_args$query_string", "");
        let (path, query) = bare.split_once('?').map_or((bare.as_str(), None), |(path, query)| (path, Some(query)));
        let mut template = values
            .template(path, Moment::Request, &self.tables, &mut Vec::new())
            .ok_or_else(|| "nothing here has the path that it ends with".to_owned())?;
        // The query goes on by itself, unless another one is written.
        if let Some(query) = query.filter(|query| !matches!(*query, "$args" | "$query_string")) {
            let query = values.template(query, Moment::Request, &self.tables, &mut Vec::new());
            template.push('?');
            template.push_str(&query.ok_or_else(|| "nothing here has the query that it ends with".to_owned())?);
        }
        if is_script(path) && place.index.is_some() && find(&scope.locations, path) == place.index {
            return Err(NO_SCRIPTS.to_owned());
        }
        coming.depth += 1;
        let change = Step::of(Family::Path, format!("rewrite {}", quoted(&template)));
        self.sent_within(path, None, scope, &coming, change)
    }

    /// The files of a block.
    pub(super) fn files(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        coming: &Coming,
        tried: &Tried<'_>,
    ) -> Result<Draft, String> {
        let folder = self.folder(scope, levels, place, coming)?;
        let mut options = String::new();
        let mut origin = folder.origin;
        let index = index(levels, tried.goes_on, &mut origin);
        // `$uri` alone is a file there, and no folder.
        let has_folders = tried.paths.is_empty() || tried.paths.iter().any(|path| path.ends_with('/'));
        options.push_str(match Self::keeper_of_index(scope, levels, place, coming) {
            Some(keeper) => without_index(keeper, &mut origin),
            // No folder comes to an ending or to one path.
            None if !takes_folders(place) && (!has_folders || index == NO_INDEX) => "",
            None if !has_folders => NO_INDEX,
            None => &index,
        });
        if !tried.paths.is_empty() {
            options.push_str(&format!(" try={}", quoted(&tried.paths.join(" "))));
        }
        if tried.goes_on {
            options.push_str(" else=\"next\"");
        }
        if let Some(fallback) = &tried.fallback {
            options.push_str(&format!(" fallback={}", quoted(fallback)));
        }
        options.push_str(&of_files(levels, has_folders, &mut origin));
        let mut lines = Vec::new();
        lines.extend(folder.strip.map(|strip| AnswerLine::Text(format!("strip-prefix {}", quoted(&strip)))));
        lines.push(AnswerLine::Text(format!("files {}{options}", quoted(&folder.root))));
        let mut draft = Draft::of(AnswerKind::Files, OutlinedAnswer::Lines(lines));
        draft.steps = folder.steps;
        draft.origin = origin;
        self.say_more(&mut draft, scope, levels);
        Ok(draft)
    }

    fn folder(&self, scope: &ServerScope<'s>, levels: &Levels<'s>, place: Place<'_>, coming: &Coming) -> Result<Folder, String> {
        let mut origin = Origin::default();
        let values = scope.values(levels);
        let mut used = Vec::new();
        // A location within another one has its folder, with the path below that one.
        let nearest = levels.all().iter().find(|block| block.iter().any(|own| matches!(own.name(), "root" | "alias")));
        let alias = nearest.and_then(|block| named(block, "alias").next());
        if let (Some(alias), Some(block)) = (alias, nearest) {
            origin.carry(alias.start());
            let folder = values.filled(alias.argument(), &mut used);
            origin.carry_all(used);
            let outer = scope.locations.iter().find(|location| std::ptr::eq(location.statement.inside(), *block));
            let place = outer.map_or(place, |outer| Place { modifier: outer.modifier, path: outer.path, ..place });
            return self.aliased(&folder, place, coming, &values, origin);
        }
        let root = levels.one("root");
        let Some(root) = root else {
            self.remark(NO_ROOT);
            return Ok(Folder { root: FOLDER_OF_PACKAGES.to_owned(), strip: None, steps: Vec::new(), origin });
        };
        let folder = values.filled(root.argument(), &mut used);
        origin.carry(root.start());
        origin.carry_all(used);
        if folder.contains('$') {
            return Err(NO_FOLDER.to_owned());
        }
        let folder = if folder.starts_with('/') { folder } else { format!("/usr/share/nginx/{folder}") };
        Ok(Folder { root: folder, strip: None, steps: Vec::new(), origin })
    }

    fn aliased(
        &self,
        folder: &str,
        place: Place<'_>,
        coming: &Coming,
        values: &Values<'s>,
        origin: Origin,
    ) -> Result<Folder, String> {
        let plain = Folder { root: folder.to_owned(), strip: None, steps: Vec::new(), origin };
        if coming.changed() {
            return Err("an `alias` behind a `rewrite` is not told".to_owned());
        }
        if let Some(expression) = location_expression(place) {
            // Groups of the expression are the path below what stands in front of them.
            let stem = folder.split('$').next().unwrap_or_default();
            let cut = stem.rfind('/').map_or(0, |slash| slash);
            let (root, rest) = folder.split_at(cut);
            let grouped = with_groups(values, &expression);
            let path =
                grouped.template(rest, Moment::Request, &self.tables, &mut Vec::new()).ok_or_else(|| NO_FOLDER.to_owned())?;
            if !is_fixed(root) || root == "/" {
                return Err(NO_FOLDER.to_owned());
            }
            let line = format!("rewrite {} {}", quoted(&format!("~{}", sent(&expression))), quoted(&path));
            return Ok(Folder { root: root.to_owned(), steps: vec![Step::of(Family::Path, line)], ..plain });
        }
        if !is_fixed(folder) {
            return Err(NO_FOLDER.to_owned());
        }
        if place.modifier == Modifier::Exact {
            let (root, file) = folder.rsplit_once('/').unwrap_or(("", folder));
            let root = if root.is_empty() { "/" } else { root };
            let line = format!("rewrite {}", quoted(&format!("/{file}")));
            return Ok(Folder { root: root.to_owned(), steps: vec![Step::of(Family::Path, line)], ..plain });
        }
        let strip = place.path.trim_end_matches('/');
        let strip = (!strip.is_empty()).then(|| strip.to_owned());
        Ok(Folder { strip, ..plain })
    }

    /// Files of a folder whose index is a script.
    pub(super) fn scripts_of_folder(
        &self,
        scope: &ServerScope<'s>,
        levels: &Levels<'s>,
        place: Place<'_>,
        folders: bool,
    ) -> Option<Draft> {
        let script = index_script(levels)?;
        let beside = Beside { files: true, folders };
        let mut draft = self.scripts_behind(scope, (levels, place), &format!("/{script}"), beside)?;
        if let OutlinedAnswer::Lines(lines) = &mut draft.answer {
            for line in lines {
                if let AnswerLine::Servers { options, .. } = line {
                    *options = options.replace(&format!(" fallback={}", quoted(&format!("/{script}"))), "");
                }
            }
        }
        Some(draft)
    }

    /// Files and scripts of one folder as one answer, with the script that answers where there is none.
    pub(super) fn scripts_behind(
        &self,
        scope: &ServerScope<'s>,
        (levels, place): (&Levels<'s>, Place<'_>),
        script: &str,
        beside: Beside,
    ) -> Option<Draft> {
        let index = find(&scope.locations, script)?;
        let location = &scope.locations[index];
        let inner = location.levels(scope.inside, scope.http);
        let pass = named(inner.inner(), "fastcgi_pass").next()?;
        if beside.files && !super::scripts::takes_all_scripts(&scope.locations, index, place, levels) {
            return None;
        }
        // Without a script in it, `index` is about pages.
        let of_folder = if beside.folders { index_script(levels) } else { Some(NO_NAME) };
        if beside.files && of_folder.is_none() {
            return None;
        }
        if value(levels.inner(), "alias").is_some()
            || inner.value("root") != levels.value("root") && levels.value("root").is_some()
        {
            return None;
        }
        let run = Run { fallback: Some(script), index: Some(of_folder.unwrap_or(NO_NAME)), with_files: beside.files };
        let mut draft = self.scripts(pass, scope, (&inner, scope.place(location)), run).ok()?;
        let own_steps = std::mem::take(&mut draft.steps);
        let mut around = Draft::of(AnswerKind::Scripts, draft.answer.clone());
        self.say_more(&mut around, scope, levels);
        let guards = |steps: &[Step]| -> Vec<Step> { steps.iter().filter(|step| is_guard(step.family)).cloned().collect() };
        if guards(&own_steps) != guards(&around.steps) {
            return None;
        }
        let is_page = |name: &String| !is_script(name) && !name.contains('$');
        if let Some(pages) = levels.one("index").filter(|index| beside.files && index.arguments().iter().any(is_page)) {
            draft.origin.differ(pages.start(), PAGE_OF_FOLDER);
        }
        // What scripts take longer for, and what is kept of them, is said where they are.
        draft.steps = around.steps.into_iter().filter(|step| !of_scripts(step.family)).collect();
        draft.steps.extend(own_steps.iter().filter(|step| of_scripts(step.family)).cloned());
        draft.origin.add(&around.origin);
        claim_location(location, &mut draft.origin);
        draft.absorbs.push(index);
        Some(draft)
    }

    /// `fastcgi_pass` of a block.
    pub(super) fn scripts(
        &self,
        pass: &'s Statement,
        scope: &ServerScope<'s>,
        (levels, place): (&Levels<'s>, Place<'_>),
        run: Run<'_>,
    ) -> Result<Draft, String> {
        let mut origin = Origin::default();
        let values = scope.values(levels);
        let mut used = Vec::new();
        let target = values.filled(pass.argument(), &mut used);
        let group = match self.groups.iter().find(|group| group.name == target) {
            Some(group) => group.clone(),
            None if target.contains('$') => return Err(super::BY_VARIABLE.to_owned()),
            None => ServerGroup::of(upstream(&target).ok_or_else(|| super::answers::no_address(&target))?),
        };
        origin.carry(pass.start());
        origin.carry_all(used);
        let (root, fixed) = script_folder(levels, &values, &mut origin)?;
        let mut options = format!(" root={}", quoted(&root));
        let said = levels.one("fastcgi_index");
        origin.carry_all(said.map(Statement::start));
        // A folder has the script that is said there, and none by itself.
        let has_none = takes_folders(place) && !is_of_scripts(place);
        let index = run.index.or(said.map(Statement::argument)).or(has_none.then_some(NO_NAME));
        if let Some(index) = index.filter(|index| *index != "index.php") {
            options.push_str(&format!(" index={}", quoted(index)));
        }
        let is_always = run.fallback.is_none() && takes_other_scripts(place);
        let always = fixed.as_deref().filter(|_| is_always).map(|script| format!("rewrite {}", quoted(script)));
        if let Some(fallback) = run.fallback.or(fixed.as_deref()).filter(|_| always.is_none()) {
            options.push_str(&format!(" fallback={}", quoted(fallback)));
        }
        if run.with_files {
            options.push_str(" static=#true");
        }
        let inside = self.params(levels, &values, &mut origin);
        // What is no script there is 404, as it is here.
        named(levels.inner(), "try_files")
            .filter(|tries| tries.arguments().last().is_some_and(|last| last.starts_with('=')))
            .for_each(|tries| origin.carry(tries.start()));
        origin.carry_all(levels.one("root").map(Statement::start));
        origin.carry_all(levels.one("fastcgi_split_path_info").map(Statement::start));
        let line = AnswerLine::Servers { word: "fastcgi", group, options, inside };
        let mut draft = Draft::of(AnswerKind::Scripts, OutlinedAnswer::Lines(vec![line]));
        draft.steps.extend(always.map(|line| Step::of(Family::Path, line)));
        draft.origin = origin;
        self.say_more(&mut draft, scope, levels);
        Ok(draft)
    }

    /// Params that scripts get beside the usual ones.
    fn params(&self, levels: &Levels<'s>, values: &Values<'s>, origin: &mut Origin) -> Vec<String> {
        let mut lines = Vec::new();
        for param in levels.nearest(&["fastcgi_param"]) {
            let [name, value, ..] = param.arguments() else { continue };
            let is_usual = words::is_usual_param(name) && !(name == "HTTPS" && value == "on");
            if is_usual || name.starts_with("HTTP_") && value.is_empty() {
                origin.carry(param.start());
                continue;
            }
            let Some(template) = values.template(value, Moment::Request, &self.tables, &mut Vec::new()) else { continue };
            origin.carry(param.start());
            lines.push(format!("env {} {}", quoted(name), quoted(&template)));
        }
        lines
    }
}

/// The script that answers for its folder.
pub fn index_script<'s>(levels: &Levels<'s>) -> Option<&'s str> {
    levels.one("index")?.arguments().iter().map(String::as_str).find(|name| is_script(name))
}

/// Whether scripts beside one of their own come to a location.
fn takes_other_scripts(place: Place<'_>) -> bool {
    match location_expression(place) {
        Some(text) => expression(&text).build().is_ok_and(|own| own.is_match(b"/other.php") || own.is_match(b"/d/other.php/x")),
        None => place.modifier != Modifier::Exact,
    }
}

pub fn is_guard(family: Family) -> bool {
    matches!(family, Family::Access | Family::LogIn | Family::Limit)
}

fn of_scripts(family: Family) -> bool {
    matches!(family, Family::Timeout | Family::Cache | Family::ErrorPage)
}

fn claim_location(location: &Location<'_>, origin: &mut Origin) {
    origin.within.extend(words::places([location.statement]));
    origin.carry(location.statement.start());
}

/// The folder of scripts as the server of them sees it, and the one script that is always run.
fn script_folder(levels: &Levels<'_>, values: &Values<'_>, origin: &mut Origin) -> Result<(String, Option<String>), String> {
    let params = levels.nearest(&["fastcgi_param"]);
    let file = params.iter().find(|param| param.argument() == "SCRIPT_FILENAME");
    let written = file.and_then(|param| param.arguments().get(1));
    if let Some(written) = written {
        let filled = values.filled(written, &mut Vec::new());
        let bare = filled.replace("${document_root}", "").replace("${realpath_root}", "");
        let stem = bare.split("${").next().unwrap_or_default();
        if is_fixed(stem) && stem != "/" {
            origin.carry_all(file.map(|param| param.start()));
            // One script whatever is asked for.
            return Ok(if bare == stem {
                let (folder, script) = stem.rsplit_once('/').unwrap_or(("/", stem));
                (folder.to_owned(), Some(format!("/{script}")))
            } else {
                (stem.trim_end_matches('/').to_owned(), None)
            });
        }
    }
    let root = levels.value("root").map(|root| values.filled(root, &mut Vec::new()));
    match root {
        Some(root) if is_fixed(&root) => Ok((root, None)),
        Some(_) => Err(NO_FOLDER.to_owned()),
        None => Err("the folder of the scripts is not said: `fastcgi` has it in `root=`".to_owned()),
    }
}

/// `index=` where it is another one than here; scripts are no files.
fn index(levels: &Levels<'_>, goes_on: bool, origin: &mut Origin) -> String {
    let Some(index) = levels.one("index") else { return String::new() };
    let names: Vec<&str> = index.arguments().iter().map(String::as_str).collect();
    let is_name = |name: &&&str| !name.contains(['$', '/']) && !is_script(name);
    let known: Vec<&str> = names.iter().filter(is_name).copied().collect();
    origin.carry(index.start());
    // A page behind a script is the index where there is no such script, which the routes behind it know.
    let is_of_scripts = names.first().is_some_and(|name| is_script(name));
    if is_of_scripts && goes_on || names.iter().all(|name| is_script(name)) {
        return NO_INDEX.to_owned();
    }
    if known.is_empty() || known == ["index.html"] { String::new() } else { format!(" index={}", quoted(&known.join(","))) }
}

fn of_files(levels: &Levels<'_>, has_folders: bool, origin: &mut Origin) -> String {
    let mut options = String::new();
    if let Some(listing) = levels.one("autoindex").filter(|listing| listing.argument() == "on") {
        origin.carry(listing.start());
        options.push_str(if has_folders { " listing=#true" } else { "" });
    }
    let packed = ["gzip_static", "brotli_static", "zstd_static"];
    let on: Vec<&Statement> =
        packed.iter().filter_map(|word| levels.one(word)).filter(|own| matches!(own.argument(), "on" | "always")).collect();
    if !on.is_empty() {
        origin.carry_all(on.iter().map(|own| own.start()));
        options.push_str(" precompressed=#true");
    }
    if let Some(links) = levels.one("disable_symlinks").filter(|links| links.argument() != "off") {
        origin.carry(links.start());
        options.push_str(" symlinks=\"refuse\"");
    }
    for types in levels.inner().iter().filter(|own| own.name() == "types") {
        for row in types.inside() {
            for extension in row.arguments() {
                options.push_str(&format!(" mime={}", quoted(&format!("{extension} {}", row.name()))));
            }
        }
    }
    options
}
