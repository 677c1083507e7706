//! The proxies under test: where their programs are, what they say of themselves, and the configuration that each gets.
//! The configurations do the same work; what is equal and what cannot be is in the README.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use crate::net::Error;
use crate::run::child;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerKind {
    Tidegate,
    /// A second Tidegate, with its access log on.
    TidegateLogging,
    Haproxy,
    Nginx,
    /// This program's own blind relay: the floor.
    Relay,
}

/// What was found of a peer.
#[derive(Debug, Clone, Serialize)]
pub struct Peer {
    pub kind: PeerKind,
    pub program: PathBuf,
    /// What it says of its version and its TLS library.
    pub version: Vec<String>,
}

/// Addresses and files that a configuration names.
#[derive(Debug, Clone)]
pub struct Places {
    pub folder: PathBuf,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
    pub backend: SocketAddr,
}

impl PeerKind {
    pub const ALL: [PeerKind; 5] =
        [PeerKind::Tidegate, PeerKind::TidegateLogging, PeerKind::Haproxy, PeerKind::Nginx, PeerKind::Relay];

    pub fn name(self) -> &'static str {
        match self {
            PeerKind::Tidegate => "tidegate",
            PeerKind::TidegateLogging => "tidegate-logging",
            PeerKind::Haproxy => "haproxy",
            PeerKind::Nginx => "nginx",
            PeerKind::Relay => "relay",
        }
    }

    pub fn speaks_tls(self) -> bool {
        self != PeerKind::Relay
    }

    /// Looks for the program: where the user says, else beside this one (the project's own programs), else where systems keep them.
    pub fn find(self, given: &[(String, PathBuf)]) -> Option<Peer> {
        let program_name = match self {
            PeerKind::Tidegate | PeerKind::TidegateLogging => "tidegate",
            PeerKind::Haproxy => "haproxy",
            PeerKind::Nginx => "nginx",
            PeerKind::Relay => "tidegate-bench",
        };
        let own = std::env::current_exe().ok()?;
        let given = given.iter().find(|(name, _)| name == program_name).map(|(_, program)| program.clone());
        let program = match (self, given) {
            (PeerKind::Relay, _) => own,
            (_, Some(program)) => program,
            (PeerKind::Tidegate | PeerKind::TidegateLogging, None) => own.parent()?.join(program_name),
            (PeerKind::Haproxy | PeerKind::Nginx, None) => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                // Daemons live in the system folders, which are not on everybody's path.
                let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
                folders.map(|folder| folder.join(program_name)).find(|program| program.is_file())?
            }
        };
        program.is_file().then(|| Peer { kind: self, version: self.version(&program), program })
    }

    fn version(self, program: &Path) -> Vec<String> {
        let (argument, wanted): (&str, &[&str]) = match self {
            PeerKind::Tidegate | PeerKind::TidegateLogging => ("version", &[""]),
            PeerKind::Haproxy => ("-vv", &["HAProxy version", "Built with OpenSSL", "Running on OpenSSL"]),
            PeerKind::Nginx => ("-V", &["nginx version", "built with"]),
            PeerKind::Relay => ("--version", &[""]),
        };
        let Ok(output) = Command::new(program).arg(argument).output() else { return Vec::new() };
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter(|line| !line.is_empty() && wanted.iter().any(|start| line.starts_with(start)));
        lines.map(str::to_owned).collect()
    }

    /// The name and text of the configuration file.
    pub fn configuration(self, places: &Places) -> Option<(&'static str, String)> {
        match self {
            PeerKind::Tidegate => Some(("tidegate.kdl", tidegate_configuration(places, "off"))),
            PeerKind::TidegateLogging => {
                let log = places.folder.join("access.log").display().to_string();
                Some(("tidegate-logging.kdl", tidegate_configuration(places, &log)))
            }
            PeerKind::Haproxy => Some(("haproxy.cfg", haproxy_configuration(places))),
            PeerKind::Nginx => Some(("nginx.conf", nginx_configuration(places))),
            PeerKind::Relay => None,
        }
    }
}

impl Peer {
    /// The command that runs it in the foreground, pinned to `core`. Its configuration stands in `places.folder` already.
    pub fn command(&self, core: usize, places: &Places) -> Result<Command, Error> {
        let mut command = child::pinned(core, &self.program)?;
        let file = self.kind.configuration(places).map(|(name, _)| places.folder.join(name)).unwrap_or_default();
        match self.kind {
            PeerKind::Tidegate | PeerKind::TidegateLogging => command.args(["run", "--config"]).arg(file),
            PeerKind::Haproxy => command.args(["-db", "-f"]).arg(file),
            PeerKind::Nginx => command.args(["-e", "stderr", "-p"]).arg(&places.folder).arg("-c").arg(file),
            PeerKind::Relay => {
                command.args(["relay", "--listen", &places.listen.to_string(), "--to", &places.backend.to_string()])
            }
        };
        Ok(command)
    }
}

fn tidegate_configuration(places: &Places, access_log: &str) -> String {
    let Places { folder, listen, admin, backend } = places;
    let folder = folder.display();
    let port = listen.port();
    format!(
        r#"threads 1
access-log "{access_log}"
admin "{admin}"
site "https://localhost:{port}" {{
    tls cert="{folder}/cert.pem" key="{folder}/key.pem"
    proxy "{backend}"
}}
"#
    )
}

fn haproxy_configuration(places: &Places) -> String {
    let Places { folder, listen, backend, .. } = places;
    let folder = folder.display();
    format!(
        "global
    nbthread 1
    maxconn 8000
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
    ssl-default-bind-options ssl-min-ver TLSv1.3

defaults
    mode http
    http-reuse always
    timeout connect 5s
    timeout client 300s
    timeout server 300s
    timeout http-keep-alive 300s

frontend tls
    bind {listen} ssl crt {folder}/combined.pem alpn h2,http/1.1
    default_backend application

backend application
    server application {backend}
"
    )
}

fn nginx_configuration(places: &Places) -> String {
    let Places { folder, listen, backend, .. } = places;
    let folder = folder.display();
    // Started by root, it would hand its worker to another user, who cannot reach the folder.
    let user = if rustix::process::geteuid().is_root() { "user root root;\n" } else { "" };
    format!(
        "{user}daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr error;
events {{
    worker_connections 16384;
}}
http {{
    access_log off;
    client_body_temp_path {folder}/nginx-body;
    proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-fastcgi;
    uwsgi_temp_path {folder}/nginx-uwsgi;
    scgi_temp_path {folder}/nginx-scgi;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    upstream application {{
        server {backend};
        keepalive 128;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {listen} ssl http2;
        server_name localhost;
        ssl_certificate {folder}/cert.pem;
        ssl_certificate_key {folder}/key.pem;
        ssl_protocols TLSv1.3;
        ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
        location / {{
            proxy_pass http://application;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_names_its_places() {
        let places = Places {
            folder: "/tmp/folder".into(),
            listen: "127.0.0.1:1001".parse().unwrap(),
            admin: "127.0.0.1:1002".parse().unwrap(),
            backend: "127.0.0.1:1003".parse().unwrap(),
        };
        for kind in PeerKind::ALL.into_iter().filter(|kind| kind.speaks_tls()) {
            let (_, text) = kind.configuration(&places).unwrap();
            for wanted in ["/tmp/folder/", ":1001", "127.0.0.1:1003"] {
                assert!(text.contains(wanted), "{}: {wanted}", kind.name());
            }
            assert_eq!(text.matches('{').count(), text.matches('}').count());
        }
        assert!(PeerKind::TidegateLogging.configuration(&places).unwrap().1.contains("/tmp/folder/access.log"));
        assert_eq!(PeerKind::Relay.configuration(&places), None);
    }

    #[test]
    fn a_given_program_that_is_not_there_is_absent() {
        assert!(PeerKind::Haproxy.find(&[("haproxy".into(), "/nowhere/haproxy".into())]).is_none());
        assert!(PeerKind::Relay.find(&[]).is_some());
    }
}
