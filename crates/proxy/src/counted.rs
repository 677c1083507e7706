//! What an answered request is counted under, whatever its version of HTTP. Where it is counted is said in `request`,
//! and in `connection` for heads that are no request.

use tidegate_telemetry::{AnswerKind, MethodLabel, ProtocolLabel};
use tidegate_wire::head::{Method, RequestHead, Version};

#[inline]
pub fn answer_kind(head: &RequestHead, status: u16) -> AnswerKind {
    let method = match head.method {
        Method::Get => MethodLabel::Get,
        Method::Head => MethodLabel::Head,
        Method::Post => MethodLabel::Post,
        Method::Put => MethodLabel::Put,
        Method::Delete => MethodLabel::Delete,
        Method::Options => MethodLabel::Options,
        Method::Patch => MethodLabel::Patch,
        Method::Trace => MethodLabel::Trace,
        Method::Connect => MethodLabel::Connect,
        Method::Other => MethodLabel::Other,
    };
    AnswerKind { status, method, protocol: protocol_label(head.version) }
}

fn protocol_label(version: Version) -> ProtocolLabel {
    match version {
        Version::Http10 => ProtocolLabel::Http10,
        Version::Http11 => ProtocolLabel::Http11,
        Version::Http2 => ProtocolLabel::Http2,
    }
}
