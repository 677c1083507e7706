//! What requests say of where they come from: the fields that upstreams believe, and whom to believe them. They are written anew in
//! `forward`; this is the part before any step.

use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_wire::head::{Fields, HeaderId};

/// Removes what an untrusted client says of itself, on arrival: what a step sets later under these names is the site's own.
pub fn remove_claims(fields: &mut Fields) {
    for id in [
        HeaderId::XForwardedFor,
        HeaderId::XForwardedProto,
        HeaderId::XForwardedHost,
        HeaderId::XForwardedPort,
        // Others believe these in the same way.
        HeaderId::Forwarded,
        HeaderId::XRealIp,
    ] {
        fields.remove_id(id);
    }
    remove_look_alikes(fields);
}

/// CGI-like upstreams read `X_Forwarded_For` as `X-Forwarded-For`; what a client may not say in one spelling it may not say in another.
fn remove_look_alikes(fields: &mut Fields) {
    let bytes = &fields.bytes;
    for field in &mut fields.list {
        let name = field.name.of(bytes);
        if field.id == HeaderId::Other && name.first().is_some_and(|first| first | 0x20 == b'x') && name.contains(&b'_') {
            let mut dashed = [0; 17];
            let Some(dashed) = dashed.get_mut(..name.len()) else { continue };
            dashed.copy_from_slice(name);
            dashed.iter_mut().filter(|byte| **byte == b'_').for_each(|byte| *byte = b'-');
            if HeaderId::of(dashed) != HeaderId::Other {
                field.id = HeaderId::Removed;
            }
        }
    }
}

/// The last address in `X-Forwarded-For` that no trusted proxy has: each proxy appends the peer it saw, so everything to the left of the
/// first untrusted one may be invented.
pub fn first_untrusted(fields: &Fields, trusted_proxies: &[IpNet]) -> Option<IpAddr> {
    let mut farthest = None;
    let entries = fields.list.iter().rev().filter(|field| field.id == HeaderId::XForwardedFor);
    for entry in entries.flat_map(|field| field.value.of(&fields.bytes).rsplit(|byte| *byte == b',')) {
        let ip = forwarded_ip(entry.trim_ascii())?;
        farthest = Some(ip);
        if !trusted_proxies.iter().any(|network| network.contains(&ip)) {
            break;
        }
    }
    farthest
}

/// An address as proxies write it: bare, in brackets, or with a port.
fn forwarded_ip(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.ip().to_canonical());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse::<std::net::Ipv6Addr>().ok().map(|ip| IpAddr::V6(ip).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::{first_untrusted, forwarded_ip, remove_look_alikes};
    use tidegate_wire::head::Fields;

    #[test]
    fn only_spellings_of_forwarding_fields_go() {
        let check = |name: &str, stays: bool| {
            let mut fields = Fields::default();
            fields.push(name.as_bytes(), b"1");
            remove_look_alikes(&mut fields);
            assert_eq!(fields.iter().count() == 1, stays, "{name}");
        };
        check("X_Forwarded_For", false);
        check("x-forwarded_proto", false);
        check("X_Real_IP", false);
        check("X_Forwarded_For_2", true);
        check("X_Api_Key", true);
        check("X_A", true);
        check("content_type", true);
    }

    #[test]
    fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().expect("a network"));
        let check = |values: &[&str], expected: Option<&str>| {
            let mut fields = Fields::default();
            for value in values {
                fields.push(b"x-forwarded-for", value.as_bytes());
            }
            let found = first_untrusted(&fields, &trusted).map(|ip| ip.to_string());
            assert_eq!(found.as_deref(), expected, "{values:?}");
        };
        check(&[], None);
        check(&["198.51.100.1"], Some("198.51.100.1"));
        check(&["6.6.6.6, 198.51.100.1, 10.0.0.2"], Some("198.51.100.1"));
        check(&["6.6.6.6", "198.51.100.1", "10.0.0.2"], Some("198.51.100.1"));
        check(&["10.0.0.3, 10.0.0.2"], Some("10.0.0.3"));
        check(&["6.6.6.6, [2001:db8::5]:1234"], Some("6.6.6.6"));
        check(&["6.6.6.6, unknown"], None);
    }

    #[test]
    fn addresses_as_proxies_write_them() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(forwarded_ip(text.as_bytes()).map(|ip| ip.to_string()).as_deref(), expected, "{text}");
        };
        check("192.0.2.1", Some("192.0.2.1"));
        check("192.0.2.1:80", Some("192.0.2.1"));
        check("::ffff:192.0.2.1", Some("192.0.2.1"));
        check("[2001:db8::1]", Some("2001:db8::1"));
        check("[2001:db8::1]:80", Some("2001:db8::1"));
        check("_hidden", None);
        check("", None);
    }
}
