//! `admin "127.0.0.1:9180"`: where metrics and health are served.

use crate::diagnostics::Diagnostic;
use crate::lowering::{Line, Lowering, Read};
use crate::placeholders::Text;
use crate::table::{Argument, Block, Count, Directive, Kind, Lower, Place, Repeat};
use std::net::SocketAddr;
use tidegate_model::Admin;

pub static ADMIN: Directive = Directive {
    name: "admin",
    places: &[Place::Top],
    repeat: Repeat::Once,
    arguments: &[Argument {
        name: "address",
        kind: Kind::ChoiceOr(&["off"], "an address, as in `\"127.0.0.1:9180\"` or `\"unix:/run/tidegate.sock\"`"),
        count: Count::One,
        summary: "An IP address and a port; `unix:` and a path; or `off`.",
    }],
    properties: &[],
    block: Block::None,
    summary: "Where `/metrics`, `/healthz` and `/readyz` are served.",
    details: "It has no login, so an address that others can reach is a warning.",
    default: "`127.0.0.1:9180`",
    example: "admin \"unix:/run/tidegate.sock\"",
    lower: Lower::Top(lower),
};

fn lower(lowering: &mut Lowering<'_>, line: &Line<'_>) {
    lowering.spans.admin = line.argument(0).map(|value| value.location.clone());
    let text = match line.read_argument(lowering, 0) {
        Some(Read::Choice(..)) => {
            lowering.configuration.admin = Admin::Off;
            return;
        }
        Some(Read::Text(text)) => text,
        _ => return,
    };
    if let Some(path) = text.value.strip_prefix("unix:") {
        if path.is_empty() {
            lowering
                .report(text.error("bad-address", "the path of the socket is missing").help("write `unix:/run/tidegate.sock`"));
            return;
        }
        lowering.configuration.admin = Admin::Unix(lowering.sources.file(text.location.file).directory.join(path));
        return;
    }
    match text.value.parse::<SocketAddr>() {
        Ok(address) => {
            if !address.ip().is_loopback() {
                warn_of_open_address(lowering, &text, address);
            }
            lowering.configuration.admin = Admin::Tcp(address);
        }
        Err(_) => lowering.report(not_an_address(&text)),
    }
}

fn warn_of_open_address(lowering: &mut Lowering<'_>, text: &Text, address: SocketAddr) {
    let who = if address.ip().is_unspecified() { "everyone who reaches this machine" } else { "the network of this address" };
    let message = format!("the admin endpoint is open to {who}");
    let diagnostic = Diagnostic::warning("open-admin", text.location.clone(), message)
        .help(format!("bind it to `127.0.0.1:{}` or to a `unix:` socket", address.port()));
    lowering.report(diagnostic);
}

fn not_an_address(text: &Text) -> Diagnostic {
    let diagnostic = text.error("bad-address", format!("`{}` is not an IP address with a port", text.value));
    if text.secret {
        return diagnostic;
    }
    match text.value.rsplit_once(':') {
        Some(("" | "*", port)) => diagnostic.help(format!("write `127.0.0.1:{port}`, or for every address `0.0.0.0:{port}`")),
        Some(("localhost", port)) => diagnostic.help(format!("write `127.0.0.1:{port}`")),
        Some(_) => diagnostic.help("names are not looked up here: write the IP address"),
        None => diagnostic.help("for example `127.0.0.1:9180`, `unix:/run/tidegate.sock` or `off`"),
    }
}
