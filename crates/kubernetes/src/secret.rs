//! A Secret as a certificate with its key.

use crate::finding::{FindingCode, Severity};
use std::path::Path;
use std::sync::Arc;
use tidegate_certs::{CertificateFacts, LoadedCertificate};
use tidegate_cluster::{Key, Secret, SecretBytes, SecretState};
use tidegate_model::{Certificate, HeldPem, HostPattern, Pem};

/// The names of values in a Secret of the type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const PRIVATE_KEY: &str = "tls.key";

/// A certificate that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub certificate: Certificate,
    facts: Arc<CertificateFacts>,
}

/// What is known of a Secret that objects refer to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownPair {
    /// The last that could be used: what came after it takes nothing away.
    good: Option<Pair>,
    problem: Option<Problem>,
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
        let is_other = good.is_some() && good != self.good;
        let differs = is_other || problem != self.problem;
        if is_other {
            self.good = good;
        }
        self.problem = problem;
        differs
    }

    pub fn pair(&self) -> Option<&Pair> {
        self.good.as_ref()
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
