//! curl: HTTP/2 and HTTP/1.1, TLS 1.2 at most, and a certificate of its own.

use crate::grade::{internal_root, start};
use crate::programs::{Said, find, run};
use std::path::Path;

#[test]
fn curl_gets_what_it_asks_for() {
    let Some(curl) = find("curl") else { return };
    let mut proxy = start(
        r#"
site "https://default.localhost:{port}" { respond 200 body="{tls.version} {tls.sni}"; }
site "https://both.localhost:{port}" { tls "internal" { min "1.2"; }; respond 200 body="{tls.version}"; }
site "https://new.localhost:{port}" { tls "internal" { min "1.3"; }; respond 200 body="{tls.version}"; }
site "https://clients.localhost:{port}" {
    tls "internal" { client-auth ca="{ca}"; }
    respond 200 body="{tls.client.subject} {tls.client.verified}"
}
site "https://asked.localhost:{port}" {
    tls "internal" { client-auth ca="{ca}" mode="request"; }
    respond 200 body="<{tls.client.subject}> {tls.client.verified}"
}
"#,
    );
    let root = internal_root(&proxy);
    let [ours, others] = ["{pem:ops:client}", "{pem:ops@other:client}"].map(|file| proxy.places.fill(file).expect("a file"));
    let ask = |name: &str, arguments: &[&str]| fetch(&curl, proxy.address.port(), &root, name, arguments);
    let check = |name: &str, arguments: &[&str], expected: &str| {
        let said = ask(name, arguments);
        assert_eq!((said.is_success, said.text.as_str()), (true, expected), "{name} {arguments:?}\n{}", proxy.program.output());
    };
    for (name, sni) in [("default.localhost", " default.localhost"), ("both.localhost", "")] {
        check(name, &[], &format!("1.3{sni} over 2"));
        check(name, &["--http1.1"], &format!("1.3{sni} over 1.1"));
        check(name, &["--tls-max", "1.2"], &format!("1.2{sni} over 2"));
        check(name, &["--tls-max", "1.2", "--no-alpn"], &format!("1.2{sni} over 1.1"));
    }
    check("new.localhost", &[], "1.3 over 2");
    let refused = |name: &str, arguments: &[&str], expected: &str| {
        let said = ask(name, arguments);
        assert!(!said.is_success && said.text.contains(expected), "{name} {arguments:?}: {}", said.text);
    };
    refused("new.localhost", &["--tls-max", "1.2"], "alert protocol version");
    let stranger = proxy.places.folder().join("other-ca.pem").display().to_string();
    refused("default.localhost", &["--cacert", &stranger], "SSL certificate problem");

    for arguments in [&["--cert", &ours][..], &["--cert", &ours, "--tls-max", "1.2", "--http1.1"]] {
        let version = if arguments.len() == 2 { "2" } else { "1.1" };
        check("clients.localhost", arguments, &format!("CN=ops yes over {version}"));
        check("asked.localhost", arguments, &format!("<CN=ops> yes over {version}"));
    }
    check("asked.localhost", &[], "<> no over 2");
    // For a client of TLS 1.3 the handshake is over, and over HTTP/2 this one sends before it reads. The alert reaches
    // it all the same.
    for _ in 0..10 {
        refused("clients.localhost", &[], "alert certificate required");
    }
    refused("clients.localhost", &["--http1.1"], "alert certificate required");
    refused("clients.localhost", &["--tls-max", "1.2"], "alert");
    refused("clients.localhost", &["--cert", &others], "alert");
    refused("asked.localhost", &["--cert", &others], "alert");
}

/// The body, and behind it over which version of HTTP it came; or what curl complains of.
fn fetch(curl: &Path, port: u16, root: &str, name: &str, arguments: &[&str]) -> Said {
    let (url, resolve) = (format!("https://{name}:{port}/"), format!("{name}:{port}:127.0.0.1"));
    let first = ["-q", "-sS", "--noproxy", "*", "--cacert", root, "--resolve", &resolve, "-w", " over %{http_version}"];
    let all: Vec<&str> = first.into_iter().chain(arguments.iter().copied()).chain([url.as_str()]).collect();
    run(curl, &all, "")
}
