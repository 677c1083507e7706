//! Statements of nginx in annotations. One that is not known may have kept somebody out, so it shuts, unless whoever
//! runs the proxy has it left out.

use super::{Annotations, named};
use crate::finding::{FindingCode, Severity};
use crate::manner::Manner;
use crate::settings::UnknownSnippets;
use crate::snippets::{self, Fault, Ground, Moment, Read, Setting, Snippet, SnippetPlace, Statement, Told, template_of};
use std::sync::Arc;
use tidegate_cluster::Ingress;
use tidegate_model::{HostPattern, Step};

const SERVER: &str = "server-snippet";
const LOCATION: &str = "configuration-snippet";
const AUTH: &str = "auth-snippet";
/// Statements that are left out one after the other.
const LEFT_OUT_MAX: usize = 32;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner, unknown: UnknownSnippets) {
    let mut reading = SnippetReading { annotations, unknown, is_shut: false };
    let server = reading.read(SERVER, SnippetPlace::Server);
    let is_server_shut = std::mem::take(&mut reading.is_shut);
    let mut location = reading.read(LOCATION, SnippetPlace::Location);
    if let Some(of_all) = &reading.annotations.defaults.location_snippet {
        location = location.followed_by(of_all);
    }
    for setting in location.settings() {
        apply(setting, manner);
    }
    let (server, location, is_of_server) = reading.tried(server, location, manner);
    reading.auth(manner);
    let held = |snippet: Snippet| (!snippet.is_empty()).then(|| Arc::new(snippet));
    manner.snippets.shuts_hosts = is_server_shut || is_of_server;
    (manner.snippets.server, manner.snippets.location) = (held(server), held(location));
}

/// What becomes of each statement that is not simply taken, for whoever wants to know that beforehand.
pub fn fates(ingress: &Ingress, name: &str) -> Vec<String> {
    let place = match name {
        SERVER => SnippetPlace::Server,
        LOCATION => SnippetPlace::Location,
        AUTH => SnippetPlace::Auth,
        _ => return Vec::new(),
    };
    let text = named(ingress).find(|(known, _)| *known == name).map(|(_, text)| text).unwrap_or_default();
    fates_in(text, place)
}

/// Likewise of a key of the ConfigMap.
pub fn fates_of_key(name: &str, text: &str) -> Vec<String> {
    let place = match name {
        "server-snippet" => SnippetPlace::Server,
        "location-snippet" => SnippetPlace::Location,
        "global-auth-snippet" => SnippetPlace::Auth,
        "http-snippet" | "main-snippet" => SnippetPlace::Around,
        _ => return Vec::new(),
    };
    fates_in(text, place)
}

fn fates_in(text: &str, place: SnippetPlace) -> Vec<String> {
    let Read { snippet, remarks, .. } = snippets::read(text, place);
    let taken =
        snippet.statements.iter().map(|placed| (placed.line, format!("line {}: `{}` is taken", placed.line, placed.word)));
    let remarked = remarks.iter().map(|told| (told.line, sentence(told)));
    let mut all: Vec<(usize, String)> = taken.chain(remarked).collect();
    all.sort();
    all.into_iter().map(|(_, says)| says).collect()
}

fn sentence(Told { line, word, says }: &Told) -> String {
    format!("line {line}: `{word}`: {says}")
}

struct SnippetReading<'a, 'i> {
    annotations: &'a mut Annotations<'i>,
    unknown: UnknownSnippets,
    is_shut: bool,
}

impl SnippetReading<'_, '_> {
    fn read(&mut self, name: &str, place: SnippetPlace) -> Snippet {
        let text = self.annotations.text(name).unwrap_or_default();
        let Read { snippet, unknown, .. } = snippets::read(text, place);
        for told in &unknown {
            self.note(name, told);
        }
        snippet
    }

    fn note(&mut self, name: &str, told: &Told) {
        match self.unknown {
            UnknownSnippets::Shut => {
                self.is_shut = true;
                self.annotations.shut(name, &format!("{}: write it otherwise, or remove it", sentence(told)));
            }
            UnknownSnippets::Serve => {
                let message = format!("{}: everything is served without it", sentence(told));
                self.annotations.find(name, FindingCode::AnnotationNotTaken, Severity::Warning, message);
            }
        }
    }

    /// What can be had of both, and whether something of the server cannot.
    fn tried(&mut self, mut server: Snippet, mut location: Snippet, manner: &Manner) -> (Snippet, Snippet, bool) {
        let host = HostPattern::Exact("example.com".to_owned());
        let ground = Ground {
            host: &host,
            // What depends on the host, or on whom somebody believes, is looked at there.
            believes: true,
            is_asked: manner.forward_auth.is_some(),
            has_login: manner.auth.is_some(),
            rewrites: manner.rewrite.to.is_some(),
            has_networks: manner.has_networks(),
        };
        for _ in 0..LEFT_OUT_MAX {
            let Err(fault) = snippets::planned(&server, &location, ground) else { return (server, location, false) };
            let Fault { is_of_server, line, word, says } = &fault;
            let name = if *is_of_server { SERVER } else { LOCATION };
            self.note(name, &Told { line: *line, word: (*word).to_owned(), says: says.clone() });
            if self.unknown == UnknownSnippets::Shut {
                return (server, location, *is_of_server);
            }
            let snippet = if *is_of_server { &mut server } else { &mut location };
            if !snippet.leave_out(*line, word) {
                *snippet = Snippet::default();
            }
        }
        (Snippet::default(), Snippet::default(), false)
    }

    /// What the auth server is told besides. Without one there is nobody to be told.
    fn auth(&mut self, manner: &mut Manner) {
        if manner.forward_auth.is_none() {
            return;
        }
        let snippet = match self.annotations.text("auth-url") {
            Some(_) => self.read(AUTH, SnippetPlace::Auth),
            // Of who is asked for all Ingresses. Whoever has written it was told already what is wrong with it.
            None => {
                let text = self.annotations.defaults.global_auth.get(AUTH).map_or("", |text| text);
                snippets::read(text, SnippetPlace::Auth).snippet
            }
        };
        for placed in &snippet.statements {
            let Statement::SetRequestHeader { name, value } = &placed.statement else { continue };
            match template_of(value, Moment::Request, false) {
                Ok(value) => {
                    if let Some(auth) = &mut manner.forward_auth {
                        auth.step.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
                        auth.step.headers.push((name.clone(), value));
                    }
                }
                Err(says) => self.note(AUTH, &Told { line: placed.line, word: placed.word.to_owned(), says }),
            }
        }
    }
}

/// As the annotation that says the same.
fn apply(setting: &Setting, manner: &mut Manner) {
    let timeouts = &mut manner.options.timeouts;
    match setting {
        Setting::ConnectTimeout(time) => timeouts.connect = Some(*time),
        Setting::ReadTimeout(time) => {
            timeouts.first_byte = Some(*time);
            timeouts.idle = timeouts.idle.max(Some(*time));
        }
        Setting::SendTimeout(time) => timeouts.idle = timeouts.idle.max(Some(*time)),
        // Where the annotation has a bound, that stays.
        Setting::BodyMax(0) => {}
        Setting::BodyMax(bytes_max) => {
            let known = manner.steps.iter().find_map(|step| match step {
                Step::BodyLimit { bytes_max } => Some(*bytes_max),
                _ => None,
            });
            manner.steps.retain(|step| !matches!(step, Step::BodyLimit { .. }));
            manner.steps.push(Step::BodyLimit { bytes_max: known.map_or(*bytes_max, |known| known.min(*bytes_max)) });
        }
        Setting::ServerName(name) => _ = manner.pool.tls.name.get_or_insert_with(|| name.as_str().into()),
    }
}
