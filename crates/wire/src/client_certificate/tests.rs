//! What is read from certificates as CAs make them, hostile ones among them.

use super::ClientCertificate;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, DnValue, KeyPair, SanType, SerialNumber};

fn sha256(_: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[0] = 0xab;
    digest
}

fn made(change: impl FnOnce(&mut CertificateParams)) -> Box<[u8]> {
    let mut params = CertificateParams::default();
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    params.self_signed(&key).expect("a certificate").der().to_vec().into()
}

fn certificate(change: impl FnOnce(&mut CertificateParams)) -> ClientCertificate {
    ClientCertificate::new(vec![made(change)], sha256).expect("a chain")
}

#[test]
fn subjects_are_written_from_the_end_and_escaped_by_digits_alone() {
    let check = |parts: &[(DnType, DnValue)], expected: &str| {
        let read = certificate(|params| {
            params.distinguished_name = DistinguishedName::new();
            for (kind, value) in parts {
                params.distinguished_name.push(kind.clone(), value.clone());
            }
        });
        assert_eq!(read.facts().map(|facts| facts.subject.as_str()), Some(expected));
    };
    let text = |text: &str| DnValue::Utf8String(text.to_owned());
    let name = |value: &str| [(DnType::CommonName, text(value))];
    check(
        &[(DnType::CountryName, text("DE")), (DnType::OrganizationName, text("Example")), (DnType::CommonName, text("ops"))],
        "CN=ops,O=Example,C=DE",
    );
    check(&[], "");
    check(&name("a,O=Admins"), "CN=a\\2CO=Admins");
    check(&name("a+b;c<d>e\"f\\"), "CN=a\\2Bb\\3Bc\\3Cd\\3Ee\\22f\\5C");
    check(&name(" a b "), "CN=\\20a\\20b\\20".replace("a\\20b", "a b").as_str());
    check(&name("#a#"), "CN=\\23a#");
    check(&name("ä\0\r\n"), "CN=\\C3\\A4\\00\\0D\\0A");
    check(&[(DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]), text("a@b.test"))], "emailAddress=a@b.test");
    check(&[(DnType::CustomDnType(vec![1, 3, 9999]), text("ab"))], "1.3.9999=#0C026162");
    let bmp = DnValue::BmpString("aé".try_into().expect("in the alphabet"));
    check(&[(DnType::CommonName, bmp)], "CN=a\\C3\\A9");
}

#[test]
fn names_that_are_not_of_their_kind_are_left_out() {
    let check = |names: Vec<SanType>, expected: &str| {
        let read = certificate(|params| params.subject_alt_names = names);
        assert_eq!(read.facts().map(|facts| facts.names_joined.as_str()), Some(expected));
    };
    let ia5 = |text: &str| text.try_into().expect("ASCII");
    check(Vec::new(), "");
    check(
        vec![
            SanType::DnsName(ia5("A.test")),
            SanType::URI(ia5("spiffe://prod/api")),
            SanType::Rfc822Name(ia5("ops@a.test")),
            SanType::IpAddress([192, 0, 2, 1].into()),
            SanType::IpAddress("2001:db8::1".parse::<std::net::IpAddr>().expect("an address")),
        ],
        "a.test,spiffe://prod/api,ops@a.test,192.0.2.1,2001:db8::1",
    );
    // What one kind may not say must not come in as another.
    check(vec![SanType::DnsName(ia5("spiffe://prod/api")), SanType::DnsName(ia5("192.0.2.1")), SanType::DnsName(ia5("a b"))], "");
    check(vec![SanType::Rfc822Name(ia5("spiffe://prod/api@a")), SanType::Rfc822Name(ia5("a.test"))], "");
    check(vec![SanType::URI(ia5("a.test")), SanType::URI(ia5("ops@a.test"))], "");
    check(vec![SanType::URI(ia5("x:a,spiffe://prod/api \"\\\r\n"))], "x:a%2Cspiffe://prod/api%20%22%5C%0D%0A");
}

#[test]
fn serials_dates_and_fingerprints() {
    let check = |serial: &[u8], expected: &str| {
        let read = certificate(|params| {
            params.serial_number = Some(SerialNumber::from_slice(serial));
            params.not_after = rcgen::date_time_ymd(2030, 2, 3);
        });
        let facts = read.facts().expect("a certificate");
        assert_eq!((facts.serial.as_str(), facts.not_after.as_str()), (expected, "2030-02-03T00:00:00Z"));
        assert_eq!(read.fingerprint(), format!("ab{}", "0".repeat(62)));
    };
    check(&[1], "01");
    check(&[0x1f, 0xab], "1FAB");
    check(&[0xff, 0], "FF00");
}

#[test]
fn the_shortest_validity_of_a_chain_counts() {
    let until = |year: i32| made(|params| params.not_after = rcgen::date_time_ymd(year, 1, 1));
    let read =
        ClientCertificate::new(vec![until(2040), until(2035), b"no certificate".to_vec().into()], sha256).expect("a chain");
    assert_eq!(read.facts().map(|facts| facts.chain_not_after_unix), Some(2_051_222_400));
    assert!(!read.is_over_at(2_051_222_400) && read.is_over_at(2_051_222_401));
    assert!(ClientCertificate::new(Vec::new(), sha256).is_none());
}

#[test]
fn what_is_no_certificate_says_nothing() {
    for der in [&b""[..], b"x", &[0x30, 0x03, 0x02, 0x01, 0x01]] {
        let read = ClientCertificate::new(vec![der.to_vec().into()], sha256).expect("a chain");
        assert_eq!(read.facts(), None);
        assert_eq!(read.xfcc(), format!("Hash={}", read.fingerprint()).as_bytes());
    }
    // A name list that ends too early is a certificate without names.
    let broken = CustomExtension::from_oid_content(&[2, 5, 29, 17], vec![0x30, 0x05, 0x82, 0x09]);
    let read = certificate(|params| params.custom_extensions.push(broken));
    assert_eq!(read.facts().map_or("", |facts| &facts.names_joined), "");
}

#[test]
fn upstreams_are_told_in_both_forms() {
    let leaf = made(|params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "a\"b");
        let ia5 = |text: &str| text.try_into().expect("ASCII");
        params.subject_alt_names =
            vec![SanType::DnsName(ia5("a.test")), SanType::URI(ia5("spiffe://prod/a")), SanType::URI(ia5("x:a;By=b"))];
    });
    let read =
        ClientCertificate::new(vec![leaf.clone(), b"ab".to_vec().into(), b"abc".to_vec().into()], sha256).expect("a chain");
    let xfcc = format!("Hash={};Subject=\"CN=a\\22b\";URI=spiffe://prod/a;URI=\"x:a;By=b\";DNS=a.test", read.fingerprint());
    assert_eq!(String::from_utf8_lossy(read.xfcc()), xfcc);
    assert_eq!(read.client_cert_chain(), Some(&b":YWI=:, :YWJj:"[..]));
    let value = read.client_cert();
    assert!(value.starts_with(b":MII") && value.ends_with(b":") && value.len() == leaf.len().div_ceil(3) * 4 + 2);
    let alone = ClientCertificate::new(vec![leaf.clone()], sha256).expect("a chain");
    assert_eq!(alone.client_cert_chain(), None);
    let long = ClientCertificate::new(vec![leaf, vec![0; 13_000].into()], sha256).expect("a chain");
    assert_eq!(long.client_cert_chain(), None);
}

#[test]
fn no_bytes_bring_it_down() {
    let good = made(|params| params.subject_alt_names = vec![SanType::DnsName("a.test".try_into().expect("ASCII"))]);
    bolero::check!().with_type::<(u16, u8, Vec<u8>)>().for_each(|(place, value, tail): &(u16, u8, Vec<u8>)| {
        let mut bent = good.to_vec();
        let place = *place as usize % bent.len();
        bent[place] = *value;
        bent.extend_from_slice(&tail[..tail.len() % 3]);
        for der in [bent, tail.clone()] {
            if let Some(read) = ClientCertificate::new(vec![der.into()], sha256) {
                let _ = (read.facts(), read.xfcc());
            }
        }
    });
}
