//! `tidegate demo`: HTTPS with the internal CA in front of an embedded upstream, both on this machine, and a line to
//! try it with.

use super::{fail, run};
use crate::cli::Sharing;
use std::fs;
use std::io::{Write, stdout};
use std::net::TcpListener;
use std::process::ExitCode;
use tidegate_admin::token;
use tidegate_control::Source;

/// Ports tried after the wanted one.
const PORTS_TRIED: u16 = 100;

pub fn run(port: u16) -> ExitCode {
    let Some((https, upstream, admin)) = free_ports(port) else {
        return fail(&format!("no three free ports from {port} on\n  help: name another with --port"));
    };
    let text = configuration(https, upstream, admin);
    let source =
        Source::Text { name: "<demo>".into(), text: text.clone(), directory: std::env::current_dir().unwrap_or_default() };
    let state_dir = tidegate_certs::default_state_dir().join("demo");
    let root = state_dir.join("internal-ca").join("root.crt");
    let shown = root.clone();
    let ended = run::serve(
        || source,
        state_dir.clone(),
        run::Life { watch: false, ends_with_terminal: true, sharing: Sharing { share_port: false }, objects: None },
        move || {
            println!("Tidegate runs. This is its configuration:\n\n{text}");
            println!("Try it:\n\n    curl --cacert {} https://localhost:{https}/\n", shown.display());
            println!("Metrics: curl http://127.0.0.1:{admin}/metrics    Stop: Ctrl-C");
        },
    );
    // Somebody may have the CA trusted, so it is the same the next time.
    let _ = fs::remove_file(state_dir.join(token::FILE_NAME));
    if root.exists() {
        // The terminal may have gone, which has ended it.
        let _ = writeln!(stdout(), "Only the CA of the demonstration stays, in {0}; `rm -r {0}` removes it", state_dir.display());
    }
    ended
}

fn configuration(https: u16, upstream: u16, admin: u16) -> String {
    format!(
        r#"edition "2026"
admin "127.0.0.1:{admin}"

site "https://localhost:{https}" {{
    tls "internal"
    response-header "Served-By" "tidegate"
    proxy "127.0.0.1:{upstream}"
}}

// The embedded upstream: any HTTP server would do. It believes what the proxy in front of it says of the client.
listener "127.0.0.1:{upstream}" {{ trusted-proxies "127.0.0.0/8"; }}
site "http://127.0.0.1:{upstream}" {{
    respond 200 body="Hello from the upstream. You asked for {{uri}}, and came by {{request.header.x-forwarded-proto}} from {{request.header.x-forwarded-for}}.\n"
}}
"#
    )
}

fn free_ports(first: u16) -> Option<(u16, u16, u16)> {
    let mut free = (first..first.saturating_add(PORTS_TRIED)).filter(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    Some((free.next()?, free.next()?, free.next()?))
}
