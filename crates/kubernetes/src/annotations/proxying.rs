//! How requests go on to servers: how long these may take, and how much clients may send.

use super::{Annotations, units};
use crate::finding::{FindingCode, Severity};
use crate::manner::Manner;
use crate::reference::Spoken;
use std::time::Duration;
use tidegate_model::Step;

/// The longest that there are: nobody waits for more.
const CONNECT_MAX: Duration = Duration::from_mins(5);
const READ_MAX: Duration = Duration::from_hours(24);

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    if let Some(text) = annotations.text("proxy-body-size") {
        match units::size(text) {
            // Without a bound.
            Some(0) => {}
            Some(bytes_max) => manner.steps.push(Step::BodyLimit { bytes_max }),
            None => annotations.leave_out("proxy-body-size", "it is a size, as in `8m`"),
        }
    }
    manner.options.log.is_on = annotations.switch("enable-access-log").filter(|is_on| !is_on);
    note_connections(annotations);
    manner.passes_on = annotations.switch("ssl-passthrough") == Some(true);
    // Servers to which connections are handed on speak TLS.
    manner.pool.spoken = spoken(annotations).or(manner.passes_on.then_some(Spoken::Tls));
    let connect = seconds(annotations, "proxy-connect-timeout", CONNECT_MAX);
    let read = seconds(annotations, "proxy-read-timeout", READ_MAX);
    let send = seconds(annotations, "proxy-send-timeout", READ_MAX);
    let timeouts = &mut manner.options.timeouts;
    timeouts.connect = connect;
    timeouts.first_byte = read;
    // One idle time for both ways: the shorter would end what the longer is written for.
    timeouts.idle = read.max(send);
}

/// Connections to servers are kept, by HTTP/1.1.
fn note_connections(annotations: &mut Annotations<'_>) {
    for (name, usual, other) in [("proxy-http-version", "1.1", "1.0"), ("connection-proxy-header", "keep-alive", "close")] {
        match annotations.text(name) {
            None => {}
            Some(text) if text == usual => {}
            Some(text) if text == other => {
                let message = format!("servers are spoken to by HTTP/1.1 over connections that are kept, as with `{usual}`");
                annotations.find(name, FindingCode::AnnotationNotTaken, Severity::Warning, message);
            }
            Some(_) => annotations.leave_out(name, &format!("it is `{usual}`")),
        }
    }
}

fn spoken(annotations: &mut Annotations<'_>) -> Option<Spoken> {
    const NAME: &str = "backend-protocol";
    match annotations.text(NAME)?.to_ascii_uppercase().as_str() {
        "HTTP" => None,
        "HTTPS" => Some(Spoken::Tls),
        "GRPC" => Some(Spoken::H2c),
        "GRPCS" => Some(Spoken::H2),
        "FCGI" => {
            annotations.shut(
                NAME,
                "FastCGI is not spoken for an Ingress: remove it, or put a server of HTTP in front of the application",
            );
            None
        }
        _ => {
            annotations.leave_out(NAME, "it is `HTTP`, `HTTPS`, `GRPC` or `GRPCS`");
            None
        }
    }
}

/// A number of seconds, which may say so.
fn seconds(annotations: &mut Annotations<'_>, name: &str, most: Duration) -> Option<Duration> {
    let text = annotations.text(name)?;
    let number = units::seconds(text).filter(|number| *number > 0);
    if number.is_none() {
        annotations.leave_out(name, "it is a number of seconds");
    }
    number.map(|number| Duration::from_secs(number).min(most))
}
