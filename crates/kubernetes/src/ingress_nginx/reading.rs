//! The keys one by one.

use super::blocked;
use super::keys::{ConfigKey, alike, key};
use super::process::{self, ProcessDefaults};
use crate::annotations::{self, Standing};
use crate::defaults::Defaults;
use crate::finding::{Finding, FindingCode, Severity};
use crate::ingress_names::is_object_name;
use crate::snippets::{self, Fault, Ground, Read, Snippet, SnippetPlace, Told};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_cluster::{ConfigMap, Key};
use tidegate_model::{Coding, Compress, HostPattern, KeepAlive, TlsVersion};

const SHOWN_CHARACTERS_MAX: usize = 80;
/// Of all values together, beyond what an annotation could have.
const VALUE_BYTES_MAX: usize = 256 << 10;

/// A ConfigMap while it is read, and what comes of it.
pub struct ConfigReading<'m> {
    values: BTreeMap<&'m str, &'m str>,
    pub defaults: Defaults,
    pub process: ProcessDefaults,
    pub keep_alive: KeepAlive,
    pub findings: Vec<Finding>,
}

/// As findings name a key.
pub fn field(name: &str) -> String {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS_MAX).collect();
    format!("data[{shown}]")
}

/// All that the ConfigMap says.
pub fn read(map: &ConfigMap) -> ConfigReading<'_> {
    let values = map.data.iter().map(|(name, value)| (&**name, value.trim())).filter(|(_, value)| !value.is_empty());
    let mut reading = ConfigReading {
        values: values.collect(),
        defaults: Defaults::of_ingress_nginx(),
        process: ProcessDefaults::default(),
        keep_alive: KeepAlive::default(),
        findings: Vec::new(),
    };
    reading.note_what_is_unknown(map);
    reading.note_what_is_not_taken();
    reading.read_annotations();
    reading.read_answers();
    reading.read_locations();
    reading.read_headers();
    reading.read_clients();
    reading.read_tls();
    reading.read_compression();
    reading.read_keep_alive();
    reading.read_snippets();
    process::read(&mut reading);
    reading
}

impl<'m> ConfigReading<'m> {
    pub(super) fn text(&self, name: &str) -> Option<&'m str> {
        self.values.get(name).copied()
    }

    pub(super) fn find(&mut self, name: &str, code: FindingCode, severity: Severity, message: String) {
        self.findings.push(Finding { field: field(name), code, severity, message });
    }

    /// A value that cannot be used, so that everything is as without the key.
    pub(super) fn leave_out(&mut self, name: &str, problem: &str) {
        let shown: String = self.text(name).unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let shown: String = shown.chars().take(SHOWN_CHARACTERS_MAX).collect();
        let message = format!("`{shown}` is left out: {problem}");
        self.find(name, FindingCode::SettingInvalid, Severity::Warning, message);
    }

    pub(super) fn leave_out_open(&mut self, name: &str, message: String) {
        self.find(name, FindingCode::SettingNotTaken, Severity::Warning, message);
    }

    /// A protection of all Ingresses that is not to be had.
    pub(super) fn shut(&mut self, name: &str, problem: &str) {
        self.defaults.is_shut = true;
        let message = format!("{problem}; until then everything of all Ingresses is answered with 503");
        self.find(name, FindingCode::ProtectionUnavailable, Severity::Error, message);
    }

    /// `true` and `false`, as Go reads them. What is neither is left out.
    pub(super) fn switch(&mut self, name: &str) -> Option<bool> {
        let is_on = annotations::switch(self.text(name)?);
        if is_on.is_none() {
            self.leave_out(name, "it is `true` or `false`");
        }
        is_on
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, name: &str, what: &str, fits: impl Fn(&T) -> bool) -> Option<T> {
        let number = self.text(name)?.parse().ok().filter(fits);
        if number.is_none() {
            self.leave_out(name, what);
        }
        number
    }

    /// As nginx writes times: a number of seconds, or of so many with a unit.
    pub(super) fn time(&mut self, name: &str, most: Duration) -> Option<Duration> {
        let text = self.text(name)?;
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let unit = match unit {
            "ms" => Some(Duration::from_millis(1)),
            "" | "s" => Some(Duration::from_secs(1)),
            "m" => Some(Duration::from_mins(1)),
            "h" => Some(Duration::from_hours(1)),
            "d" => Some(Duration::from_hours(24)),
            _ => None,
        };
        let time = unit.and_then(|unit| unit.checked_mul(number.parse().ok()?)).filter(|time| !time.is_zero());
        if time.is_none() {
            self.leave_out(name, "it is a time above zero, as in `60` or `60s`");
        }
        time.map(|time| time.min(most))
    }

    /// Networks between commas. `Err`: one of them is none.
    pub(super) fn networks(&self, name: &str) -> Option<Result<Vec<IpNet>, &'m str>> {
        let text = self.text(name)?;
        Some(listed(text).map(|one| annotations::network(one).ok_or(one)).collect())
    }

    /// Whatever their values are, since somebody has meant something by them.
    fn note_what_is_unknown(&mut self, map: &ConfigMap) {
        for name in map.data.keys().filter(|name| key(name).is_none()) {
            let meant = alike(name).map(|name| format!(": did you mean `{name}`?")).unwrap_or_default();
            let message = format!("there is no such key{meant}");
            self.find(name, FindingCode::SettingUnknown, Severity::Warning, message);
        }
    }

    fn note_what_is_not_taken(&mut self) {
        let values: Vec<(&str, &str)> = self.values.iter().map(|(name, value)| (*name, *value)).collect();
        for (name, value) in values {
            let Some(known) = key(name) else { continue };
            if value.len() > VALUE_BYTES_MAX {
                self.shut(known.name, "the value is longer than any that there is: shorten it");
                self.values.remove(name);
                continue;
            }
            match known.standing() {
                Standing::Same | Standing::Remarked | Standing::Needless => continue,
                Standing::Open | Standing::Closed if known.asks_for_nothing(value) => {}
                Standing::Open => {
                    self.process.refuses_tcp |= known.name == "stream-snippet";
                    let message = format!("this key is not taken: {}", reason(known, "everything is served without it"));
                    self.leave_out_open(known.name, message);
                }
                Standing::Closed => {
                    let reason = reason(known, "what it is about may not be served without it");
                    self.shut(known.name, &format!("this key is not taken: {reason}: remove it"));
                }
            }
            self.values.remove(name);
        }
    }

    /// Values of annotations, and of those about who says who may come in. Of each it is found out here whether it can
    /// be used, so that no Ingress is told of what it has not written.
    fn read_annotations(&mut self) {
        let mut of_all: BTreeMap<&str, (&ConfigKey, &str)> = BTreeMap::new();
        let mut of_auth: BTreeMap<&str, (&ConfigKey, &str)> = BTreeMap::new();
        for (name, value) in &self.values {
            let Some((known, annotation)) = key(name).and_then(|known| Some((known, known.annotation()?))) else { continue };
            let group = if annotation == known.name { &mut of_all } else { &mut of_auth };
            group.insert(annotation, (known, value));
        }
        self.defaults.annotations = self.usable(of_all);
        if of_auth.contains_key("auth-url") {
            self.defaults.global_auth = self.usable(of_auth);
        } else {
            for (known, _) in of_auth.into_values() {
                self.leave_out_open(known.name, "nobody is asked, since there is no `global-auth-url`".to_owned());
            }
        }
    }

    fn usable(&mut self, values: BTreeMap<&str, (&ConfigKey, &str)>) -> BTreeMap<Box<str>, Box<str>> {
        let written = values.iter().map(|(name, (_, value))| (*name, *value)).collect();
        let (findings, is_shut) = annotations::probe(&written);
        let mut usable: BTreeMap<Box<str>, Box<str>> =
            values.iter().map(|(name, (_, value))| ((*name).into(), (*value).into())).collect();
        for (name, (known, _)) in &values {
            let of_it = annotations::field(name);
            for Finding { code, message, .. } in findings.iter().filter(|finding| finding.field == of_it) {
                match code {
                    FindingCode::ProtectionUnavailable => {
                        let problem = message.split("; until then").next().unwrap_or_default().to_owned();
                        usable.remove(*name);
                        self.shut(known.name, &problem);
                    }
                    FindingCode::AnnotationNotTaken => self.leave_out_open(known.name, message.clone()),
                    _ => {
                        usable.remove(*name);
                        self.find(known.name, FindingCode::SettingInvalid, Severity::Warning, message.clone());
                    }
                }
            }
        }
        self.defaults.is_shut |= is_shut;
        usable
    }

    fn read_answers(&mut self) {
        const REDIRECT: &str = "it is 301, 302, 307 or 308, and 308 without it";
        const STATUS: &str = "it is a status from 400 to 599, and 503 without it";
        let is_error = |status: &u16| (400..=599).contains(status);
        if let Some(status) = self.number("http-redirect-code", REDIRECT, |code| [301, 302, 307, 308].contains(code)) {
            self.defaults.to_https_status = status;
        }
        if let Some(status) = self.number("limit-req-status-code", STATUS, is_error) {
            self.defaults.rate_status = status;
        }
        if let Some(status) = self.number("limit-conn-status-code", STATUS, is_error) {
            self.defaults.at_once_status = status;
        }
        self.defaults.sites.hsts = self.hsts();
    }

    fn hsts(&mut self) -> Option<Box<str>> {
        let is_wanted = self.switch("hsts").unwrap_or(true);
        let max_age = self.number("hsts-max-age", "it is a number of seconds", |_: &u64| true).unwrap_or(31_536_000);
        let mut value = format!("max-age={max_age}");
        if self.switch("hsts-include-subdomains").unwrap_or(true) {
            value.push_str("; includeSubDomains");
        }
        if self.switch("hsts-preload").unwrap_or(false) {
            value.push_str("; preload");
        }
        is_wanted.then(|| value.into())
    }

    fn read_locations(&mut self) {
        if let Some(paths) = self.text("no-tls-redirect-locations") {
            self.defaults.unredirected = listed(paths).map(Into::into).collect();
        }
        if let Some(paths) = self.text("no-auth-locations") {
            self.defaults.unasked = listed(paths).map(Into::into).collect();
        }
    }

    fn read_headers(&mut self) {
        if let Some(names) = self.text("global-allowed-response-headers") {
            self.defaults.allowed_headers = listed(names).map(|name| name.to_ascii_lowercase().into()).collect();
        }
        if let Some(names) = self.text("hide-headers") {
            let (names, wrong): (Vec<&str>, Vec<&str>) = listed(names).partition(|name| annotations::is_token(name));
            self.defaults.sites.hidden = names.into_iter().map(Into::into).collect();
            if !wrong.is_empty() {
                self.leave_out("hide-headers", "it is a list of names of fields, and those that are none hide nothing");
            }
        }
        self.defaults.tells_original_uri = self.switch("proxy-add-original-uri-header").unwrap_or(false);
        match self.config_map("proxy-set-headers") {
            Ok(map) => self.defaults.request_headers = map,
            Err(problem) => self.shut("proxy-set-headers", problem),
        }
        match self.config_map("add-headers") {
            Ok(map) => self.defaults.sites.answer_headers = map,
            Err(problem) => self.leave_out("add-headers", problem),
        }
    }

    fn config_map(&self, name: &str) -> Result<Option<Key>, &'static str> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let named = text.split_once('/').filter(|(namespace, name)| is_object_name(namespace) && is_object_name(name));
        let (namespace, name) = named.ok_or("it is the namespace and the name of a ConfigMap, as in `edge/headers`")?;
        Ok(Some(Key::new(namespace, name)))
    }

    fn read_clients(&mut self) {
        match self.networks("block-cidrs") {
            Some(Ok(networks)) => self.defaults.sites.denied = networks,
            Some(Err(wrong)) => {
                let wrong: String = wrong.chars().filter(|c| !c.is_control()).take(SHOWN_CHARACTERS_MAX).collect();
                self.shut("block-cidrs", &format!("`{wrong}` is not a network: write one, as in `10.0.0.0/8`, or remove it"));
            }
            None => {}
        }
        for (name, field) in [("block-user-agents", "user-agent"), ("block-referers", "referer")] {
            let Some(text) = self.text(name) else { continue };
            match blocked::conditions(text, field) {
                Ok(conditions) => self.defaults.sites.blocked.extend(conditions),
                Err(problem) => self.shut(name, &problem),
            }
        }
    }

    fn read_tls(&mut self) {
        self.defaults.sites.refuses_unknown = self.switch("ssl-reject-handshake").unwrap_or(false);
        let Some(text) = self.text("ssl-protocols") else { return };
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let has = |word: &str| words.contains(&word);
        self.defaults.sites.tls_min = match (has("TLSv1.2"), has("TLSv1.3")) {
            (true, _) => Some(TlsVersion::V1_2),
            (false, true) => Some(TlsVersion::V1_3),
            (false, false) => {
                self.leave_out("ssl-protocols", "TLS 1.2 and 1.3 are spoken, and neither is among these");
                None
            }
        };
    }

    /// One statement that is not known may have kept somebody out, of every Ingress.
    fn read_snippets(&mut self) {
        // What only tunes needs nothing, and nothing else is understood there.
        for name in ["http-snippet", "main-snippet"] {
            self.snippet(name, SnippetPlace::Around);
        }
        self.defaults.sites.snippet = self.snippet("server-snippet", SnippetPlace::Server);
        self.defaults.location_snippet = self.snippet("location-snippet", SnippetPlace::Location);
    }

    fn snippet(&mut self, name: &str, place: SnippetPlace) -> Option<Arc<Snippet>> {
        let Read { snippet, unknown, .. } = snippets::read(self.text(name)?, place);
        for Told { line, word, says } in &unknown {
            self.shut(name, &format!("line {line}: `{word}`: {says}: write it otherwise, or remove it"));
        }
        let (nothing, host) = (Snippet::default(), HostPattern::Exact("example.com".to_owned()));
        let (server, location) = if place == SnippetPlace::Server { (&snippet, &nothing) } else { (&nothing, &snippet) };
        if let Err(Fault { line, word, says, .. }) = snippets::planned(server, location, Ground::of_any(&host)) {
            self.shut(name, &format!("line {line}: `{word}`: {says}: write it otherwise, or remove it"));
        }
        (!snippet.is_empty()).then(|| Arc::new(snippet.of_all()))
    }

    fn read_compression(&mut self) {
        let of = [("use-gzip", Coding::Gzip), ("enable-brotli", Coding::Brotli)];
        let codings: Vec<Coding> =
            of.into_iter().filter(|(name, _)| self.switch(name) == Some(true)).map(|(_, coding)| coding).collect();
        let prefix = if codings.contains(&Coding::Gzip) { "gzip" } else { "brotli" };
        let bytes_min = self.number(&format!("{prefix}-min-length"), "it is a number of bytes", |_: &u64| true);
        let types = self.text(&format!("{prefix}-types")).map(|text| {
            let types = text.split_ascii_whitespace().filter(|one| is_media_type(one));
            types.map(|one| if one == "*" { "*/*".to_owned() } else { one.to_ascii_lowercase() }).collect::<Vec<String>>()
        });
        if codings.is_empty() {
            return;
        }
        let usual = Compress::default();
        let types = types.filter(|types| !types.is_empty()).map_or(usual.types, |mut types| {
            // nginx compresses pages whatever the list says.
            types.push("text/html".to_owned());
            types.sort();
            types.dedup();
            types
        });
        // The first is preferred, and nginx has brotli first where a client takes both.
        let codings = codings.into_iter().rev().collect();
        let bytes_min = bytes_min.unwrap_or(usual.bytes_min);
        self.defaults.sites.compress = Some(Compress { codings, bytes_min, types, level: usual.level, cross_site: false });
    }

    fn read_keep_alive(&mut self) {
        const CONNECTIONS: &str = "it is a number of connections";
        let of_connections = |number: &u32| (1..=KeepAlive::CONNECTIONS_MAX).contains(number);
        if self
            .text("upstream-keepalive-connections")
            .is_some_and(|text| text.parse::<u32>().is_ok_and(|n| n > KeepAlive::CONNECTIONS_MAX))
        {
            self.keep_alive.connections = KeepAlive::CONNECTIONS_MAX;
        } else if let Some(connections) = self.number("upstream-keepalive-connections", CONNECTIONS, of_connections) {
            self.keep_alive.connections = connections;
        }
        if let Some(requests) =
            self.number("upstream-keepalive-requests", "it is a number of requests", |number: &u32| *number > 0)
        {
            self.keep_alive.requests = Some(requests);
        }
        self.keep_alive.age = self.time("upstream-keepalive-time", Duration::from_hours(24));
        if let Some(idle) = self.time("upstream-keepalive-timeout", Duration::from_hours(1)) {
            self.keep_alive.idle = idle;
        }
    }
}

fn reason<'k>(known: &'k ConfigKey, usual: &'k str) -> &'k str {
    if known.remark().is_empty() { usual } else { known.remark() }
}

fn is_media_type(text: &str) -> bool {
    let is_part = |part: &str| part == "*" || !part.is_empty() && annotations::is_token(part);
    text == "*" || text.split_once('/').is_some_and(|(one, other)| is_part(one) && is_part(other))
}

/// Parts between commas, without blanks around them.
pub(super) fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}
