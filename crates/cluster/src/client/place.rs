//! Where the API server is and how we prove who we are. In a pod all of that is in the environment and in files of the
//! service account, whose token is replaced every hour, so it is read for each request.

use crate::fault::Fault;
use crate::kubeconfig::ExecPlugin;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_model::{KubernetesApi, Secret};
use tidegate_outbound::{ClientIdentity, Trust};

const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Of a token and of the file with the namespace's name; tokens have about 1 KB.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// An API server, and what it is shown.
pub struct Place {
    /// Without a slash at its end.
    pub url: String,
    pub trust: Trust,
    pub identity: Option<ClientIdentity>,
    pub token: Token,
}

/// What is sent in `Authorization`.
#[derive(Debug, Clone)]
pub enum Token {
    None,
    Fixed(Secret),
    File(PathBuf),
    /// A program that is run for it.
    Plugin(Arc<ExecPlugin>),
}

/// What a pod finds out about its cluster.
#[derive(Debug, Clone)]
pub struct Pod {
    pub host: String,
    pub port: String,
    /// The folder of its service account.
    pub account: PathBuf,
}

impl Pod {
    pub fn here() -> Result<Pod, Fault> {
        let (Ok(host), Ok(port)) = (std::env::var("KUBERNETES_SERVICE_HOST"), std::env::var("KUBERNETES_SERVICE_PORT")) else {
            return Err(Fault::NoCluster);
        };
        Ok(Pod { host, port, account: SERVICE_ACCOUNT.into() })
    }

    /// The namespace that the pod is in.
    pub fn namespace(&self) -> Result<String, Fault> {
        read_small(&self.account.join("namespace"))
    }
}

impl Place {
    /// As a pod knows it.
    pub fn of_pod(pod: &Pod) -> Place {
        let Pod { host, port, account } = pod;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        Place {
            url: format!("https://{host}:{port}"),
            trust: Trust::File(account.join("ca.crt")),
            identity: None,
            token: Token::File(account.join("token")),
        }
    }

    /// As a configuration says it.
    pub fn outside(api: &KubernetesApi) -> Result<Place, Fault> {
        let trust = api.root.clone().map_or(Trust::System, Trust::File);
        let (url, token) = (api.url.trim_end_matches('/').into(), Token::Fixed(api.token.clone()));
        let place = Place { url, trust, identity: None, token };
        if place.is_exposed() {
            return Err(Fault::Exposed { url: api.url.clone() });
        }
        Ok(place)
    }

    /// Whether a token would go over a network in plain text.
    pub fn is_exposed(&self) -> bool {
        !self.url.starts_with("https://") && !is_on_this_host(&self.url)
    }
}

impl Token {
    /// As it is now. Files of it are kept in memory by the kubelet, so nothing is waited for; a program that is asked
    /// for it may take a while, and is named for commands only.
    pub fn now(&self) -> Result<Option<Secret>, Fault> {
        match self {
            Token::None => Ok(None),
            Token::Fixed(token) => Ok(Some(token.clone())),
            Token::File(path) => read_small(path).map(|text| Some(Secret::new(text))),
            Token::Plugin(plugin) => plugin.token(),
        }
    }
}

/// As `kubectl proxy` is.
fn is_on_this_host(url: &str) -> bool {
    let uri: Option<http::Uri> = url.parse().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn read_small(path: &Path) -> Result<String, Fault> {
    let read = || {
        let mut text = String::new();
        File::open(path)?.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        std::io::Result::Ok(text)
    };
    let unusable = |error: std::io::Error| Fault::NoAccount { file: path.to_owned(), problem: error.to_string() };
    Ok(read().map_err(unusable)?.trim().to_owned())
}
