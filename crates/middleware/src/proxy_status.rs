//! The `Proxy-Status` field of answers that the proxy makes itself (RFC 9209): which of the registered error types a
//! refusal is, and how that is written.

use crate::refusal::Refusal;
use tidegate_telemetry::UpstreamError;

/// `tidegate; error=connection_timeout; details="connect_timeout (timeout connect)"`
pub fn write_proxy_status(name: &str, refusal: Refusal, out: &mut Vec<u8>) {
    if is_token(name) {
        out.extend_from_slice(name.as_bytes());
    } else {
        write_string(&[name], out);
    }
    out.extend_from_slice(b"; error=");
    out.extend_from_slice(error_type(refusal).as_bytes());
    out.extend_from_slice(b"; details=");
    match refusal.setting() {
        Some(setting) => write_string(&[refusal.reason(), " (", setting, ")"], out),
        None => write_string(&[refusal.reason()], out),
    }
}

/// RFC 8941 section 3.3.4.
fn is_token(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '*') && text.bytes().all(is_inside)
}

/// RFC 8941 section 3.3.3; what is given is printable ASCII.
fn write_string(parts: &[&str], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in parts.iter().flat_map(|part| part.bytes()) {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Section 2.3 of the RFC. Everything that has a type of its own there has it here.
fn error_type(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Upstream(error) => error_type_of_upstream(error),
        Refusal::ScriptHeadTooLarge => "http_response_header_section_size",
        Refusal::Denied
        | Refusal::NoClientCertificate
        | Refusal::NotAuthenticated
        | Refusal::CrossOrigin
        | Refusal::Token(_)
        | Refusal::Oidc(_)
        | Refusal::AuthBodyTooLarge
        | Refusal::ApiKey(_)
        | Refusal::LogInsFailed { .. }
        | Refusal::RateLimited { .. }
        | Refusal::ConcurrencyLimited { .. }
        | Refusal::HeaderName
        | Refusal::TraceMethod
        | Refusal::ConnectMethod
        | Refusal::ConnectProtocol
        | Refusal::BodyTooLarge
        | Refusal::Bomb
        | Refusal::PurgeDenied => "http_request_denied",
        Refusal::UnknownHost | Refusal::Misdirected | Refusal::NoRoute | Refusal::RedirectNowhere => "destination_not_found",
        Refusal::NoThread
        | Refusal::FileUnreadable
        | Refusal::SendFileOutside
        | Refusal::BodyNotKept
        | Refusal::DecodersBusy
        | Refusal::PasswordsBusy
        | Refusal::Auth(_)
        | Refusal::PurgesMany => "proxy_internal_error",
        Refusal::NoFile
        | Refusal::FileForbidden
        | Refusal::FileMethod
        | Refusal::FilePath
        | Refusal::FileRange
        | Refusal::FilePrecondition
        | Refusal::NoScript
        | Refusal::KeptRange
        | Refusal::NotKept => "proxy_internal_response",
        Refusal::Head(_)
        | Refusal::HeaderTimeout
        | Refusal::PlainHttpToTls
        | Refusal::TlsToPlainHttp
        | Refusal::ClientUnclear
        | Refusal::MaxForwards
        | Refusal::NotWebSocket
        | Refusal::Path(_)
        | Refusal::Rewrite(_)
        | Refusal::HostOfStep
        | Refusal::RedirectEscapesRoot
        | Refusal::BodyTooSlow
        | Refusal::BadBody(_)
        | Refusal::BadCoding
        | Refusal::PurgeUnclear
        | Refusal::ScriptPath(_)
        | Refusal::ParamsTooLarge => "http_request_error",
    }
}

fn error_type_of_upstream(error: UpstreamError) -> &'static str {
    match error {
        UpstreamError::ResolveFailed => "dns_error",
        UpstreamError::NoServer
        | UpstreamError::EmptyPool
        | UpstreamError::ContainersNotReady
        | UpstreamError::BadStatus
        | UpstreamError::ConnectFailed => "destination_unavailable",
        UpstreamError::PoolFull | UpstreamError::QueueTimeout => "connection_limit_reached",
        UpstreamError::Overloaded => "proxy_internal_error",
        UpstreamError::ConnectTimeout => "connection_timeout",
        UpstreamError::FirstByteTimeout | UpstreamError::IdleTimeout => "connection_read_timeout",
        UpstreamError::TotalTimeout => "http_response_timeout",
        UpstreamError::TlsFailed => "tls_protocol_error",
        UpstreamError::TlsRefused => "tls_alert_received",
        UpstreamError::RequestHeadTooLarge => "http_request_error",
        UpstreamError::HeadTooLarge => "http_response_header_section_size",
        UpstreamError::ClosedEarly | UpstreamError::Reset | UpstreamError::GoAway => "connection_terminated",
        UpstreamError::BodyCut => "http_response_incomplete",
        UpstreamError::BadResponse => "http_protocol_error",
        UpstreamError::BadWebSocketAccept | UpstreamError::NoWebSocket => "http_upgrade_failed",
    }
}

#[cfg(test)]
mod tests {
    use super::write_proxy_status;
    use crate::refusal::Refusal;
    use tidegate_telemetry::UpstreamError;

    #[test]
    fn an_answer_says_its_type_its_reason_and_its_setting() {
        let check = |name: &str, refusal: Refusal, expected: &str| {
            let mut out = Vec::new();
            write_proxy_status(name, refusal, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check("tidegate", Refusal::NoRoute, "tidegate; error=destination_not_found; details=\"no_route\"");
        check(
            "edge-1",
            UpstreamError::FirstByteTimeout.into(),
            "edge-1; error=connection_read_timeout; details=\"first_byte_timeout (timeout first-byte)\"",
        );
        check("a b", Refusal::Denied, "\"a b\"; error=http_request_denied; details=\"client_denied (allow, deny)\"");
        check("1\"2\\", Refusal::NoFile, "\"1\\\"2\\\\\"; error=proxy_internal_response; details=\"no_file\"");
    }
}
