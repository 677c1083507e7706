//! A program that says who we are: it is run when a token is needed, and what it prints is an `ExecCredential`
//! (client.authentication.k8s.io). It has so long and may print so much.

use crate::fault::Fault;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tidegate_model::Secret;
use tidegate_outbound::ClientIdentity;

/// From its start to its end: those of clouds ask a server, and are done in a second or two.
const RUNS_WITHIN: Duration = Duration::from_secs(30);
/// Of what it prints.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// How often somebody looks whether it has ended.
const LOOK: Duration = Duration::from_millis(10);
/// A token is asked for anew so long before it ends.
const RENEWED_BEFORE: SignedDuration = SignedDuration::from_secs(60);
/// Versions that are spoken.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WrittenExec {
    api_version: String,
    command: String,
    args: Option<Vec<String>>,
    env: Option<Vec<Variable>>,
    provide_cluster_info: bool,
}

#[derive(Clone, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

/// The program, and what it said last.
pub struct ExecPlugin {
    program: PathBuf,
    args: Vec<String>,
    /// Shown to nobody: passwords are handed over so.
    env: Vec<Variable>,
    /// What it is told of the cluster.
    info: Value,
    version: String,
    within: Duration,
    known: Mutex<Option<Credential>>,
}

#[derive(Clone)]
struct Credential {
    token: Option<Secret>,
    chain_and_key: Option<(String, String)>,
    expires: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExecCredential {
    api_version: String,
    kind: String,
    status: Option<CredentialStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CredentialStatus {
    expiration_timestamp: Option<String>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl fmt::Debug for ExecPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecPlugin").field("program", &self.program).finish_non_exhaustive()
    }
}

impl ExecPlugin {
    /// `folder` is that of its file: a program that is named by a path is looked for there, any other as a shell does.
    pub fn new(written: &WrittenExec, folder: &Path, url: &str, authority: Option<&str>) -> ExecPlugin {
        let is_path = written.command.contains('/');
        let program = if is_path { folder.join(&written.command) } else { written.command.clone().into() };
        let mut spec = json!({"interactive": false});
        if written.provide_cluster_info {
            spec["cluster"] = json!({"server": url, "certificate-authority-data": authority});
        }
        ExecPlugin {
            program,
            args: written.args.clone().unwrap_or_default(),
            env: written.env.clone().unwrap_or_default(),
            info: json!({"apiVersion": written.api_version, "kind": "ExecCredential", "spec": spec}),
            version: written.api_version.clone(),
            within: RUNS_WITHIN,
            known: Mutex::new(None),
        }
    }

    /// The token, from the last run or from one that is made now. Whoever asks waits for it.
    pub fn token(&self) -> Result<Option<Secret>, Fault> {
        self.credential().map(|credential| credential.token).map_err(|problem| Fault::Unasked { problem })
    }

    /// The certificate, if it gives one. That is asked for once: a connection's identity does not change.
    pub fn identity(&self) -> Result<Option<ClientIdentity>, String> {
        let credential = self.credential()?;
        let Some((chain, key)) = &credential.chain_and_key else { return Ok(None) };
        let identity = ClientIdentity::from_pem(chain.as_bytes(), key.as_bytes());
        identity.map(Some).map_err(|problem| self.said(&format!("gives a certificate that {problem}")))
    }

    fn credential(&self) -> Result<Credential, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let ends_soon = |expires: Timestamp| expires.duration_since(Timestamp::now()) < RENEWED_BEFORE;
        if let Some(credential) = &*known
            && !credential.expires.is_some_and(ends_soon)
        {
            return Ok(credential.clone());
        }
        let credential = self.run()?;
        *known = Some(credential.clone());
        Ok(credential)
    }

    fn run(&self) -> Result<Credential, String> {
        if !VERSIONS.contains(&&*self.version) {
            return Err(self.said("is to speak a version that is not known here"));
        }
        let mut command = Command::new(&self.program);
        command.args(&self.args).envs(self.env.iter().map(|variable| (&variable.name, &variable.value)));
        command.env("KUBERNETES_EXEC_INFO", self.info.to_string());
        // What it has to say to people goes where our own words go.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(|error| self.said(&format!("cannot be started: {error}")))?;
        let outcome = self.await_output(&mut child);
        if outcome.is_err() {
            // The program may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.understood(&outcome?)
    }

    fn await_output(&self, child: &mut Child) -> Result<Vec<u8>, String> {
        let began = Instant::now();
        let too_late = || self.said(&format!("is not done within {} s", self.within.as_secs_f32()));
        let broken = |error: io::Error| self.said(&format!("cannot be read: {error}"));
        let Some(stdout) = child.stdout.take() else { return Err(self.said("has no output")) };
        let (give, given) = mpsc::channel();
        let read = move || {
            let mut output = Vec::new();
            let outcome = stdout.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).map(|_| output);
            // Nobody waits any more when it was too late.
            let _ = give.send(outcome);
        };
        thread::Builder::new().name("exec-plugin".to_owned()).spawn(read).map_err(broken)?;
        let output = match given.recv_timeout(self.within) {
            Ok(output) => output.map_err(broken)?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Err(too_late()),
        };
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(self.said(&format!("prints more than {OUTPUT_BYTES_MAX} bytes")));
        }
        loop {
            match child.try_wait().map_err(broken)? {
                Some(status) if status.success() => return Ok(output),
                Some(status) => return Err(self.said(&format!("ends with {status}"))),
                None if began.elapsed() >= self.within => return Err(too_late()),
                None => thread::sleep(LOOK),
            }
        }
    }

    /// What it printed is repeated nowhere.
    fn understood(&self, output: &[u8]) -> Result<Credential, String> {
        let unknown = || self.said("prints something else than an ExecCredential");
        let ExecCredential { api_version, kind, status } = serde_json::from_slice(output).map_err(|_| unknown())?;
        let status = status.filter(|_| kind == "ExecCredential" && api_version == self.version).ok_or_else(unknown)?;
        let expires = match &status.expiration_timestamp {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| unknown())?),
        };
        let chain_and_key = match (status.client_certificate_data, status.client_key_data) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return Err(self.said("gives a certificate or a key without the other")),
        };
        let token = status.token.filter(|token| !token.is_empty()).map(Secret::new);
        if token.is_none() && chain_and_key.is_none() {
            return Err(self.said("gives neither a token nor a certificate"));
        }
        Ok(Credential { token, chain_and_key, expires })
    }

    fn said(&self, problem: &str) -> String {
        format!("names the program {}, which {problem}", self.program.display())
    }

    #[cfg(test)]
    pub fn with_patience(written: &WrittenExec, folder: &Path, within: Duration) -> ExecPlugin {
        ExecPlugin { within, ..ExecPlugin::new(written, folder, "https://api.example", None) }
    }
}
