//! The other proxies: where they are found, and how each is started on a file.

use super::find;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Nginx,
    Haproxy,
    Caddy,
    Traefik,
    Envoy,
}

impl Peer {
    /// Of the program, of the folder of its cases, and as `tidegate import` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::Haproxy => "haproxy",
            Peer::Caddy => "caddy",
            Peer::Traefik => "traefik",
            Peer::Envoy => "envoy",
        }
    }

    /// What its file is called in a case.
    pub fn file(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx.conf",
            Peer::Haproxy => "haproxy.cfg",
            Peer::Caddy => "Caddyfile",
            Peer::Traefik => "traefik.yml",
            Peer::Envoy => "envoy.yaml",
        }
    }

    /// The program: of the system, or where the lab has put it. The pipeline installs nginx and HAProxy, so there they
    /// have to be.
    pub fn find(self) -> Option<PathBuf> {
        let of_the_lab = lab_cache().map(|cache| cache.join("bin").join(self.name())).filter(|path| path.is_file());
        let found = of_the_lab.or_else(|| find(self.name()));
        let is_installed = match self {
            Peer::Nginx | Peer::Haproxy => true,
            Peer::Caddy | Peer::Traefik | Peer::Envoy => false,
        };
        assert!(found.is_some() || !is_installed || std::env::var_os("CI").is_none(), "the pipeline has no {}", self.name());
        found
    }

    /// The arguments that run it in the foreground on `file`.
    pub fn arguments(self, file: &Path, folder: &Path) -> Vec<String> {
        let (file, folder) = (file.display().to_string(), folder.display().to_string());
        let list = |arguments: &[&str]| arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match self {
            Peer::Nginx => list(&["-p", &folder, "-e", "stderr", "-c", &file]),
            Peer::Haproxy => list(&["-db", "-f", &file]),
            Peer::Caddy => list(&["run", "--config", &file, "--adapter", "caddyfile"]),
            Peer::Traefik => list(&[&format!("--configFile={file}")]),
            Peer::Envoy => list(&["-c", &file, "--log-level", "warning", "--disable-hot-restart", "--concurrency", "1"]),
        }
    }

    /// The whole configuration around what a case has, where that is a fragment.
    pub fn whole(self, text: &str, folder: &Path) -> String {
        match self {
            Peer::Nginx => {
                let folder = folder.display();
                let process = format!("daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\n");
                if text.lines().any(|line| line.trim_start().starts_with("http {")) {
                    return format!("{process}{text}");
                }
                let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                    .map(|name| format!("    {name}_temp_path {folder}/temporary-{name};\n"))
                    .concat();
                format!("{process}events {{ }}\nhttp {{\n    access_log off;\n{temporary}{text}\n}}\n")
            }
            Peer::Haproxy | Peer::Caddy | Peer::Traefik | Peer::Envoy => text.to_owned(),
        }
    }
}

fn lab_cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(caches.join("tidegate-lab"))
}
