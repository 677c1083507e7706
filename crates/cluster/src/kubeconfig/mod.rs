//! A kubeconfig: where API servers are and who somebody is there, as the command line of Kubernetes has it. Several
//! files are one, of which the first word counts. What would give a token away to whoever answers is refused, and so is
//! what would be followed by half.

mod plugin;

pub use plugin::ExecPlugin;
use plugin::WrittenExec;

use crate::client::{Place, Token};
use crate::fault::Fault;
use crate::yaml;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::Secret;
use tidegate_outbound::{ClientIdentity, Trust};

/// Of one file: some hundred clusters with their certificates.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files that `KUBECONFIG` names.
const FILES_MAX: usize = 32;

/// All that the files say.
#[derive(Debug)]
pub struct Kubeconfig {
    /// As messages name it.
    file: PathBuf,
    current: Option<String>,
    contexts: Vec<NamedContext>,
    clusters: Vec<FromFile<NamedCluster>>,
    users: Vec<FromFile<NamedUser>>,
}

/// Paths in a file are relative to its folder.
#[derive(Debug)]
struct FromFile<T> {
    folder: PathBuf,
    entry: T,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct WrittenFile {
    current_context: String,
    contexts: Option<Vec<NamedContext>>,
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
}

#[derive(Debug, Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
    namespace: String,
}

#[derive(Debug, Deserialize)]
struct NamedCluster {
    name: String,
    cluster: ClusterEntry,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct ClusterEntry {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
    tls_server_name: Option<String>,
    proxy_url: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

/// Nothing of a user is shown.
impl std::fmt::Debug for NamedUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedUser").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    exec: Option<WrittenExec>,
    username: Option<String>,
    auth_provider: Option<serde_json::Value>,
    #[serde(rename = "as")]
    impersonated: Option<String>,
}

impl Kubeconfig {
    /// The file that is given, or those of `KUBECONFIG`, or `~/.kube/config`.
    pub fn find(given: Option<&Path>) -> Result<Kubeconfig, Fault> {
        if let Some(file) = given {
            return Kubeconfig::read(&[file.to_owned()]);
        }
        let listed: Vec<PathBuf> = env::var_os("KUBECONFIG").map(|list| env::split_paths(&list).collect()).unwrap_or_default();
        let listed: Vec<PathBuf> = listed.into_iter().filter(|file| !file.as_os_str().is_empty()).take(FILES_MAX).collect();
        if !listed.is_empty() {
            // Files that are not there are passed over, as `kubectl` does.
            let there: Vec<PathBuf> = listed.iter().filter(|file| file.exists()).cloned().collect();
            return Kubeconfig::read(if there.is_empty() { &listed[..1] } else { &there });
        }
        let home = env::home_dir().ok_or_else(|| Fault::Unasked {
            problem: "no kubeconfig is given, and there is no home folder to look for one".to_owned(),
        })?;
        Kubeconfig::read(&[home.join(".kube/config")])
    }

    pub fn read(files: &[PathBuf]) -> Result<Kubeconfig, Fault> {
        let file = files.first().cloned().unwrap_or_default();
        let mut read = Kubeconfig { file, current: None, contexts: Vec::new(), clusters: Vec::new(), users: Vec::new() };
        for file in files {
            read.add(file)?;
        }
        Ok(read)
    }

    fn add(&mut self, file: &Path) -> Result<(), Fault> {
        let unusable = |problem: String| Fault::NoAccount { file: file.to_owned(), problem };
        let text = String::from_utf8(contents(file).map_err(unusable)?).map_err(|_| unusable("is no text".to_owned()))?;
        let mut documents = yaml::documents(&text).map_err(unusable)?;
        let document = documents.pop().filter(|_| documents.is_empty()).ok_or_else(|| unusable("is no kubeconfig".to_owned()))?;
        // The message may quote what stands there.
        let written: WrittenFile = serde_json::from_value(document)
            .map_err(|_| unusable("has something of another type than a kubeconfig".to_owned()))?;
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        if self.current.is_none() && !written.current_context.is_empty() {
            self.current = Some(written.current_context);
        }
        self.contexts.extend(written.contexts.into_iter().flatten());
        let of_file = |entry| FromFile { folder: folder.clone(), entry };
        self.clusters.extend(written.clusters.into_iter().flatten().map(of_file));
        let of_file = |entry| FromFile { folder: folder.clone(), entry };
        self.users.extend(written.users.into_iter().flatten().map(of_file));
        Ok(())
    }

    /// The namespace of a context, by its name or the current one.
    pub fn namespace(&self, context: Option<&str>) -> Result<Option<&str>, Fault> {
        let namespace = &*self.context(context)?.namespace;
        Ok(Some(namespace).filter(|namespace| !namespace.is_empty()))
    }

    /// The API server of a context, by its name or the current one, and who we are there.
    pub fn place(&self, context: Option<&str>) -> Result<Place, Fault> {
        let context = self.context(context)?;
        let cluster = self.clusters.iter().find(|cluster| cluster.entry.name == context.cluster);
        let cluster = cluster.ok_or_else(|| self.unusable(format!("has no cluster `{}`", context.cluster)))?;
        let user = self.users.iter().find(|user| user.entry.name == context.user);
        if user.is_none() && !context.user.is_empty() {
            return Err(self.unusable(format!("has no user `{}`", context.user)));
        }
        let refused = |problem: String| self.unusable(problem);
        let (url, trust) = server(cluster).map_err(refused)?;
        let (identity, token) = match user {
            None => (None, Token::None),
            Some(user) => credentials(user, &url, cluster).map_err(refused)?,
        };
        let place = Place { url, trust, identity, token };
        place.is_exposed().then(|| Fault::Exposed { url: place.url.clone() }).map_or(Ok(place), Err)
    }

    fn context(&self, wanted: Option<&str>) -> Result<&Context, Fault> {
        let no_current = || self.unusable("names no current context; name one".to_owned());
        let name = wanted.or(self.current.as_deref()).ok_or_else(no_current)?;
        let found = self.contexts.iter().find(|context| context.name == name);
        Ok(&found.ok_or_else(|| self.unusable(format!("has no context `{name}`")))?.context)
    }

    fn unusable(&self, problem: String) -> Fault {
        Fault::NoAccount { file: self.file.clone(), problem }
    }
}

fn server(FromFile { folder, entry }: &FromFile<NamedCluster>) -> Result<(String, Trust), String> {
    let NamedCluster { name, cluster } = entry;
    if cluster.insecure_skip_tls_verify {
        return Err(format!(
            "says `insecure-skip-tls-verify` of the cluster `{name}`, which would give the token to whoever answers; name its \
             authority by `certificate-authority` instead"
        ));
    }
    if cluster.proxy_url.is_some() {
        return Err(format!("says `proxy-url` of the cluster `{name}`, and no proxy is asked here"));
    }
    if cluster.tls_server_name.is_some() {
        return Err(format!(
            "says `tls-server-name` of the cluster `{name}`, and the certificate has to be for the host of `server` here"
        ));
    }
    if cluster.server.is_empty() {
        return Err(format!("says no `server` of the cluster `{name}`"));
    }
    let data = cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty());
    let trust = match (data, &cluster.certificate_authority) {
        (Some(data), _) => Trust::Held(decoded(data, "certificate-authority-data")?.into()),
        (None, Some(file)) => Trust::File(folder.join(file)),
        (None, None) => Trust::System,
    };
    Ok((cluster.server.trim_end_matches('/').to_owned(), trust))
}

fn credentials(
    FromFile { folder, entry }: &FromFile<NamedUser>,
    url: &str,
    cluster: &FromFile<NamedCluster>,
) -> Result<(Option<ClientIdentity>, Token), String> {
    let NamedUser { name, user } = entry;
    let refused = [
        (user.username.is_some(), "a name and a password, which no API server takes any more"),
        (user.auth_provider.is_some(), "`auth-provider`, which is no more; its program is named by `exec` today"),
        (user.impersonated.is_some(), "`as`, and nobody else is spoken for here"),
    ];
    if let Some((_, what)) = refused.iter().find(|(is_said, _)| *is_said) {
        return Err(format!("says of the user `{name}` {what}"));
    }
    if let Some(exec) = &user.exec {
        let cluster = &cluster.entry.cluster;
        let plugin = Arc::new(ExecPlugin::new(exec, folder, url, cluster.certificate_authority_data.as_deref()));
        let identity = plugin.identity()?;
        return Ok((identity, Token::Plugin(plugin)));
    }
    let part = |data: &Option<String>, file: &Option<PathBuf>, what: &str| match (data, file) {
        (Some(data), _) if !data.is_empty() => decoded(data, what).map(Some),
        (_, Some(file)) => {
            let file = folder.join(file);
            contents(&file).map(Some).map_err(|problem| format!("names {}, which {problem}", file.display()))
        }
        (_, None) => Ok(None),
    };
    let chain = part(&user.client_certificate_data, &user.client_certificate, "client-certificate-data")?;
    let key = part(&user.client_key_data, &user.client_key, "client-key-data")?;
    let identity = match (chain, key) {
        (Some(chain), Some(key)) => {
            let unusable = |problem: String| format!("has a certificate of the user `{name}` that {problem}");
            Some(ClientIdentity::from_pem(&chain, &key).map_err(unusable)?)
        }
        (None, None) => None,
        (Some(_), None) => return Err(format!("has a certificate of the user `{name}` without its key")),
        (None, Some(_)) => return Err(format!("has a key of the user `{name}` without its certificate")),
    };
    let token = match (&user.token, &user.token_file) {
        (_, Some(file)) => Token::File(folder.join(file)),
        (Some(token), None) if !token.is_empty() => Token::Fixed(Secret::new(token.trim())),
        (_, None) => Token::None,
    };
    Ok((identity, token))
}

fn decoded(data: &str, what: &str) -> Result<Vec<u8>, String> {
    BASE64_STANDARD.decode(data.trim()).map_err(|_| format!("has `{what}` that is no base64"))
}

/// `Err` is a sentence without its subject.
fn contents(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) if bytes.len() as u64 > FILE_BYTES_MAX => Err(format!("has more than {FILE_BYTES_MAX} bytes")),
        Ok(_) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("is not there".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests;
