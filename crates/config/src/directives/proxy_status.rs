//! `proxy-status`: answers that the proxy makes itself say why, for programs.

use crate::diagnostics::shortened;
use crate::language::{Directive, Line, Lower};
use crate::lowering::Lowering;
use crate::reading::Read;
use crate::table::{Argument, Kind, Place};
use crate::written_line::Writer;
use tidegate_model::{ProxyStatus, RouteOptions, Switched};

pub static PROXY_STATUS: Directive = Directive {
    name: "proxy-status",
    places: &[Place::Site, Place::Route],
    arguments: &[Argument::optional(
        "name",
        Kind::ChoiceOr(&["off"], "what this proxy is called"),
        "What this proxy is called there, at most 64 characters of printable ASCII; `tidegate` when left out. `off`: in a route, not as the site says.",
    )],
    summary: "Has answers that the proxy makes itself say why, in a `Proxy-Status` field (RFC 9209).",
    details: "The field has an error type of the RFC, and as `details` the reason code of the log and the setting that it comes from: \
              `Proxy-Status: tidegate; error=connection_read_timeout; details=\"first_byte_timeout (timeout first-byte)\"`. So a program tells an answer of the proxy from one of the application, and what to mend. \
              It says how the proxy is set up, and that to everybody: for sites whose clients are one's own.\n\n\
              Answers of upstreams stay as they are, with what other proxies have said. A request that is refused before its site is known has no such field.",
    default: "no field",
    example: "proxy-status \"edge-1\"",
    lower: Lower::Option(lower),
    ..Directive::PLAIN
};

fn lower(lowering: &mut Lowering<'_>, options: &mut RouteOptions, line: &Line<'_>) {
    options.proxy_status = match line.read_argument(lowering, 0) {
        None => Switched::On(Box::default()),
        Some(Read::Text(text)) => {
            let is_name = |name: &str| {
                (1..=ProxyStatus::NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            };
            if !is_name(&text.value) {
                let message = format!("`{}` cannot be the name of a proxy", shortened(&text.value));
                let help = "at most 64 characters of printable ASCII, as in `proxy-status \"edge-1\"`";
                lowering.report(text.error("bad-name", message).help(help));
                return;
            }
            Switched::On(Box::new(ProxyStatus { name: text.value }))
        }
        Some(_) => Switched::Off,
    };
}

pub fn write(line: &mut Writer, ProxyStatus { name }: &ProxyStatus) {
    line.name("proxy-status");
    if name != ProxyStatus::NAME {
        line.argument(name);
    }
}
