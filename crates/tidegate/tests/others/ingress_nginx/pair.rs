//! Debian's nginx with what ingress-nginx writes, and the program as the controller of a cluster with the same objects,
//! before the same servers.

use super::objects::{CREDENTIALS, Host, PASSWORDS, SERVICES};
use super::written::{self, Places};
use crate::imports::echo::Echo;
use crate::programs::wait_until_it_listens;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidegate_testkit::kubernetes::{ApiServer, TOKEN};
use tidegate_testkit::ports::Reservation;
use tidegate_testkit::{Authority, KeyKind, Program, Surroundings, get};

const INGRESS_NGINX: &str = "k8s.io/ingress-nginx";
const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");
const SHOWN: [&str; 2] = ["X-Forwarded-Prefix", "X-Real-IP"];

pub struct Pair {
    _folder: TempDir,
    nginx: Program,
    ours: Program,
    _cluster: ApiServer,
    _upstreams: Vec<Echo>,
    pub nginx_http: SocketAddr,
    pub nginx_https: SocketAddr,
    pub our_http: SocketAddr,
    pub our_https: SocketAddr,
    pub configuration: String,
}

impl Pair {
    pub fn start(nginx: &Path, hosts: &[Host]) -> Result<Pair, String> {
        let text = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(text)?;
        let shown = SHOWN.map(str::to_owned);
        let upstreams =
            SERVICES.iter().chain(&["nobody"]).map(|name| Echo::start(name, &shown)).collect::<Result<Vec<_>, _>>()?;
        let auth = auth_server()?;
        let mut reserved = (0..5).map(|_| Reservation::new()).collect::<Result<Vec<_>, _>>().map_err(text)?;
        let at = |number: usize| SocketAddr::from(([127, 0, 0, 1], reserved[number].port()));
        let [nginx_http, nginx_https, our_http, our_https, admin] = [0, 1, 2, 3, 4].map(at);
        let authority = Authority::new(folder.path(), "test")?;
        let mut pairs: BTreeMap<String, (PathBuf, PathBuf)> = BTreeMap::new();
        for (secret, name) in
            [("tls".to_owned(), "*.near.test".to_owned())].into_iter().chain(hosts.iter().map(Host::certificate))
        {
            if let Entry::Vacant(entry) = pairs.entry(secret) {
                let pair = authority.issue(&name, KeyKind::Ecdsa)?;
                entry.insert((pair.cert, pair.key));
            }
        }
        let file = |name: &str| folder.path().join(name).display().to_string();
        fs::write(file("users"), PASSWORDS).map_err(text)?;
        fs::write(file("token"), TOKEN).map_err(text)?;
        let upstream = |service: &str| {
            let place = SERVICES.iter().position(|name| *name == service).unwrap_or(SERVICES.len());
            upstreams[place].address
        };
        let places = Places {
            http: nginx_http,
            https: nginx_https,
            upstream: &upstream,
            auth,
            passwords: file("users"),
            certificate: &|secret| {
                let (certificate, key) = &pairs[secret];
                (certificate.display().to_string(), key.display().to_string())
            },
        };
        let configuration =
            whole(&hosts.iter().map(|host| written::servers(host, &places)).collect::<String>(), &places, folder.path());
        fs::write(file("nginx.conf"), &configuration).map_err(text)?;
        let base = format!(
            "admin \"{admin}\"\naccess-log \"off\"\nthreads 1\nlistener \"{our_http}\" {{ trusted-proxies \"127.0.0.0/8\"; }}\nlistener \"{our_https}\" {{ trusted-proxies \"127.0.0.0/8\"; }}\n"
        );
        fs::write(file("base.kdl"), base).map_err(text)?;
        let cluster = ApiServer::start().map_err(text)?;
        put_all(&cluster, hosts, &upstreams, auth, &pairs)?;
        reserved.clear();
        let arguments = ["-p", &file(""), "-e", "stderr", "-c", &file("nginx.conf")].map(str::to_owned);
        let nginx = Program::start_in(nginx, &arguments, folder.path(), &Surroundings::default())?;
        if let Err(fault) = wait_until_it_listens(nginx_http) {
            return Err(format!("{fault}\n{}\n{configuration}", nginx.output()));
        }
        let arguments = [
            "kubernetes",
            "run",
            "--config",
            &file("base.kdl"),
            "--api",
            &cluster.url(),
            "--token-file",
            &file("token"),
            "--http",
            &our_http.to_string(),
            "--https",
            &our_https.to_string(),
            "--status",
            "off",
            "--take-over",
            INGRESS_NGINX,
        ]
        .map(str::to_owned);
        let environment = vec![("STATE_DIRECTORY", file("state"))];
        let surroundings = Surroundings { environment, ..Surroundings::default() };
        let mut ours = Program::start_in(Path::new(PROGRAM), &arguments, folder.path(), &surroundings)?;
        let admin = admin.to_string();
        ours.wait_until("ready", || matches!(get(&admin, "/readyz"), Ok((200, _))))?;
        Ok(Pair {
            _folder: folder,
            nginx,
            ours,
            _cluster: cluster,
            _upstreams: upstreams,
            nginx_http,
            nginx_https,
            our_http,
            our_https,
            configuration,
        })
    }

    pub fn said(&self) -> String {
        format!("{}\n{}", self.nginx.output(), self.ours.output())
    }
}

fn whole(servers: &str, places: &Places<'_>, folder: &Path) -> String {
    let (folder, Places { http, https, upstream, .. }) = (folder.display(), places);
    let (certificate, key) = (places.certificate)("tls");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("    {name}_temp_path {folder}/temporary-{name};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log stderr crit;\nevents {{ }}\nhttp {{\n    access_log off;\n{temporary}    server_names_hash_bucket_size 128;\n    server_names_hash_max_size 4096;\n    proxy_http_version 1.1;\n    set_real_ip_from 127.0.0.0/8;\n    real_ip_header X-Forwarded-For;\n    real_ip_recursive on;\n    upstream nobody {{ server {}; }}\n    map $scheme $hsts {{ https \"max-age=31536000; includeSubDomains\"; default \"\"; }}\n    server {{ listen {http} default_server; listen {https} ssl default_server; ssl_certificate {certificate}; ssl_certificate_key {key}; return 404; }}\n{servers}}}\n",
        upstream("nobody")
    )
}

fn put_all(
    cluster: &ApiServer,
    hosts: &[Host],
    upstreams: &[Echo],
    auth: SocketAddr,
    pairs: &BTreeMap<String, (PathBuf, PathBuf)>,
) -> Result<(), String> {
    let encoded = |path: &Path| fs::read(path).map(|bytes| BASE64_STANDARD.encode(bytes)).map_err(|error| error.to_string());
    for (name, controller) in [("tidegate", "tidegate.dev/ingress"), ("nginx", INGRESS_NGINX)] {
        cluster.put(json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": name},
            "spec": {"controller": controller},
        }));
    }
    let served = SERVICES.iter().zip(upstreams).map(|(name, echo)| (*name, echo.address));
    for (name, address) in served.chain([("auth", auth)]) {
        for object in service(name, address) {
            cluster.put(object);
        }
    }
    cluster.put(secret("users", "Opaque", &[("auth", BASE64_STANDARD.encode(PASSWORDS))]));
    for (name, (cert, key)) in pairs {
        cluster.put(secret(name, "kubernetes.io/tls", &[("tls.crt", encoded(cert)?), ("tls.key", encoded(key)?)]));
    }
    for object in hosts.iter().flat_map(Host::objects) {
        cluster.put(object);
    }
    Ok(())
}

fn service(name: &str, address: SocketAddr) -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"namespace": "shop", "name": format!("{name}-1"), "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": address.port()}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": true}}],
        }),
    ]
}

fn secret(name: &str, kind: &str, data: &[(&str, String)]) -> Value {
    let data: serde_json::Map<String, Value> = data.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": name}, "type": kind, "data": data,
    })
}

/// Lets in who has the cookie `session=good`: 403 for `session=bad`, 401 without.
fn auth_server() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let Ok(reading) = stream.try_clone() else { return };
                let mut lines = BufReader::new(reading).lines();
                let mut status = "401 Unauthorized";
                while let Some(Ok(line)) = lines.next() {
                    if line.contains("session=good") {
                        status = "200 OK";
                    } else if line.contains("session=bad") {
                        status = "403 Forbidden";
                    }
                    if line.is_empty() {
                        let answer = format!("HTTP/1.1 {status}\r\nX-User: alice\r\nContent-Length: 0\r\n\r\n");
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                        status = "401 Unauthorized";
                    }
                }
            });
        }
    });
    Ok(address)
}

/// What a question says of itself to be let in.
pub const GOOD: [(&str, &str); 2] = [("Authorization", CREDENTIALS), ("Cookie", "session=good")];
