//! What requests say of where they come from: the fields that upstreams believe, and whom to believe them. They are
//! written anew in `forward`; this is the part before any step.

use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::ClientCertificateForm;
use tidegate_wire::ClientCertificate;
use tidegate_wire::head::{Fields, HeaderId};

/// Removes what an untrusted client says of itself, on arrival: what a step sets later under these names is the site's
/// own.
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
    remove_others(fields);
}

/// CGI-like upstreams read `X_Forwarded_For` as `X-Forwarded-For`; what a client may not say in one spelling it may not
/// say in another. And frameworks believe more of this family (`-Ssl`, `-Scheme`, `-Prefix`, `-Server`), with which a
/// client would choose the links in answers that are kept for others.
fn remove_others(fields: &mut Fields) {
    let bytes = &fields.bytes;
    for field in &mut fields.list {
        if field.id == HeaderId::Other && is_forwarding(field.name.of(bytes)) {
            field.id = HeaderId::Removed;
        }
    }
}

/// Names that begin so are said in by proxies: where a request comes from, and what certificate its client has shown.
/// The first two of the latter are those of RFC 9440 and of nginx; the others are what HAProxy, Envoy, Traefik, the
/// load balancers of clouds and many a manual write.
const FAMILIES: &[&[u8]] = &[
    b"x-forwarded-",
    b"client-cert",
    b"ssl-client",
    b"ssl-cert",
    b"proxy-client-cert",
    b"x-client-subject",
    b"x-ssl-",
    b"x-client-cert",
    b"x-tls-client",
    b"x-tls-cert",
    b"x-goog-client-cert",
    b"x-mtls-",
    b"x-amzn-mtls-",
    b"cf-client-cert",
];

/// Whole names of the same kind.
const NAMES: &[&[u8]] = &[
    b"x-real-ip",
    b"x-client-verify",
    b"x-client-dn",
    b"x-client-s-dn",
    b"x-client-i-dn",
    b"x-client-san",
    b"x-client-cn",
    b"x-client-issuer",
    b"x-client-serial",
    b"x-client-fingerprint",
    b"x-arr-clientcert",
    b"x-azure-clientcert",
    b"x-clientcert",
    b"clientcert",
];

/// Whether a name belongs to the fields that proxies say where a request comes from in, however it is spelled.
fn is_forwarding(name: &[u8]) -> bool {
    let folds_to = |name: &[u8], known: &[u8]| {
        let folded = name.iter().map(|byte| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() });
        name.len() == known.len() && folded.eq(known.iter().copied())
    };
    match name.first() {
        Some(b'x' | b'X' | b'c' | b'C' | b's' | b'S' | b'p' | b'P') => {
            let is_of = |family: &&[u8]| name.get(..family.len()).is_some_and(|start| folds_to(start, family));
            FAMILIES.iter().any(is_of) || NAMES.iter().any(|known| folds_to(name, known))
        }
        _ => false,
    }
}

/// Tells an upstream of the client's certificate. What a trusted proxy has said, or a step has set, is kept; to a list
/// of certificates this one is added, as each proxy on the way adds its own client's.
pub fn tell_certificate(
    fields: &mut Fields,
    form: ClientCertificateForm,
    certificate: &ClientCertificate,
    peer_is_trusted: bool,
) {
    match form {
        ClientCertificateForm::Rfc9440 => {
            if fields.all_named(b"client-cert").next().is_none() {
                // A chain without the certificate that it belongs to would be taken for this one's.
                fields.remove(b"client-cert-chain");
                fields.push(b"client-cert", certificate.client_cert());
                if let Some(chain) = certificate.client_cert_chain() {
                    fields.push(b"client-cert-chain", chain);
                }
            }
        }
        ClientCertificateForm::Xfcc => {
            if peer_is_trusted || fields.all_named(b"x-forwarded-client-cert").next().is_none() {
                // Several fields of one name are one list (RFC 9110 section 5.3).
                fields.push(b"x-forwarded-client-cert", certificate.xfcc());
            }
        }
    }
}

/// What a trusted proxy says of the URL that its client asked for, each field by its name: upstreams write links by it,
/// so answers that are kept are told apart by it. Not who the client is, which differs from one to the next.
pub fn each_claim_of_url(fields: &Fields, mut see: impl FnMut(&[u8], &[u8])) {
    for field in fields.list.iter().filter(|field| field.id != HeaderId::Removed && field.id != HeaderId::XForwardedFor) {
        let (name, value) = (field.name.of(&fields.bytes), field.value.of(&fields.bytes));
        if field.id == HeaderId::Forwarded {
            let pairs = value.split(|byte| matches!(byte, b';' | b',')).map(<[u8]>::trim_ascii);
            let is_of_url = |pair: &&[u8]| {
                let starts = |known: &[u8]| pair.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
                starts(b"host=") || starts(b"proto=")
            };
            pairs.filter(is_of_url).for_each(|pair| see(b"forwarded", pair));
        } else if is_forwarding(name) && field.id != HeaderId::XRealIp {
            see(name, value);
        }
    }
}

/// The last address in `X-Forwarded-For` that no trusted proxy has: each proxy appends the peer it saw, so everything
/// to the left of the first untrusted one may be invented.
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
    use super::{each_claim_of_url, first_untrusted, forwarded_ip, remove_others, tell_certificate};
    use tidegate_model::ClientCertificateForm;
    use tidegate_wire::ClientCertificate;
    use tidegate_wire::head::Fields;

    #[test]
    fn fields_of_the_forwarding_family_go() {
        let check = |name: &str, stays: bool| {
            let mut fields = Fields::default();
            fields.push(name.as_bytes(), b"1");
            remove_others(&mut fields);
            assert_eq!(fields.iter().count() == 1, stays, "{name}");
        };
        check("X_Forwarded_For", false);
        check("x-forwarded_proto", false);
        check("X_Real_IP", false);
        check("X_Forwarded_For_2", false);
        check("X-Forwarded-Prefix", false);
        check("X-Forwarded", true);
        check("X_Api_Key", true);
        check("X_A", true);
        check("content_type", true);
        check("Client-Cert", false);
        check("client_cert_chain", false);
        check("X-Forwarded-Client-Cert", false);
        check("X-Forwarded-Tls-Client-Cert-Info", false);
        check("X-SSL-Client-S-DN", false);
        check("x_ssl_client_verify", false);
        check("SSL_CLIENT_CERT", false);
        check("ssl-client-subject-dn", false);
        check("X-Client-Certificate", false);
        check("X-Client-DN", false);
        check("X-Client-S-DN", false);
        check("X_Client_Subject_DN", false);
        check("Ssl-Cert", false);
        check("Proxy-Client-Cert", false);
        check("X-ARR-ClientCert", false);
        check("X-Amzn-Mtls-Clientcert-Leaf", false);
        check("Client-Version", true);
        check("X-Client-Id", true);
        check("X-Client-Version", true);
        check("Sec-Fetch-Site", true);
    }

    #[test]
    fn a_certificate_is_told_beside_what_a_trusted_proxy_says() {
        let certificate = ClientCertificate::new(vec![Box::from(*b"ab")], |_| [0; 32]).expect("a chain");
        let check = |form, before: &[(&str, &str)], peer_is_trusted, expected: &[&str]| {
            let mut fields = Fields::default();
            for (name, value) in before {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            tell_certificate(&mut fields, form, &certificate, peer_is_trusted);
            let told: Vec<String> = fields.iter().map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect();
            assert_eq!(told, expected);
        };
        let hash = format!("Hash={}", "0".repeat(64));
        check(ClientCertificateForm::Rfc9440, &[], false, &[":YWI=:"]);
        check(ClientCertificateForm::Rfc9440, &[("Client-Cert", ":b3RoZXI=:")], true, &[":b3RoZXI=:"]);
        check(ClientCertificateForm::Rfc9440, &[("Client-Cert-Chain", ":b3RoZXI=:")], true, &[":YWI=:"]);
        check(ClientCertificateForm::Xfcc, &[], false, &[&hash]);
        check(ClientCertificateForm::Xfcc, &[("x-forwarded-client-cert", "Hash=1")], true, &["Hash=1", &hash]);
        check(ClientCertificateForm::Xfcc, &[("X-Forwarded-Client-Cert", "by a step")], false, &["by a step"]);
    }

    #[test]
    fn what_is_said_of_the_url_is_told_by_name() {
        let mut fields = Fields::default();
        for (name, value) in [
            ("X-Forwarded-For", "192.0.2.1"),
            ("X-Forwarded-Port", "1337"),
            ("X_Forwarded_Host", "a"),
            ("X-Real-IP", "192.0.2.1"),
            ("Forwarded", "for=192.0.2.1;Host=b, for=198.51.100.1;proto=http"),
            ("X-Other", "c"),
        ] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let mut told = Vec::new();
        each_claim_of_url(&fields, |name, value| {
            told.push(format!("{} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
        });
        assert_eq!(told, ["X-Forwarded-Port 1337", "X_Forwarded_Host a", "forwarded Host=b", "forwarded proto=http"]);
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
