//! Fields that are the proxy's own, whoever writes the rest of a message.

/// Fields that say how a message is framed and how far it travels on one connection (RFC 9110 section 7.6.1, RFC 9112
/// section 6), which nobody writes but the proxy itself.
pub fn is_of_framing(name: &str) -> bool {
    const NAMES: [&str; 9] = [
        "connection",
        "content-length",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}
