//! The files of a configuration as one text: those that a file includes stand where they are included, as the proxy
//! itself would read them. What is read from where is given; here is the order, and that no circle goes on.

use super::braces::{self, Statement};
use super::nginx::PACKAGED_PARAMS;
use super::source::SourceText;
use super::{Peer, nginx_dump};

/// A file by its name, with its text.
#[derive(Debug, Clone)]
pub struct NamedText {
    pub name: String,
    pub text: String,
}

/// What a pattern behind `include` stands for; `Err` says what is wrong with it.
pub type Includes<'i> = dyn Fn(&str) -> Result<Vec<NamedText>, String> + 'i;

/// An include of which nothing was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotIncluded {
    /// Where it stands in the whole text.
    pub at: usize,
    pub why: String,
}

/// Files within files go no deeper.
const DEPTH_MAX: usize = 16;
/// More files are not one configuration.
const FILES_MAX: usize = 2_000;
/// All texts together.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The text of these files, one behind another.
pub fn gather(peer: Peer, files: &[NamedText], includes: &Includes<'_>) -> Result<(SourceText, Vec<NotIncluded>), String> {
    if let (Peer::Nginx, [one]) = (peer, files)
        && let Some(dumped) = nginx_dump::files(&one.text)
    {
        return gather_all(peer, &dumped[..1], &|pattern| nginx_dump::included(&dumped, pattern));
    }
    if let [NamedText { name, text }] = files
        && matches!(peer, Peer::CaddyJson | Peer::Envoy)
        && text.trim().starts_with('{')
        && !text.trim().contains('\n')
    {
        // What a machine prints on one line is told of by lines all the same.
        let file = NamedText { name: name.clone(), text: super::tree::in_lines(text) };
        return gather_all(peer, &[file], includes);
    }
    gather_all(peer, files, includes)
}

/// The text of files of Compose that are named one by one: each is put over the one before it, whatever it is called.
pub fn gather_over(files: &[NamedText], includes: &Includes<'_>) -> Result<(SourceText, Vec<NotIncluded>), String> {
    gather_with(Peer::TraefikLabels, files, includes, &|_| true)
}

fn gather_all(peer: Peer, files: &[NamedText], includes: &Includes<'_>) -> Result<(SourceText, Vec<NotIncluded>), String> {
    gather_with(peer, files, includes, &stands_over)
}

fn gather_with(
    peer: Peer,
    files: &[NamedText],
    includes: &Includes<'_>,
    is_over: &dyn Fn(&str) -> bool,
) -> Result<(SourceText, Vec<NotIncluded>), String> {
    let mut gathering = Gathering { peer, includes, source: SourceText::default(), not_included: Vec::new(), open: Vec::new() };
    for (index, file) in files.iter().enumerate() {
        if index > 0 {
            gathering.source.add_own(between(peer));
            if matches!(peer, Peer::TraefikLabels) && is_over(&file.name) {
                gathering.source.add_own(&format!("{}: true\n---\n", crate::traefik::OVER));
            }
        }
        gathering.add(file)?;
    }
    Ok((gathering.source, gathering.not_included))
}

/// Whether Compose puts what a file says over what the one before it says.
fn stands_over(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    OVERRIDES.contains(&name)
}

/// The files that Compose reads beside its first one without being told.
pub const OVERRIDES: [&str; 4] =
    ["compose.override.yaml", "compose.override.yml", "docker-compose.override.yaml", "docker-compose.override.yml"];

/// What stands between two files.
fn between(peer: Peer) -> &'static str {
    match peer {
        Peer::Traefik
        | Peer::TraefikLabels
        | Peer::TraefikManifest
        | Peer::Envoy
        | Peer::Kubernetes
        | Peer::Compose
        | Peer::Yaml => "\n---\n",
        Peer::Nginx | Peer::HaProxy | Peer::Caddy | Peer::CaddyJson | Peer::Apache | Peer::Toml | Peer::Json => "\n",
    }
}

struct Gathering<'g> {
    peer: Peer,
    includes: &'g Includes<'g>,
    source: SourceText,
    not_included: Vec<NotIncluded>,
    /// The names of the files that are being read, each within the one before.
    open: Vec<String>,
}

impl Gathering<'_> {
    fn add(&mut self, file: &NamedText) -> Result<(), String> {
        if self.open.contains(&file.name) {
            return Err(format!("{} includes itself, by way of {}", file.name, self.open.join(", ")));
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("{}: files include one another deeper than {DEPTH_MAX}", file.name));
        }
        if self.source.files().count() >= FILES_MAX {
            return Err(format!("{}: there are more than {FILES_MAX} files", file.name));
        }
        if self.source.text.len() + file.text.len() > BYTES_MAX {
            return Err(format!("{}: all files together are more than {} MiB", file.name, BYTES_MAX >> 20));
        }
        self.open.push(file.name.clone());
        let number = self.source.add_file(&file.name, &file.text);
        let mut done = 0;
        for include in self.includes_in(&file.text) {
            match (self.includes)(&include.pattern) {
                Ok(files) if include.is_known && files.iter().all(|file| self.is_as_packaged(&file.text, 0)) => {}
                Err(_) if include.is_known => {}
                Ok(files) => {
                    self.source.add(number, done, include.start);
                    for file in &files {
                        self.add(file)?;
                        self.source.add_own("\n");
                    }
                    done = include.end;
                }
                Err(why) => {
                    let at = self.source.text.len() + (include.start - done);
                    self.not_included.push(NotIncluded { at, why });
                }
            }
        }
        self.source.add(number, done, file.text.len());
        self.open.pop();
        Ok(())
    }

    /// Whether a file says no more than those of this name do that come with nginx.
    fn is_as_packaged(&self, text: &str, depth: usize) -> bool {
        let is_of_package = |statement: &Statement| match statement.name() {
            "types" | "load_module" | "fastcgi_index" | "fastcgi_split_path_info" => true,
            "fastcgi_param" | "uwsgi_param" | "scgi_param" => PACKAGED_PARAMS.contains(&statement.argument()),
            "set" => statement.argument() == "$path_info",
            "try_files" => statement.arguments() == ["$fastcgi_script_name", "=404"],
            "proxy_set_header" => FIELDS.iter().any(|field| statement.argument().eq_ignore_ascii_case(field)),
            "include" => {
                let files = (self.includes)(statement.argument());
                depth < DEPTH_MAX
                    && is_known(statement.argument())
                    && files.iter().flatten().all(|file| self.is_as_packaged(&file.text, depth + 1))
            }
            _ => false,
        };
        braces::of_nginx(text).iter().all(is_of_package)
    }

    fn includes_in(&self, text: &str) -> Vec<Include> {
        match self.peer {
            Peer::Nginx => {
                let mut found = Vec::new();
                collect_nginx(text, &braces::of_nginx(text), &mut found);
                found.sort_by_key(|include| include.start);
                found
            }
            Peer::Caddy => {
                let one = |import: crate::caddy::FileImport| Include {
                    pattern: import.pattern,
                    start: import.start,
                    end: import.end,
                    is_known: false,
                };
                crate::caddy::includes(text).into_iter().map(one).collect()
            }
            Peer::HaProxy
            | Peer::CaddyJson
            | Peer::Traefik
            | Peer::TraefikLabels
            | Peer::TraefikManifest
            | Peer::Envoy
            | Peer::Apache
            | Peer::Kubernetes
            | Peer::Compose
            | Peer::Yaml
            | Peer::Toml
            | Peer::Json => Vec::new(),
        }
    }
}

/// A statement that stands for the text of other files.
struct Include {
    pattern: String,
    start: usize,
    /// Behind its `;`.
    end: usize,
    /// Whether it is called like one that comes with nginx.
    is_known: bool,
}

/// What servers are told by Debian's `proxy_params`.
const FIELDS: [&str; 4] = ["Host", "X-Real-IP", "X-Forwarded-For", "X-Forwarded-Proto"];

/// Lists of types and parameters say what is done here without a word, and are left as they stand, unless they are
/// there and say something else as well.
fn is_known(pattern: &str) -> bool {
    const KNOWN: [&str; 8] = [
        "mime.types",
        "fastcgi_params",
        "fastcgi.conf",
        "uwsgi_params",
        "scgi_params",
        "proxy_params",
        "fastcgi-php.conf",
        "modules-enabled/*.conf",
    ];
    KNOWN.iter().any(|known| pattern.ends_with(known))
}

fn collect_nginx(text: &str, statements: &[Statement], found: &mut Vec<Include>) {
    for statement in statements {
        if statement.name() == "include" && statement.arguments().len() == 1 {
            let end = text[statement.starts[1]..].find(';').map_or(text.len(), |length| statement.starts[1] + length + 1);
            let pattern = statement.argument().to_owned();
            found.push(Include { is_known: is_known(&pattern), pattern, start: statement.start(), end });
        }
        collect_nginx(text, statement.inside(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::{NamedText, gather};
    use crate::Peer;

    fn named(name: &str, text: &str) -> NamedText {
        NamedText { name: name.into(), text: text.into() }
    }

    #[test]
    fn an_included_file_stands_in_its_place() {
        let includes = |pattern: &str| match pattern {
            "sites/*" => Ok(vec![named("sites/a", "server { listen 80; }"), named("sites/b", "server {\n listen 81; }")]),
            "self" => Ok(vec![named("main", "include self;")]),
            _ => Err("there is no such file".to_owned()),
        };
        let main = named("main", "http {\n include sites/*;\n include none;\n include mime.types;\n}\n");
        let (source, left) = gather(Peer::Nginx, &[main], &includes).expect("it is read");
        assert_eq!(
            source.text,
            "http {\n server { listen 80; }\nserver {\n listen 81; }\n\n include none;\n include mime.types;\n}\n"
        );
        let place = |word: &str| {
            let place = source.place(source.text.find(word).expect("the word"));
            source.written_place(&place)
        };
        assert_eq!(place("listen 81"), "sites/b, line 2");
        assert_eq!(place("listen 80"), "sites/a, line 1");
        assert_eq!(place("include none"), "main, line 3");
        assert_eq!(left.len(), 1);
        assert!(source.text[left[0].at..].starts_with("include none"));
        // What is called like a file that comes with nginx is read where it says more.
        let said = |text: &'static str| {
            let includes = move |_: &str| Ok(vec![named("fastcgi_params", text)]);
            gather(Peer::Nginx, &[named("main", "include fastcgi_params;\n")], &includes).expect("it is read").0.text
        };
        assert_eq!(said("fastcgi_param  HTTPS $https;\nfastcgi_param REMOTE_USER $remote_user;\n"), "include fastcgi_params;\n");
        assert_eq!(said("deny all;"), "deny all;\n\n");
        let circle = gather(Peer::Nginx, &[named("main", "include self;")], &includes).expect_err("a circle");
        assert!(circle.contains("main includes itself"), "{circle}");
    }
}
