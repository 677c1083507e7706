//! What requests say of where they come from: the fields that upstreams believe, and whom to believe them. They are
//! written anew in `forward`; this is the part before any step.

use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::{CLAIMED_FAMILIES, CLAIMED_NAMES, Claim, ClientCertificateForm};
use tidegate_wire::ClientCertificate;
use tidegate_wire::head::{Field, Fields, HeaderId};
use tidegate_wire::name_table::{NameTable, is_alike};

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
/// say in another. Frameworks believe more of this family (`-Ssl`, `-Scheme`, `-Prefix`, `-Server`), with which a
/// client would choose the links in answers that are kept for others; and each network of others has a field of its
/// own for who the client is, which applications go on believing when that network is no longer in front of them.
fn remove_others(fields: &mut Fields) {
    let bytes = &fields.bytes;
    for field in &mut fields.list {
        if field.id == HeaderId::Other && claim_of(field.name.of(bytes)).is_some() {
            field.id = HeaderId::Removed;
        }
    }
}

/// What a whole name says.
const NAMES: NameTable<Claim> = NameTable::new(CLAIMED_NAMES);

/// What a name says, however it is spelled. First letter and length leave nearly no field of an ordinary request.
fn claim_of(name: &[u8]) -> Option<Claim> {
    NAMES.find(name).or_else(|| is_of_family(name).then_some(Claim::Url))
}

/// Whether a name, of a trailer, is one that only proxies may say.
#[inline]
pub(crate) fn is_claim(name: &[u8]) -> bool {
    claim_of(name).is_some()
}

/// Two letters leave nearly none: `sec-…` and `x-…` are what browsers send.
#[inline]
fn is_of_family(name: &[u8]) -> bool {
    let [first, second, third, ..] = name else { return false };
    match (first | 0x20, second | 0x20) {
        (b's', b's') | (b'c', b'l' | b'f') | (b'p', b'r') => begins_family(name),
        (b'x', _) => matches!(third | 0x20, b'f' | b'c' | b's' | b't' | b'g' | b'm' | b'a') && begins_family(name),
        _ => false,
    }
}

fn begins_family(name: &[u8]) -> bool {
    CLAIMED_FAMILIES.iter().any(|family| name.get(..family.len()).is_some_and(|start| is_alike(start, family)))
}

/// What a client has shown in its handshake.
#[derive(Debug, Clone, Copy)]
pub enum ShownCertificate<'c> {
    Nothing,
    Verified(&'c ClientCertificate),
    /// A certificate that was taken all the same, and what is wrong with it.
    Unverified(&'c ClientCertificate, &'static str),
}

/// Tells an upstream of the client's certificate. What a trusted proxy has said, or a step has set, is kept; to a list
/// of certificates this one is added, as each proxy on the way adds its own client's.
pub fn tell_certificate(fields: &mut Fields, form: ClientCertificateForm, shown: ShownCertificate<'_>, peer_is_trusted: bool) {
    match (form, shown) {
        (ClientCertificateForm::Nginx, _) => tell_as_nginx(fields, shown),
        // Nothing in these forms says that a certificate was not verified, so none is told in them.
        (
            ClientCertificateForm::Rfc9440 | ClientCertificateForm::Xfcc,
            ShownCertificate::Nothing | ShownCertificate::Unverified(..),
        ) => {}
        (ClientCertificateForm::Rfc9440, ShownCertificate::Verified(certificate)) => {
            if fields.all_named(b"client-cert").next().is_none() {
                // A chain without the certificate that it belongs to would be taken for this one's.
                fields.remove(b"client-cert-chain");
                fields.push(b"client-cert", certificate.client_cert());
                if let Some(chain) = certificate.client_cert_chain() {
                    fields.push(b"client-cert-chain", chain);
                }
            }
        }
        (ClientCertificateForm::Xfcc, ShownCertificate::Verified(certificate)) => {
            if peer_is_trusted || fields.all_named(b"x-forwarded-client-cert").next().is_none() {
                // Several fields of one name are one list (RFC 9110 section 5.3).
                fields.push(b"x-forwarded-client-cert", certificate.xfcc());
            }
        }
    }
}

/// The fields of ingress-nginx. Who is trusted, or a step, has said all of it with the first, or nothing.
fn tell_as_nginx(fields: &mut Fields, shown: ShownCertificate<'_>) {
    const VERIFY: &[u8] = b"ssl-client-verify";
    if fields.all_named(VERIFY).next().is_some() {
        return;
    }
    for name in [&b"ssl-client-subject-dn"[..], b"ssl-client-issuer-dn", b"ssl-client-cert"] {
        // A certificate without the word that it belongs to would be taken for this one's.
        fields.remove(name);
    }
    let certificate = match shown {
        ShownCertificate::Nothing => return fields.push(VERIFY, b"NONE"),
        ShownCertificate::Verified(certificate) => {
            fields.push(VERIFY, b"SUCCESS");
            certificate
        }
        ShownCertificate::Unverified(certificate, why) => {
            fields.push(VERIFY, &[b"FAILED:", why.as_bytes()].concat());
            certificate
        }
    };
    if let Some(facts) = certificate.facts() {
        fields.push(b"ssl-client-subject-dn", facts.subject.as_bytes());
        fields.push(b"ssl-client-issuer-dn", facts.issuer.as_bytes());
    }
    fields.push(b"ssl-client-cert", certificate.escaped_pem());
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
        } else if claim_of(name) == Some(Claim::Url) {
            see(name, value);
        }
    }
}

/// A trusted proxy has written something that is no address where it names the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnclearClient;

/// Who is believed to say for whom a request is, on one address that is listened on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    pub networks: Vec<IpNet>,
    /// The field in which they name the client, where it is another one than `X-Forwarded-For`.
    pub client_ip_header: Option<Box<[u8]>>,
}

impl TrustedProxies {
    pub fn contain(&self, ip: &IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(ip))
    }

    /// The client that a trusted proxy names. Where it does so in a field of its own, `X-Forwarded-For` may be
    /// the client's invention, so for servers that one begins anew with who was named.
    pub(crate) fn client_of(&self, fields: &mut Fields) -> Result<Option<IpAddr>, UnclearClient> {
        let Some(name) = &self.client_ip_header else {
            return self.first_untrusted(fields, |field, _| field.id == HeaderId::XForwardedFor);
        };
        let named = self.first_untrusted(fields, |field, bytes| {
            field.id != HeaderId::Removed && field.name.of(bytes).eq_ignore_ascii_case(name)
        });
        fields.remove_id(HeaderId::XForwardedFor);
        if let Ok(Some(client)) = named {
            fields.push_id(HeaderId::XForwardedFor, client.to_string().as_bytes());
        }
        named
    }

    /// The last address in these fields that no trusted proxy has: each proxy appends the peer it saw, so everything to
    /// the left of the first untrusted one may be invented. `None` where no proxy says anything: then it asks itself.
    /// What cannot be read is never taken for that: whoever made a proxy write such an entry would pass for the proxy,
    /// whose network a site lets through.
    fn first_untrusted(
        &self,
        fields: &Fields,
        is_named: impl Fn(&Field, &[u8]) -> bool,
    ) -> Result<Option<IpAddr>, UnclearClient> {
        let mut farthest = None;
        let entries = fields.list.iter().rev().filter(|field| is_named(field, &fields.bytes));
        for entry in entries.flat_map(|field| field.value.of(&fields.bytes).rsplit(|byte| *byte == b',')) {
            let ip = forwarded_ip(entry.trim_ascii()).ok_or(UnclearClient)?;
            farthest = Some(ip);
            if !self.contain(&ip) {
                break;
            }
        }
        Ok(farthest)
    }
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
    use super::{
        NAMES, ShownCertificate, TrustedProxies, UnclearClient, each_claim_of_url, forwarded_ip, remove_claims, tell_certificate,
    };
    use tidegate_model::{CLAIMED_FAMILIES, ClientCertificateForm};
    use tidegate_wire::ClientCertificate;
    use tidegate_wire::head::{Fields, HeaderId};

    #[test]
    fn fields_of_the_forwarding_family_go() {
        let check = |name: &str, stays: bool| {
            let mut fields = Fields::default();
            fields.push(name.as_bytes(), b"1");
            remove_claims(&mut fields);
            assert_eq!(fields.iter().count() == 1, stays, "{name}");
        };
        check("X_Forwarded_For", false);
        check("x-forwarded_proto", false);
        check("X_Real_IP", false);
        check("X_Forwarded_For_2", false);
        check("X-Forwarded-Prefix", false);
        check("X-Forwarded", false);
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
        check("Proxy", false);
        check("PROXY", false);
        check("Proxy-Status", true);
        for name in
            ["True-Client-IP", "CF-Connecting-IP", "X-Client-IP", "X-Cluster-Client-IP", "Fastly-Client-IP", "Fly-Client-IP"]
        {
            check(name, false);
            check(&name.replace('-', "_"), false);
            check(&name.to_ascii_lowercase(), false);
            check(&name.to_ascii_uppercase(), false);
            check(&format!("{name}-Hint"), true);
        }
        for name in [
            "Accept-Language",
            "DNT",
            "If-None-Match",
            "Trailer-Hint",
            "From",
            "Want-Digest",
            "Downlink",
            "Alt-Used",
            "Forwarded-Hosts",
        ] {
            check(name, true);
        }
    }

    /// Names in any spelling: letters of both cases, and any other token byte for `-`.
    #[test]
    fn a_claim_goes_in_whatever_spelling_it_comes() {
        let known: Vec<&[u8]> = NAMES
            .names()
            .chain(CLAIMED_FAMILIES.iter().copied())
            .chain([&b"x-forwarded-host"[..], b"x-forwarded-proto"])
            .filter(|name| !name.ends_with(b"-"))
            .collect();
        bolero::check!().with_type::<(u8, u64, u64)>().cloned().for_each(|(which, upper, others)| {
            let name = known[usize::from(which) % known.len()];
            let is_set = |bits: u64, place: usize| bits >> (place % 64) & 1 == 1;
            let spell = |(place, byte): (usize, &u8)| match *byte {
                b'-' if is_set(others, place) => b"_.!#$%&'*+^`|~"[(others >> 60) as usize % 14],
                byte if is_set(upper, place) => byte.to_ascii_uppercase(),
                byte => byte,
            };
            let spelled: Vec<u8> = name.iter().enumerate().map(spell).collect();
            let mut fields = Fields::default();
            fields.push(&spelled, b"198.51.100.1");
            remove_claims(&mut fields);
            assert_eq!(fields.iter().count(), 0, "{}", spelled.escape_ascii());
        });
    }

    #[test]
    fn a_certificate_is_told_beside_what_a_trusted_proxy_says() {
        let certificate = ClientCertificate::new(vec![Box::from(*b"ab")], |_| [0; 32]).expect("a chain");
        let check = |form, before: &[(&str, &str)], peer_is_trusted, expected: &[&str]| {
            let mut fields = Fields::default();
            for (name, value) in before {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            tell_certificate(&mut fields, form, ShownCertificate::Verified(&certificate), peer_is_trusted);
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
        let pem = "-----BEGIN%20CERTIFICATE-----%0AYWI%3D%0A-----END%20CERTIFICATE-----%0A";
        check(ClientCertificateForm::Nginx, &[], false, &["SUCCESS", pem]);
        check(ClientCertificateForm::Nginx, &[("ssl-client-verify", "NONE")], true, &["NONE"]);
        check(
            ClientCertificateForm::Nginx,
            &[("SSL-Client-Cert", "other"), ("ssl-client-subject-dn", "CN=x")],
            true,
            &["SUCCESS", pem],
        );
    }

    #[test]
    fn what_is_not_verified_is_told_as_that_or_not_at_all() {
        let certificate = ClientCertificate::new(vec![Box::from(*b"ab")], |_| [0; 32]).expect("a chain");
        let check = |form, shown, expected: &[&str]| {
            let mut fields = Fields::default();
            tell_certificate(&mut fields, form, shown, false);
            let shown = |(name, value): (&[u8], &[u8])| format!("{}: {}", name.escape_ascii(), value.escape_ascii());
            assert_eq!(fields.iter().map(shown).collect::<Vec<_>>(), expected);
        };
        let bad = ShownCertificate::Unverified(&certificate, "certificate has expired");
        for form in [ClientCertificateForm::Rfc9440, ClientCertificateForm::Xfcc] {
            check(form, bad, &[]);
            check(form, ShownCertificate::Nothing, &[]);
        }
        check(ClientCertificateForm::Nginx, ShownCertificate::Nothing, &["ssl-client-verify: NONE"]);
        let pem = "ssl-client-cert: -----BEGIN%20CERTIFICATE-----%0AYWI%3D%0A-----END%20CERTIFICATE-----%0A";
        check(ClientCertificateForm::Nginx, bad, &["ssl-client-verify: FAILED:certificate has expired", pem]);
    }

    #[test]
    fn what_is_said_of_the_url_is_told_by_name() {
        let mut fields = Fields::default();
        for (name, value) in [
            ("X-Forwarded-For", "192.0.2.1"),
            ("X-Forwarded-Port", "1337"),
            ("X_Forwarded_Host", "a"),
            ("X-Real-IP", "192.0.2.1"),
            ("CF-Connecting-IP", "192.0.2.1"),
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
        let networks = ["10.0.0.0/8", "2001:db8::/32"].map(|network| network.parse().expect("a network")).to_vec();
        let check = |values: &[&str], expected: Result<Option<&str>, UnclearClient>| {
            for name in ["X-Forwarded-For", "CF-Connecting-IP"] {
                let header = (name != "X-Forwarded-For").then(|| name.as_bytes().into());
                let trusted = TrustedProxies { networks: networks.clone(), client_ip_header: header };
                let mut fields = Fields::default();
                for value in values {
                    fields.push(name.to_ascii_lowercase().as_bytes(), value.as_bytes());
                }
                let found = trusted.client_of(&mut fields).map(|ip| ip.map(|ip| ip.to_string()));
                assert_eq!(found.as_ref().map(Option::as_deref).map_err(|unclear| *unclear), expected, "{name}: {values:?}");
            }
        };
        check(&[], Ok(None));
        check(&["198.51.100.1"], Ok(Some("198.51.100.1")));
        check(&["6.6.6.6, 198.51.100.1, 10.0.0.2"], Ok(Some("198.51.100.1")));
        check(&["6.6.6.6", "198.51.100.1", "10.0.0.2"], Ok(Some("198.51.100.1")));
        check(&["10.0.0.3, 10.0.0.2"], Ok(Some("10.0.0.3")));
        check(&["6.6.6.6, [2001:db8::5]:1234"], Ok(Some("6.6.6.6")));
        check(&["unknown, 198.51.100.1"], Ok(Some("198.51.100.1")));
        for unclear in ["6.6.6.6, unknown", "unknown, 10.0.0.2", "unknown", "", "6.6.6.6,", "_hidden", "198.51.100.1:x"] {
            check(&[unclear], Err(UnclearClient));
            check(&["6.6.6.6", unclear, "10.0.0.2"], Err(UnclearClient));
        }
    }

    #[test]
    fn where_proxies_name_the_client_in_a_field_of_their_own_the_usual_one_begins_anew() {
        let check = |sent: &[(&str, &str)], expected: Option<&str>| {
            let networks = vec!["10.0.0.0/8".parse().expect("a network")];
            let trusted = TrustedProxies { networks, client_ip_header: Some(b"x-real-ip".as_slice().into()) };
            let mut fields = Fields::default();
            for (name, value) in sent {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            let found = trusted.client_of(&mut fields).map(|ip| ip.map(|ip| ip.to_string()));
            assert_eq!(found.map_err(|_| ()).ok().flatten().as_deref(), expected, "{sent:?}");
            let told: Vec<&[u8]> = fields.all(HeaderId::XForwardedFor).collect();
            assert_eq!(told, expected.map(str::as_bytes).into_iter().collect::<Vec<_>>(), "{sent:?}");
        };
        check(&[("X-Forwarded-For", "6.6.6.6"), ("X-Real-IP", "192.0.2.1")], Some("192.0.2.1"));
        check(&[("X-Forwarded-For", "6.6.6.6")], None);
        check(&[("X-Forwarded-For", "6.6.6.6"), ("X-Real-IP", "unknown")], None);
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
