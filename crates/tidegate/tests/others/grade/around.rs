//! Between other proxies: HAProxy in front, which says whose connection it brings, and nginx behind, which asks for
//! names, versions of HTTP and certificates, or shows one that must not be trusted.

use crate::grade::{HEAD, PROGRAM};
use crate::programs::{find, run, wait_until_it_listens};
use std::fs;
use std::path::Path;
use tidegate_testkit::case::Places;
use tidegate_testkit::proxy::Proxy;
use tidegate_testkit::{Program, Surroundings};

/// One process, with all that it writes in the folder of the test. `{upstream}` is where it listens.
const NGINX: &str = "daemon off; master_process off; pid {dir}/nginx.pid; error_log stderr; events {}
http {
    access_log off; default_type text/plain; ssl_protocols TLSv1.2 TLSv1.3;
    client_body_temp_path {dir}/1; proxy_temp_path {dir}/2; fastcgi_temp_path {dir}/3; uwsgi_temp_path {dir}/4; scgi_temp_path {dir}/5;
SERVERS
}
";

/// Starts a server on its configuration file. The ports of `names` are free until then, and it listens at the last of
/// them when this returns.
fn server(program: &Path, places: &mut Places, (file, text): (&str, &str), arguments: &[&str], names: &[&str]) -> Program {
    let path = places.folder().join(file);
    fs::write(&path, places.fill(text).expect("filled in")).expect("a file");
    let listeners = names.iter().map(|name| places.upstream_listener(name, "127.0.0.1").expect("a port"));
    let address = listeners.map(|listener| listener.local_addr().expect("an address")).last().expect("a name");
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).chain([path.display().to_string()]).collect();
    let surroundings = Surroundings { has_descendants: true, ..Surroundings::default() };
    let server = Program::start_in(program, &arguments, places.folder(), &surroundings).expect("it starts");
    wait_until_it_listens(address).unwrap_or_else(|error| panic!("{error}\n{}", server.output()));
    server
}

/// The body of an answer; curl's words when there is none.
fn get(curl: &Path, arguments: &[&str]) -> String {
    run(curl, &[&["-q", "-sS", "--noproxy", "*"], arguments].concat(), "").text
}

/// HAProxy understands what a header says besides the addresses, checksum included, and is understood.
#[test]
fn haproxy_says_and_understands_extensions_of_headers() {
    let (Some(haproxy), Some(curl)) = (find("haproxy"), find("curl")) else { return };
    let mut places = Places::new().expect("a folder");
    let both = "defaults
    timeout connect 10s
    timeout client 30s
    timeout server 30s
listen behind
    mode http
    bind 127.0.0.1:{upstream} accept-proxy
    http-request return status 200 content-type text/plain lf-string \"%[fc_pp_authority] %[fc_pp_unique_id] %[req.hdr(x-request-id)] %[src]\"
listen front
    mode tcp
    bind 127.0.0.1:{upstream:front}
    unique-id-format lb-4711
    server tidegate 127.0.0.1:{port} send-proxy-v2 proxy-v2-options unique-id,crc32c
";
    let haproxy = server(&haproxy, &mut places, ("haproxy.cfg", both), &["-db", "-f"], &["", "front"]);
    let sites = r#"
listener ":{port}" { accept-proxy-protocol from="127.0.0.1"; }
site "https://here.test:{port}" "https://here.test:{port:own}" {
    tls cert="{cert:here.test}" key="{key:here.test}"
    proxy "127.0.0.1:{upstream}" { send-proxy-protocol "v2" tlv="authority,alpn,unique-id,ssl,crc32c"; }
}
"#;
    let front = places.fill("{upstream:front}").expect("a port");
    let mut proxy =
        Proxy::start_in(places, PROGRAM, &format!("{HEAD}{sites}"), &[], &Surroundings::default()).expect("it starts");
    let own = proxy.places.fill("{port:own}").expect("a port");
    let root = proxy.places.folder().join("main-ca.pem").display().to_string();
    let asked = |port: &str| {
        let (url, resolve) = (format!("https://here.test:{port}/"), format!("here.test:{port}:127.0.0.1"));
        get(&curl, &["--interface", "127.0.0.2", "--cacert", &root, "--resolve", &resolve, &url])
    };
    let told = || format!("{}\n{}", proxy.program.output(), haproxy.output());
    let body = asked(&front);
    let [authority, id, request, client] = words(&body).unwrap_or_else(|| panic!("{body}\n{}", told()));
    assert_eq!((authority, id, client), ("here.test", "lb-4711", "127.0.0.2"), "{}", told());
    assert_eq!(request.len(), 32, "{body}");
    let body = asked(&own);
    let [authority, id, request, client] = words(&body).unwrap_or_else(|| panic!("{body}\n{}", told()));
    assert_eq!((authority, id, client), ("here.test", request, "127.0.0.2"), "{}", told());
}

fn words(body: &str) -> Option<[&str; 4]> {
    body.split_whitespace().collect::<Vec<_>>().try_into().ok()
}

/// One port has a site that is decrypted here and a name that is not, and all of it comes through a load balancer.
#[test]
fn haproxy_brings_the_client_to_sites_and_to_servers_behind() {
    let (Some(haproxy), Some(nginx), Some(curl)) = (find("haproxy"), find("nginx"), find("curl")) else { return };
    let mut places = Places::new().expect("a folder");
    let servers = "    server {
        listen 127.0.0.1:{upstream} ssl proxy_protocol;
        ssl_certificate {cert:there.test}; ssl_certificate_key {key:there.test};
        return 200 \"$proxy_protocol_addr $ssl_server_name\";
    }";
    let behind = server(&nginx, &mut places, ("nginx.conf", &NGINX.replace("SERVERS", servers)), &["-e", "stderr", "-c"], &[""]);
    let front = "defaults
    mode tcp
    timeout connect 10s
    timeout client 30s
    timeout server 30s
listen v1
    bind 127.0.0.1:{upstream:v1}
    server tidegate 127.0.0.1:{port} send-proxy
listen v2
    bind 127.0.0.1:{upstream:v2}
    server tidegate 127.0.0.1:{port} send-proxy-v2
";
    let front = server(&haproxy, &mut places, ("haproxy.cfg", front), &["-db", "-f"], &["v1", "v2"]);
    let ports = ["{upstream:v1}", "{upstream:v2}"].map(|port| places.fill(port).expect("a port"));
    let sites = r#"
listener ":{port}" { accept-proxy-protocol from="127.0.0.1"; }
site "https://here.test:{port}" { tls cert="{cert:here.test}" key="{key:here.test}"; respond 200 body="{client.ip} {tls.sni}"; }
tcp ":{port}" {
    sni "there.test" { proxy "127.0.0.1:{upstream}" { send-proxy-protocol "v2"; }; }
}
"#;
    let proxy = Proxy::start_in(places, PROGRAM, &format!("{HEAD}{sites}"), &[], &Surroundings::default()).expect("it starts");
    let root = proxy.places.folder().join("main-ca.pem").display().to_string();
    for (port, version) in ports.iter().zip(["1.2", "1.3"].iter().cycle()) {
        for name in ["here.test", "there.test"] {
            let (url, resolve) = (format!("https://{name}:{port}/"), format!("{name}:{port}:127.0.0.1"));
            // Another address than HAProxy's own, so it can only come from the header.
            let body =
                get(&curl, &["--interface", "127.0.0.2", "--cacert", &root, "--resolve", &resolve, "--tls-max", version, &url]);
            let told = || format!("{}\n{}\n{}", proxy.program.output(), front.output(), behind.output());
            assert_eq!(body, format!("127.0.0.2 {name}"), "by port {port}\n{}", told());
        }
    }
}

/// nginx as the server of a pool: it is asked for the name that was configured, speaks HTTP/2, is shown our
/// certificate, and has to show a good one.
#[test]
fn nginx_is_verified_and_verifies() {
    let (Some(nginx), Some(curl)) = (find("nginx"), find("curl")) else { return };
    let mut places = Places::new().expect("a folder");
    let servers = "    server {
        listen 127.0.0.1:{upstream} ssl http2;
        ssl_certificate {cert:api.test}; ssl_certificate_key {key:api.test};
        ssl_client_certificate {ca}; ssl_verify_client on;
        return 200 \"$ssl_server_name $server_protocol $ssl_protocol $ssl_client_s_dn\";
    }";
    let behind = server(&nginx, &mut places, ("nginx.conf", &NGINX.replace("SERVERS", servers)), &["-e", "stderr", "-c"], &[""]);
    let pool = |name: &str, tls: &str| {
        format!(
            "pool \"{name}\" {{ server \"https://127.0.0.1:{{upstream}}\"; tls sni=\"api.test\" {tls}; }}\nsite \"http://{name}.test:{{port}}\" {{ proxy \"{name}\"; }}\n"
        )
    };
    const CERTIFICATE: &str = "cert=\"{cert:proxy.test:client}\" key=\"{key:proxy.test:client}\"";
    let config = [
        HEAD.to_owned(),
        pool("good", &format!("ca=\"{{ca}}\" {CERTIFICATE}")),
        pool("older", &format!("ca=\"{{ca}}\" {CERTIFICATE}")).replace("server \"", "protocol \"http1\"; server \""),
        pool("nobody", "ca=\"{ca}\""),
        pool("system", CERTIFICATE),
        pool("other", &format!("ca=\"{{ca:other}}\" {CERTIFICATE}")),
        pool("named", &format!("ca=\"{{ca}}\" {CERTIFICATE}")).replace("sni=\"api.test\"", "sni=\"else.test\""),
        pool("blind", &format!("verify=#false {CERTIFICATE}")).replace("sni=\"api.test\"", "sni=\"else.test\""),
    ];
    let mut proxy = Proxy::start_in(places, PROGRAM, &config.concat(), &[], &Surroundings::default()).expect("it starts");
    let port = proxy.address.port();
    let ask = |name: &str| {
        let resolve = format!("{name}.test:{port}:127.0.0.1");
        get(&curl, &["--resolve", &resolve, "-w", " with %{http_code}", &format!("http://{name}.test:{port}/")])
    };
    let check = |name: &str, expected: &str| {
        let body = ask(name);
        assert!(body.contains(expected), "{name}: {expected} is not in {body}\n{}\n{}", proxy.program.output(), behind.output());
    };
    check("good", "api.test HTTP/2.0 TLSv1.3 CN=proxy.test with 200");
    check("older", "api.test HTTP/1.1 TLSv1.3 CN=proxy.test with 200");
    check("blind", "else.test HTTP/2.0 TLSv1.3 CN=proxy.test with 200");
    check("nobody", "No required SSL certificate was sent");
    for name in ["system", "other", "named"] {
        check(name, " with 502");
    }
    // The reason code stands in the answer and in the access log; what to mend stands here.
    for (name, cause) in
        [("system", "nobody who is trusted"), ("other", "nobody who is trusted"), ("named", "not valid for else.test")]
    {
        let of_pool = format!("\"pool\":\"{name}\"");
        proxy.wait_for_log(&of_pool).expect("a line about it");
        let stderr = proxy.program.stderr();
        let line = stderr.lines().find(|line| line.contains(&of_pool) && line.contains("tls_failed"));
        assert!(line.is_some_and(|line| line.contains(cause)), "{name}: {cause} is not in\n{stderr}");
    }
}
