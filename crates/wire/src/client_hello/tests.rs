//! Hellos built field by field, whole, cut everywhere and spread over records.

use super::{CLIENT_HELLO_RECORDS_MAX, Sniffed, UNRECOGNIZED_NAME, fatal_alert, is_plain_http, sniff};

fn with_short_length(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).expect("short")], bytes].concat()
}

fn with_long_length(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).expect("not too long").to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), with_long_length(data)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(0, &with_long_length(&[vec![0], with_long_length(name)].concat()))
}

fn protocols(names: &[&str]) -> Vec<u8> {
    let list: Vec<u8> = names.iter().flat_map(|name| with_short_length(name.as_bytes())).collect();
    extension(16, &with_long_length(&list))
}

/// The handshake message, with its type and length.
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(with_short_length(&[9; 32]));
    body.extend(with_long_length(&[0x13, 0x01, 0x13, 0x02]));
    body.extend(with_short_length(&[0]));
    body.extend(with_long_length(&extensions.concat()));
    message(&body)
}

fn message(body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    [&[1, len[1], len[2], len[3]], body].concat()
}

fn records(message: &[u8], content_max: usize) -> Vec<u8> {
    message.chunks(content_max).flat_map(|content| [vec![22, 3, 1], with_long_length(content)].concat()).collect()
}

fn record(message: &[u8]) -> Vec<u8> {
    records(message, 1 << 14)
}

/// Whole, cut at every place, with something behind it, and in records of several sizes the answer is the same.
fn check(message: &[u8], expected: Sniffed<'_>) {
    let mut scratch = Vec::new();
    for content_max in [1 << 14, message.len().div_ceil(2), message.len().div_ceil(CLIENT_HELLO_RECORDS_MAX)] {
        let mut input = records(message, content_max);
        assert_eq!(sniff(&input, &mut scratch), expected, "records of {content_max}");
        for end in 0..input.len() {
            assert_eq!(sniff(&input[..end], &mut scratch), Sniffed::NeedMore, "cut at {end}, records of {content_max}");
        }
        input.extend_from_slice(&[20, 3, 3, 0, 1, 1]);
        assert_eq!(sniff(&input, &mut scratch), expected, "with more behind it");
    }
}

/// `h2`, `http/1.1`, TLS 1.3 and tickets of TLS 1.2.
fn offering(server_name: Option<&str>, [alpn_h2, alpn_http11, offers_tls13, offers_tickets]: [bool; 4]) -> Sniffed<'_> {
    Sniffed::ClientHello {
        server_name,
        has_port: false,
        alpn_h2,
        alpn_http11,
        alpn_acme_tls: false,
        offers_tls13,
        offers_tickets,
    }
}

fn named(server_name: Option<&str>) -> Sniffed<'_> {
    offering(server_name, [false; 4])
}

#[test]
fn names_and_protocols_are_found() {
    check(&hello(&[]), named(None));
    check(&hello(&[server_name(b"www.example.com")]), named(Some("www.example.com")));
    let challenge = Sniffed::ClientHello {
        server_name: Some("a"),
        has_port: false,
        alpn_h2: false,
        alpn_http11: false,
        alpn_acme_tls: true,
        offers_tls13: false,
        offers_tickets: false,
    };
    check(&hello(&[protocols(&["acme-tls/1"]), server_name(b"a")]), challenge);
    check(
        &hello(&[extension(43, &[2, 3, 4]), server_name(b"A_b.EXAMPLE")]),
        offering(Some("A_b.EXAMPLE"), [false, false, true, false]),
    );
    check(&hello(&[extension(43, &[6, 0x0a, 0x0a, 3, 4, 3, 3])]), offering(None, [false, false, true, false]));
    check(&hello(&[extension(43, &[2, 3, 3]), extension(35, &[])]), offering(None, [false, false, false, true]));
    check(&hello(&[extension(35, &[7; 200])]), offering(None, [false, false, false, true]));
    check(&hello(&[protocols(&["h2", "http/1.1"]), server_name(b"a")]), offering(Some("a"), [true, true, false, false]));
    check(&hello(&[protocols(&["x", "h2"])]), offering(None, [true, false, false, false]));
    check(&hello(&[protocols(&["http/1.0"])]), named(None));
    // An address is no name; clients that send one get the default certificate.
    check(&hello(&[server_name(b"192.0.2.1")]), named(None));
    for name in [&b"a.example:8443"[..], b"192.0.2.1:1"] {
        let Sniffed::ClientHello { alpn_h2, alpn_http11, alpn_acme_tls, offers_tls13, offers_tickets, .. } = named(None) else {
            unreachable!("it is one");
        };
        let with_port = Sniffed::ClientHello {
            server_name: None,
            has_port: true,
            alpn_h2,
            alpn_http11,
            alpn_acme_tls,
            offers_tls13,
            offers_tickets,
        };
        check(&hello(&[server_name(name)]), with_port);
    }
    check(&hello(&[extension(0, &with_long_length(&[7, 0, 1, b'x']))]), named(None));
    // As long as with post-quantum key shares and more.
    check(&hello(&[extension(51, &[5; 1300]), server_name(b"a.example")]), named(Some("a.example")));
    // TLS 1.2 clients may leave the extensions out.
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    check(&message(&body), named(None));
}

#[test]
fn malformed_hellos_are_refused() {
    let check = |input: &[u8]| assert_eq!(sniff(input, &mut Vec::new()), Sniffed::Bad, "{}", input.escape_ascii());
    for name in [&b""[..], b"a.", b".", b".a", b"a..b", b"a b", b"a\0", b"\xfc", b"::1", b"*.a", &[b'a'; 254]] {
        check(&record(&hello(&[server_name(name)])));
    }
    let two_names = [vec![0], with_long_length(b"a"), vec![0], with_long_length(b"b")].concat();
    check(&record(&hello(&[extension(0, &with_long_length(&two_names))])));
    check(&record(&hello(&[server_name(b"a"), server_name(b"a")])));
    check(&record(&hello(&[protocols(&["h2"]), protocols(&["h2"])])));
    check(&record(&hello(&[extension(0, b"")])));
    check(&record(&hello(&[extension(0, &[0, 0])])));
    check(&record(&hello(&[extension(0, &[0, 3, 0, 0, 1, b'a', 0])])));
    check(&record(&hello(&[extension(16, &[0, 0])])));
    check(&record(&hello(&[extension(43, &[0])])));
    check(&record(&hello(&[extension(43, &[3, 3, 4, 3])])));
    check(&record(&hello(&[extension(43, &[2, 3, 4, 0])])));
    check(&record(&hello(&[extension(16, &[0, 1, 0])])));
    check(&record(&hello(&[extension(16, &[0, 2, 2, b'h'])])));
    let whole = hello(&[server_name(b"a")]);
    for len in 4..whole.len() - 1 {
        // Without extensions a hello ends before their length; any other cut is inside of something.
        let cut = message(&whole[4..len]);
        let is_without_extensions = len == 4 + 2 + 32 + 33 + 6 + 2;
        assert_eq!(sniff(&record(&cut), &mut Vec::new()) == Sniffed::Bad, !is_without_extensions, "{len}");
    }
    check(&record(&[2, 0, 0, 0]));
    check(&[22, 3, 1, 0, 0]);
    check(&[22, 3, 1, 0x40, 1]);
    check(&record(&[&[1, 0, 0x40, 1][..], &[0; 100]].concat()));
    check(&records(&whole, 1));
    let mut then_other = records(&whole, whole.len() - 1);
    let last = then_other.len() - 6;
    then_other[last] = 23;
    check(&then_other);
}

#[test]
fn other_protocols_are_told_apart() {
    for input in [&b"GET / HTTP/1.1\r\n"[..], b"SSH-2.0-x", &[0x80, 0x2e, 1, 3, 1], &[22, 2, 0, 0, 5], &[21, 3, 3, 0, 2], &[0]] {
        assert_eq!(sniff(input, &mut Vec::new()), Sniffed::NotTls, "{}", input.escape_ascii());
    }
    for input in ["GET /", "POST /x", "OPTIONS *", "PRI * HTTP/2.0", "DELETE /", "HEAD"] {
        assert!(is_plain_http(input.as_bytes()), "{input}");
    }
    for input in ["", "GET", "get / ", "GETS", "\x16\x03\x01\x02", "SSH-2.0"] {
        assert!(!is_plain_http(input.as_bytes()), "{input}");
    }
    assert_eq!(fatal_alert(UNRECOGNIZED_NAME), [21, 3, 3, 0, 2, 2, 112]);
}
