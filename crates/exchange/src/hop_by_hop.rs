//! What the hop-by-hop fields of a request said. They are taken out of its head before anything else looks at it.

use tidegate_wire::head::{HeaderId, RequestHead};
use tidegate_wire::{Span, http1};

/// What the hop-by-hop fields said, which are gone from the head.
#[derive(Debug, Clone, Copy, Default)]
pub struct HopByHop {
    /// The protocol that the client asks to switch to.
    pub upgrade: Option<Span>,
    /// `TE: trailers`
    pub trailers_wanted: bool,
}

impl HopByHop {
    pub fn take(head: &mut RequestHead) -> HopByHop {
        let upgrade = http1::upgrade_protocol(head)
            .filter(|protocol| !is_http_or_tls(protocol))
            .and_then(|_| head.fields.list.iter().find(|field| field.id == HeaderId::Upgrade).map(|field| field.value));
        let trailers_wanted = head.fields.all(HeaderId::Te).any(|value| http1::has_token(value, b"trailers"));
        head.fields.remove_hop_by_hop();
        HopByHop { upgrade, trailers_wanted }
    }
}

/// A switch to another version of HTTP or to TLS would carry requests past every route and step (h2c smuggling).
fn is_http_or_tls(protocol: &[u8]) -> bool {
    let starts = |prefix: &[u8]| protocol.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    starts(b"h2") || starts(b"http/") || starts(b"tls/") || protocol.contains(&b',')
}

#[cfg(test)]
mod tests {
    use super::is_http_or_tls;

    #[test]
    fn a_switch_to_http_or_tls_is_none() {
        for protocol in ["h2c", "H2", "HTTP/2.0", "TLS/1.2", "websocket, h2c"] {
            assert!(is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
        for protocol in ["websocket", "WebSocket", "tcp", "SPDY/3.1"] {
            assert!(!is_http_or_tls(protocol.as_bytes()), "{protocol}");
        }
    }
}
