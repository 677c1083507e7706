//! A Secret as a certificate with its key, or as users with their passwords.

use crate::finding::{FindingCode, Severity};
use crate::manner::UsersForm;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tidegate_certs::{CertificateFacts, LoadedCertificate};
use tidegate_cluster::{Key, Secret, SecretBytes, SecretState};
use tidegate_model::{Certificate, HeldPem, HostPattern, Pem};
use tidegate_passwords::Users;

/// The names of values in a Secret of the type `kubernetes.io/tls`.
pub const CERTIFICATE: &str = "tls.crt";
pub const PRIVATE_KEY: &str = "tls.key";
/// The name of the value with users, of ingress-nginx.
const USERS: &str = "auth";

/// A certificate that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub certificate: Certificate,
    facts: Arc<CertificateFacts>,
}

/// Names of users with the hashes of their passwords. `Err` says in one sentence why there are none.
type ListedUsers = Result<Vec<(String, tidegate_model::Secret)>, String>;

/// What is known of a Secret that objects refer to.
#[derive(Debug, Default)]
pub struct KnownPair {
    /// The last that could be used: what came after it takes nothing away.
    good: Option<Pair>,
    problem: Option<Problem>,
    /// As it is now.
    held: Option<Arc<Secret>>,
    /// Users in what is held, read when somebody asks for them.
    of_file: OnceLock<ListedUsers>,
    of_map: OnceLock<ListedUsers>,
}

/// Why a Secret as it is now is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// Nothing has been answered so far, so nothing is to be said.
    Unasked,
    Missing,
    /// Nobody can tell, for that reason.
    Unavailable(String),
    Broken(String),
}

impl KnownPair {
    /// Takes in what is known now, and gives whether anything differs.
    pub fn take_in(&mut self, state: &SecretState) -> bool {
        let (good, problem) = match state {
            SecretState::Unasked => (None, Some(Problem::Unasked)),
            SecretState::Missing => (None, Some(Problem::Missing)),
            SecretState::Fault(fault) => (None, Some(Problem::Unavailable(fault.to_string()))),
            SecretState::Held(secret) => match Pair::read(secret) {
                Ok(pair) => (Some(pair), None),
                Err(problem) => (None, Some(Problem::Broken(problem))),
            },
        };
        let held = match state {
            SecretState::Held(secret) => Some(secret.clone()),
            SecretState::Unasked | SecretState::Missing | SecretState::Fault(_) => None,
        };
        let is_other = good.is_some() && good != self.good;
        let differs = is_other || problem != self.problem || held != self.held;
        (self.held, self.of_file, self.of_map) = (held, OnceLock::new(), OnceLock::new());
        if is_other {
            self.good = good;
        }
        self.problem = problem;
        differs
    }

    /// Whether nobody else has put anything there: it is missing, or we have written it.
    pub fn is_free(&self) -> bool {
        match &self.held {
            Some(secret) => secret.is_obtained,
            None => self.problem == Some(Problem::Missing),
        }
    }

    pub fn pair(&self) -> Option<&Pair> {
        self.good.as_ref()
    }

    /// The Secret as it is now; `Err` says why there is none. `None`: nobody can tell so far.
    pub fn held(&self, key: &Key) -> Option<Result<&Secret, String>> {
        if let Some(secret) = &self.held {
            return Some(Ok(secret));
        }
        match &self.problem {
            None | Some(Problem::Unasked | Problem::Broken(_)) => None,
            Some(Problem::Missing) => Some(Err(format!("there is no Secret `{key}`: make it, or name another one"))),
            Some(Problem::Unavailable(reason)) => Some(Err(format!("the Secret `{key}` cannot be had: the API server {reason}"))),
        }
    }

    /// The users that it has now: what it had before may be those that are to be kept out. `None`: nobody can tell so
    /// far.
    pub fn users(&self, key: &Key, form: UsersForm) -> Option<Result<&[(String, tidegate_model::Secret)], String>> {
        let secret = match self.held(key)? {
            Ok(secret) => secret,
            Err(problem) => return Some(Err(problem)),
        };
        let listed = match form {
            UsersForm::File => self.of_file.get_or_init(|| users_of_file(secret)),
            UsersForm::Map => self.of_map.get_or_init(|| users_of_map(secret)),
        };
        let unusable = |problem: &String| format!("the Secret `{key}` cannot be used: {problem}");
        Some(listed.as_ref().map(Vec::as_slice).map_err(unusable))
    }

    /// What is to be said of whoever refers to it.
    pub fn finding(&self, key: &Key) -> Option<(FindingCode, Severity, String)> {
        let (stays, severity) = match &self.good {
            Some(_) => ("the certificate that it had before is served", Severity::Warning),
            None => ("its certificate is not served", Severity::Error),
        };
        let (code, message) = match self.problem.as_ref()? {
            Problem::Unasked => return None,
            Problem::Missing => {
                (FindingCode::SecretMissing, format!("there is no Secret `{key}`, so {stays}: make it, or name another one"))
            }
            Problem::Unavailable(reason) => {
                (FindingCode::SecretUnavailable, format!("the Secret `{key}` cannot be had, so {stays}: the API server {reason}"))
            }
            Problem::Broken(problem) => {
                (FindingCode::SecretInvalid, format!("the Secret `{key}` cannot be used, so {stays}: {problem}"))
            }
        };
        Some((code, severity, message))
    }
}

/// No fault repeats what stands in a line.
fn users_of_file(secret: &Secret) -> ListedUsers {
    let file = secret.data.get(USERS).map(SecretBytes::reveal).ok_or_else(|| format!("it has no `{USERS}`"))?;
    Users::parse(file).map_err(|faults| {
        let told: Vec<String> = faults.iter().take(1).map(ToString::to_string).collect();
        format!("in `{USERS}`, {}", told.join(""))
    })?;
    let text = String::from_utf8_lossy(file);
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim_end);
    let users = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).filter_map(|line| line.split_once(':'));
    Ok(users.map(|(name, rest)| user(name, rest.split(':').next().unwrap_or_default())).collect())
}

fn users_of_map(secret: &Secret) -> ListedUsers {
    let mut listed = Vec::new();
    for (name, hash) in &secret.data {
        let hash = std::str::from_utf8(hash.reveal()).map_err(|_| format!("`{name}` is no text"))?.trim();
        Users::listed([(&**name, hash)]).map_err(|(_, fault)| format!("of `{name}`, {fault}"))?;
        listed.push(user(name, hash));
    }
    if listed.is_empty() { Err("it has no users".to_owned()) } else { Ok(listed) }
}

fn user(name: &str, hash: &str) -> (String, tidegate_model::Secret) {
    (name.to_owned(), tidegate_model::Secret::new(hash))
}

impl Pair {
    /// `Err` says in one sentence what is wrong, and nothing of what stands there.
    fn read(secret: &Secret) -> Result<Pair, String> {
        let value = |name: &str| match secret.data.get(name).map(SecretBytes::reveal) {
            Some([]) => Err(format!("its `{name}` is empty")),
            Some(value) => Ok(value),
            None => Err(format!("it has no `{name}`")),
        };
        let (certificate, key) = (value(CERTIFICATE)?, value(PRIVATE_KEY)?);
        let loaded = LoadedCertificate::from_pem((Path::new(CERTIFICATE), certificate), Some((Path::new(PRIVATE_KEY), key)));
        let loaded = loaded.map_err(|error| error.message())?;
        let held = |pem: &[u8]| Pem::Held(HeldPem::new(pem));
        let certificate = Certificate { cert: held(certificate), key: Some(held(key)) };
        Ok(Pair { certificate, facts: loaded.facts })
    }

    /// Whom the certificate is for, as a message says it.
    pub fn names(&self) -> String {
        /// A certificate with a hundred names would bury the sentence.
        const SHOWN: usize = 3;
        let names: Vec<String> = self.facts.names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        match self.facts.names.len() {
            0 => "nobody".to_owned(),
            all if all > SHOWN => format!("{} and {} more", names.join(", "), all - SHOWN),
            _ => names.join(", "),
        }
    }

    pub fn covers(&self, host: &HostPattern) -> bool {
        self.facts.covers(host)
    }
}
