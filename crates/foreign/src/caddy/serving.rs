//! Files and scripts that a handler of Caddy serves, as lines of ours: of which folder, what of it is hidden, and what
//! is looked for in place of the path.

use super::placeholders::fixed;
use crate::outline::OutlinedAnswer;
use crate::texts::fits;
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

/// The folder that files are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServedFolder {
    Known(String),
    /// What requests fill in, or the folder that the process happens to be in.
    Unknown(&'static str),
}

/// Requests have no line.
pub const NO_LOG: &str = "log \"off\"";
pub const NO_FOLDER: &str = "its folder is the one that Caddy was started in (`/srv` in its image), which the file does not say: \
                             404 answers until a line says it, as in `files \"/srv\"`";
const FILLED_IN: &str =
    "its folder is made of what requests say: 404 answers until a line names one, as in `files \"/srv/www\"` in a route";
pub const BELOW: &str =
    "a folder without a `/` in front is looked for beside this file, and there in the folder that Caddy was started in";
pub const HIDDEN: &str =
    "what `hide` leaves out is refused by a route in front of the files: `route \"~(^|/)secret(/|$)\" { respond 404; }`";
pub const BESIDE_SCRIPTS: &str =
    "files beside scripts are sent as they are (`static=#true`): a route with a `files` of its own says more";
pub const LISTED: &str = "who asks for it gets 404; the list of its folder shows the name";

impl ServedFolder {
    pub fn of(written: &str) -> ServedFolder {
        match fixed(written) {
            None => ServedFolder::Unknown(FILLED_IN),
            Some(folder) if is_of_the_process(&folder) => ServedFolder::Unknown(NO_FOLDER),
            Some(folder) => ServedFolder::Known(folder),
        }
    }

    /// Whether it is looked for somewhere else here.
    pub fn is_relative(&self) -> bool {
        matches!(self, ServedFolder::Known(folder) if !folder.starts_with(['/', '{']))
    }
}

/// `.`, `./`, `a/..`: where the process is, and here this file with all that lies beside it.
fn is_of_the_process(folder: &str) -> bool {
    let default = folder.strip_suffix('}').and_then(|inner| inner.split_once(":-"));
    let folder = default.map_or(folder, |(_, default)| default);
    let mut parts = folder.rsplit('/').filter(|part| !part.is_empty() && *part != ".");
    !folder.starts_with('/') && parts.next().is_none_or(|last| last == "..")
}

/// Names that are not served.
#[derive(Debug, Clone)]
pub struct HiddenNames {
    pub at: usize,
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct FileServer {
    pub root: Option<ServedFolder>,
    /// `None` where it is as it is without a word.
    pub index: Option<Vec<String>>,
    pub properties: Vec<String>,
    pub hides: Vec<HiddenNames>,
    pub is_passed_on: bool,
    pub at: usize,
    /// Where it and its lines begin, but for what is hidden.
    pub places: BTreeSet<usize>,
}

#[derive(Debug, Clone, Default)]
pub struct ScriptServer {
    pub servers: Vec<String>,
    pub root: Option<ServedFolder>,
    /// `None` where it is looked for as Caddy does without a word.
    pub fallback: Option<String>,
    pub properties: Vec<String>,
    /// Of its block.
    pub lines: Vec<String>,
    /// Where it and its lines begin.
    pub places: BTreeSet<usize>,
}

/// What is looked for in place of a path, and what answers where nothing is there.
#[derive(Debug, Default)]
struct Tries {
    /// `None` where it is as it is without a word.
    own: Option<String>,
    fallback: Option<String>,
}

impl Tries {
    fn of(tries: Option<&[String]>) -> Tries {
        let Some(tries) = tries else { return Tries::default() };
        let mut tries = tries.to_vec();
        let (mut fallback, mut is_refused) = (None, false);
        if tries.last().is_some_and(|last| last.starts_with('=')) {
            tries.pop();
            is_refused = true;
        } else if tries.last().is_some_and(|last| !last.contains('{')) {
            fallback = tries.pop().map(|last| if last.starts_with('/') { last } else { format!("/{last}") });
        }
        let is_usual = |one: &String| matches!(one.as_str(), "{path}" | "{path}/" | "{path}/index.html");
        if tries.iter().all(is_usual) || tries.iter().any(|one| one.contains(' ')) {
            return Tries { own: None, fallback };
        }
        // Without any of them the path stays what it is, be it that of a folder.
        let is_folder_left = !is_refused && fallback.is_none() && !tries.iter().any(|one| one == "{path}/");
        tries.extend(is_folder_left.then(|| "{path}/".to_owned()));
        Tries { own: Some(tries.join(" ")), fallback }
    }
}

impl FileServer {
    /// The line that serves files of the folder.
    pub fn line(&self, root: &str, tries: Option<&[String]>) -> OutlinedAnswer {
        let Tries { own, fallback } = Tries::of(tries);
        let mut properties: Vec<String> = Vec::new();
        properties.extend(self.shown_index().map(|names| format!("index={}", quoted(&names.join(",")))));
        properties.extend(self.properties.iter().cloned());
        properties.extend(own.map(|own| format!("try={}", quoted(&own))));
        if self.is_passed_on {
            properties.push("else=\"next\"".to_owned());
        }
        let is_listing = self.is_listing();
        if properties.iter().all(|property| property == "listing=#true") {
            return OutlinedAnswer::Files { root: root.to_owned(), strip: None, fallback, is_listing, is_tried: false };
        }
        properties.extend(fallback.map(|fallback| format!("fallback={}", quoted(&fallback))));
        OutlinedAnswer::line(format!("files {} {}", quoted(root), properties.join(" ")))
    }

    pub fn is_listing(&self) -> bool {
        self.properties.iter().any(|property| property == "listing=#true")
    }

    /// The index files but for those that are hidden, where that is another list than the one without a word.
    fn shown_index(&self) -> Option<Vec<String>> {
        let names = self.index.clone().unwrap_or_else(|| ["index.html", "index.txt"].map(str::to_owned).to_vec());
        let shown: Vec<String> = names.iter().filter(|name| !self.is_hidden(name)).cloned().collect();
        (self.index.is_some() || shown != names).then_some(shown)
    }

    /// Whether the name is hidden in all folders.
    fn is_hidden(&self, name: &str) -> bool {
        let all = self.hides.iter().flat_map(|hide| &hide.names).filter(|hidden| !hidden.contains('/'));
        all.filter_map(|hidden| within_paths(hidden)).any(|regex| fits(&regex, &format!("/{name}")))
    }

    /// Expressions of the paths that are not served. `None` where what is served in place of a path cannot be said.
    pub fn hidden_paths(&self, hide: &HiddenNames, root: &str, tries: Option<&[String]>) -> Option<Vec<String>> {
        let mut all = Vec::new();
        for name in &hide.names {
            all.extend(hidden(name, root)?);
        }
        let Tries { own, fallback } = Tries::of(tries);
        for name in &hide.names {
            all.extend(behind_endings(name, own.as_deref().unwrap_or_default(), root)?);
        }
        let is_fallback_hidden = fallback.is_some_and(|fallback| all.iter().any(|regex| fits(regex, &fallback)));
        if all.is_empty() {
            return Some(all);
        }
        // An index file answers for its folder.
        let index = self.shown_index().unwrap_or_else(|| vec!["index.html".to_owned()]);
        for name in hide.names.iter().filter(|name| name.contains('/')) {
            let Some((folder, last)) = name.rsplit_once('/') else { continue };
            if index.iter().any(|index| index == last || last.contains(['*', '?'])) {
                let own = if folder.is_empty() { Some(vec!["^/(?:/|$)".to_owned()]) } else { hidden(folder, root) };
                all.extend(own?.iter().map(|regex| regex.replace("(?:/|$)", "/$")));
            }
        }
        (!is_fallback_hidden && !index.is_empty()).then_some(all)
    }
}

/// Expressions of the paths whose files have a hidden name with an ending that is tried behind them. `None` where that
/// is not known.
fn behind_endings(name: &str, tries: &str, root: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for ending in tries.split(' ').filter(|one| !matches!(*one, "" | "{path}" | "{path}/")) {
        let ending = ending.strip_prefix("{path}").filter(|ending| !ending.contains(['{', '/']))?;
        match name.strip_suffix(ending) {
            Some(stem) => all.extend(hidden(stem, root)?.iter().map(|regex| regex.replace("(?:/|$)", "$"))),
            None if name.ends_with(['*', '?', ']']) => return None,
            None => {}
        }
    }
    Some(all)
}

/// The expression of paths in which a segment is like this.
fn within_paths(name: &str) -> Option<String> {
    Some(format!("^/(?:.*/)?{}(?:/|$)", globbed(name)?))
}

/// The pattern of a name as an expression.
fn globbed(name: &str) -> Option<String> {
    let is_known = !name.contains(['{', '[', '\\']);
    is_known.then(|| regex_syntax::escape(name).replace("\\*", "[^/]*").replace("\\?", "[^/]"))
}

/// The expressions of paths that a name hides; none where it is hidden here anyway.
fn hidden(name: &str, root: &str) -> Option<Vec<String>> {
    let name = name.trim_start_matches("./").trim_end_matches('/');
    if !name.contains('/') {
        let is_dotted = name.starts_with('.') && !name.contains(['{', '[', '\\']);
        return if is_dotted { Some(Vec::new()) } else { Some(vec![within_paths(name)?]) };
    }
    if name.contains("..") {
        return None;
    }
    if !name.starts_with('/') {
        // Caddy looks for it where it was started, which is the folder, one around it, or another.
        let parts: Vec<&str> = name.split('/').collect();
        let below = (0..parts.len()).map(|first| Some(format!("^/{}(?:/|$)", globbed(&parts[first..].join("/"))?)));
        return below.collect();
    }
    let root = root.trim_end_matches('/');
    if root.contains('{') || (!root.is_empty() && !root.starts_with('/')) {
        return None;
    }
    match name.strip_prefix(root).filter(|below| below.is_empty() || below.starts_with('/')) {
        Some(below) => Some(vec![format!("^{}(?:/|$)", globbed(below)?)]),
        // A pattern may stand for parts of the folder's own path, and what is around the folder hides all of it.
        None if name.contains(['*', '?', '{', '[']) => None,
        None if root.starts_with(&format!("{name}/")) => Some(vec!["^/".to_owned()]),
        None => Some(Vec::new()),
    }
}

impl ScriptServer {
    /// The line for scripts below the folder, with files beside them where these are served as well.
    pub fn line(&self, root: &str, tries: Option<&[String]>, is_static: bool) -> OutlinedAnswer {
        let fallback = match (&self.fallback, tries) {
            (Some(own), _) => Some(own.clone()).filter(|own| own != "off"),
            (None, Some(tries)) => {
                let last = tries.last().filter(|last| last.contains(".php") && !last.contains('{'));
                last.map(|last| format!("/{}", last.split('?').next().unwrap_or_default().trim_start_matches('/')))
            }
            (None, None) => None,
        };
        let fallback = fallback.or_else(|| self.fallback.is_none().then(|| "/index.php".to_owned()));
        let root = Some(root.to_owned());
        if let ([server], true, true) = (self.servers.as_slice(), self.properties.is_empty(), self.lines.is_empty()) {
            return OutlinedAnswer::Scripts { server: server.clone(), root, fallback, is_static };
        }
        let servers: Vec<String> = self.servers.iter().map(|server| quoted(server)).collect();
        let mut text = format!("fastcgi {}", servers.join(" "));
        let of = |name: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!(" {name}={}", quoted(value))).unwrap_or_default()
        };
        text.push_str(&of("root", &root));
        text.push_str(&of("fallback", &fallback));
        if is_static {
            text.push_str(" static=#true");
        }
        self.properties.iter().for_each(|property| text.push_str(&format!(" {property}")));
        if !self.lines.is_empty() {
            text.push_str(&format!(" {{ {}; }}", self.lines.join("; ")));
        }
        OutlinedAnswer::line(text)
    }

    /// The expression of paths that are scripts.
    pub fn scripts(&self) -> String {
        let own = self.properties.iter().find_map(|property| property.strip_prefix("split=\"")?.strip_suffix('"'));
        format!("{}(?:/|$)", regex_syntax::escape(own.unwrap_or(".php")))
    }
}

#[cfg(test)]
mod tests {
    use super::{ServedFolder, Tries, hidden};

    #[test]
    fn what_is_hidden_is_a_path() {
        let check = |name: &str, root: &str, expected: Option<&[&str]>| {
            let seen = hidden(name, root);
            let seen: Option<Vec<&str>> = seen.as_ref().map(|all| all.iter().map(String::as_str).collect());
            assert_eq!(seen.as_deref(), expected, "{name} in {root}");
        };
        check(".git", "/srv", Some(&[]));
        check("*.sql", "/srv", Some(&["^/(?:.*/)?[^/]*\\.sql(?:/|$)"]));
        check("/srv/a/b", "/srv", Some(&["^/a/b(?:/|$)"]));
        check("/srv/a", "/srv/a/b", Some(&["^/"]));
        check("/srvs/a", "/srv", Some(&[]));
        check("/srv/a", "public", None);
        check("a/b", "public", Some(&["^/a/b(?:/|$)", "^/b(?:/|$)"]));
        check("{env.X}", "/srv", None);
    }

    #[test]
    fn the_folder_of_the_process_is_none() {
        let check = |written: &str, is_known: bool| {
            assert_eq!(matches!(ServedFolder::of(written), ServedFolder::Known(_)), is_known, "{written}");
        };
        check("/", true);
        check("public", true);
        check("{$ROOT:/srv}", true);
        for written in [".", "./", "a/..", "..", "", "{$ROOT:.}", "/srv/{host}"] {
            check(written, false);
        }
        assert!(ServedFolder::of("./public").is_relative());
    }

    #[test]
    fn a_folder_that_nothing_is_found_for_stays_one() {
        let check = |tries: &[&str], own: Option<&str>, fallback: Option<&str>| {
            let tries: Vec<String> = tries.iter().map(|one| (*one).to_owned()).collect();
            let seen = Tries::of(Some(&tries));
            assert_eq!((seen.own.as_deref(), seen.fallback.as_deref()), (own, fallback), "{tries:?}");
        };
        check(&["{path}.html", "{path}"], Some("{path}.html {path} {path}/"), None);
        check(&["{path}.html", "{path}", "=404"], Some("{path}.html {path}"), None);
        check(&["{path}", "{path}.html", "/index.html"], Some("{path} {path}.html"), Some("/index.html"));
        check(&["{path}", "index.html"], None, Some("/index.html"));
    }
}
