//! Fuzz targets. `cargo test` runs each for a bounded number of inputs; `cargo bolero test` runs them for as long as
//! one likes. Inputs are good messages with a few bytes changed, because bytes drawn at random never get past the first
//! line.

mod reference;

use bolero::check;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;
use tidegate_wire::chunked::{ChunkedDecoder, Peer};
use tidegate_wire::client_hello::{Sniffed, sniff};
use tidegate_wire::h2::PREFACE;
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::settings::OurSettings;
use tidegate_wire::http1::{append_origin_form, find_head_end, parse_request, parse_response};
use tidegate_wire::ja4::{JA4_LEN, ja4};
use tidegate_wire::path::{Normalised, normalise};
use tidegate_wire::proxy_protocol::{HeaderVersion, RECEIVED_BYTES_MAX, Reading, Said, encode, introduction, read};
use tidegate_wire::{Fields, HeadError, HeadLimits, Parsed, RequestHead, ResponseHead, parse_authority};

const ITERATIONS: usize = 20_000;

/// Which seed, and what is done to it; the top bits of the first say how many of the edits are made.
type Mutation = (u8, Vec<Edit>);
/// Where, how, with which byte.
type Edit = (u16, u8, u8);

/// Bytes that mean something to one of the parsers.
const TELLING: &[u8] = b"\r\n\t :;,%/.?#@[]=\"\\*-_{|^<`0159aAfFgGzZhH\0\x01\x1f\x7f\x80\xff";

fn mutated(seeds: &[&[u8]], (seed, edits): &Mutation) -> Vec<u8> {
    let mut bytes = seeds[*seed as usize % seeds.len()].to_vec();
    for (place, kind, byte) in edits.iter().take((*seed as usize >> 6).max(1)) {
        let place = *place as usize % (bytes.len() + 1);
        let byte = if kind & 0x80 == 0 { TELLING[*byte as usize % TELLING.len()] } else { *byte };
        match kind % 4 {
            0 => bytes.insert(place, byte),
            1 if place < bytes.len() => bytes[place] = byte,
            2 if place < bytes.len() => drop(bytes.remove(place)),
            // A piece twice: a second field, a second line end, a longer name.
            _ => {
                let end = bytes.len().min(place + 1 + byte as usize % 24);
                bytes.extend_from_within(place..end);
                bytes[place..].rotate_right(end - place);
            }
        }
    }
    bytes
}

const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /a/%2e%2E/b%2f?c=%d HTTP/1.1\r\nHost: example.com:80\r\nContent-Length: 3\r\nX-A:\t b\tc \r\n\r\nabc",
    b"GET http://example.com/a/../b?c HTTP/1.1\r\nhost: EXAMPLE.com:80\r\nA: b\r\n\r\n",
    b"OPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]\r\n\r\n",
    b"\r\nDELETE /.well-known/./x HTTP/1.1\r\nA: \xfc\xff\r\nHost: a.b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
];

/// Whatever we take, httparse takes and understands in the same way. What only we refuse falls into the classes named
/// here.
#[test]
fn requests_are_read_as_httparse_reads_them_or_refused() {
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let input = mutated(REQUESTS, mutation);
        let mut head = RequestHead::default();
        let ours = parse_request(&input, &HeadLimits::default(), &mut head);
        let mut space = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut space);
        let theirs = request.parse(&input);
        match ours {
            Ok(Parsed::Complete { consumed }) => {
                assert_eq!(theirs, Ok(httparse::Status::Complete(consumed)));
                assert_eq!(find_head_end(&input, 0), Some(consumed));
                assert_eq!(request.method.map(str::as_bytes), Some(head.method_name()));
                assert_eq!(request.version, Some(u8::from(head.version == tidegate_wire::Version::Http11)));
                assert_same_fields(&head.fields, request.headers);
                assert_same_target(&head, request.path.expect("a target"));
            }
            Ok(Parsed::Partial) => {
                assert_eq!(theirs, Ok(httparse::Status::Partial));
                assert_eq!(find_head_end(&input, 0), None);
            }
            Err(error) => {
                let only_ours = matches!(
                    error,
                    HeadError::BareLf
                        | HeadError::BadTarget
                        | HeadError::BadPercentEncoding
                        | HeadError::PathEscapesRoot
                        | HeadError::PathDotsWithParameter
                        | HeadError::BadAuthority
                        | HeadError::HostMissing
                        | HeadError::HostRepeated
                        | HeadError::AuthorizationRepeated
                        | HeadError::TargetDisagreesWithHost
                );
                let has_two_empty_lines_before = error == HeadError::BadMethod && input.starts_with(b"\r\n");
                let both_refuse = !matches!(theirs, Ok(httparse::Status::Complete(_)));
                assert!(only_ours || has_two_empty_lines_before || both_refuse, "{error:?}: {}", input.escape_ascii());
            }
        }
    });
}

fn assert_same_fields(ours: &Fields, theirs: &[httparse::Header<'_>]) {
    let theirs: Vec<_> = theirs.iter().map(|field| (field.name.as_bytes(), field.value.trim_ascii())).collect();
    assert_eq!(ours.iter().collect::<Vec<_>>(), theirs);
}

fn assert_same_target(head: &RequestHead, target: &str) {
    let Some(slash) = target.strip_prefix('/').map(|_| 0).or_else(|| target.find("://").map(|at| at + 3)) else {
        // `*` or CONNECT's authority.
        assert!(head.path() == target.as_bytes() || head.authority() == target.as_bytes());
        return;
    };
    let rest = &target[slash..];
    let path_start = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(path_start);
    assert!(slash == 0 || head.authority() == authority.as_bytes());
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    assert_eq!(head.query(), query.map(str::as_bytes));
    match path {
        "" => assert!(matches!(head.path(), b"/" | b"*")),
        path => assert_eq!(reference::normalised_path(path.as_bytes()).as_deref(), Some(head.path())),
    }
}

const RESPONSES: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.0 404 Not Found\r\nServer: a\r\nSet-Cookie: b=c; d\r\nSet-Cookie: e\r\n\r\n",
    b"HTTP/1.1 204\r\nA:\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81",
];

#[test]
fn answers_are_read_as_httparse_reads_them_or_refused() {
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let input = mutated(RESPONSES, mutation);
        let mut head = ResponseHead::default();
        let ours = parse_response(&input, &HeadLimits::default(), &mut head);
        let mut space = [httparse::EMPTY_HEADER; 128];
        let mut response = httparse::Response::new(&mut space);
        let theirs = response.parse(&input);
        match ours {
            Ok(Parsed::Complete { consumed }) => {
                assert_eq!(theirs, Ok(httparse::Status::Complete(consumed)));
                assert_eq!(find_head_end(&input, 0), Some(consumed));
                assert_eq!(response.code, Some(head.status));
                assert_same_fields(&head.fields, response.headers);
            }
            Ok(Parsed::Partial) => assert_eq!(theirs, Ok(httparse::Status::Partial)),
            Err(error) => {
                let only_ours = matches!(error, HeadError::BareLf | HeadError::BadStatus)
                    || (error == HeadError::BadVersion && input.starts_with(b"\r\n"));
                let both_refuse = !matches!(theirs, Ok(httparse::Status::Complete(_)));
                assert!(only_ours || both_refuse, "{error:?}: {}", input.escape_ascii());
            }
        }
    });
}

/// Nothing that comes later changes what was said about a beginning.
#[test]
fn more_input_never_changes_an_answer() {
    check!().with_iterations(ITERATIONS / 10).with_type::<Mutation>().for_each(|mutation| {
        let input = mutated(REQUESTS, mutation);
        let answers: Vec<_> = (0..=input.len())
            .map(|end| parse_request(&input[..end], &HeadLimits::default(), &mut RequestHead::default()))
            .collect();
        for pair in answers.windows(2) {
            assert!(pair[0] == Ok(Parsed::Partial) || pair[0] == pair[1], "{pair:?}: {}", input.escape_ascii());
        }
        let input = mutated(RESPONSES, mutation);
        let answers: Vec<_> = (0..=input.len())
            .map(|end| parse_response(&input[..end], &HeadLimits::default(), &mut ResponseHead::default()))
            .collect();
        for pair in answers.windows(2) {
            assert!(pair[0] == Ok(Parsed::Partial) || pair[0] == pair[1], "{pair:?}: {}", input.escape_ascii());
        }
    });
}

const CHUNKED: &[&[u8]] = &[
    b"5\r\nhello\r\n0\r\n\r\nGET /",
    b"1\r\na\r\n2\r\nbc\r\n00\r\n\r\n",
    b"A;x=y;z=\"a b\\\"\"\r\n0123456789\r\n0;e\r\nX: y\r\nGrpc-Status:0\r\n\r\n",
    b"3\r\n0\r\n\r\n2\r\n\r\n\r\n0\r\n\r\n0\r\n\r\n",
];

#[test]
fn chunked_bodies_are_decoded_as_a_plain_decoder_does() {
    check!().with_iterations(ITERATIONS).with_type::<(Mutation, Vec<u8>)>().for_each(|(mutation, pieces)| {
        let input = mutated(CHUNKED, mutation);
        let ours = decode_in_pieces(&input, pieces);
        let theirs = reference::chunked(&input);
        assert_eq!(ours, theirs, "{} in {pieces:?}", input.escape_ascii());
    });
}

/// Payload and length of the body; `None` when it is malformed or not complete.
fn decode_in_pieces(input: &[u8], pieces: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut decoder = ChunkedDecoder::new(Peer::Client, &HeadLimits::default());
    let mut payload = Vec::new();
    let mut at = 0;
    for len in pieces.iter().map(|len| *len as usize % 8).chain([input.len()]) {
        let end = input.len().min(at + len);
        let mut piece = input[at..end].to_vec();
        let decoded = decoder.decode_in_place(&mut piece).ok()?;
        assert_eq!(piece[decoded.consumed..], input[at + decoded.consumed..end]);
        assert!(decoded.finished || decoded.consumed == piece.len());
        payload.extend_from_slice(&piece[decoded.payload]);
        at += decoded.consumed;
        if decoded.finished {
            return Some((payload, at));
        }
    }
    None
}

const PATHS: &[&[u8]] =
    &[b"/", b"/a/b/../c/./d", b"/%41/%2e%2e/%2f%5c", b"//a//..//b/..", b"/a/.../..b/.c/%25%34", b"/a/b/c/../../../"];

#[test]
fn paths_have_one_normal_form() {
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let path = mutated(PATHS, mutation);
        let mut out = Vec::new();
        let normal = match normalise(&path, &mut out) {
            Normalised::Unchanged => path.clone(),
            Normalised::Changed => {
                assert_ne!(out, path);
                out.clone()
            }
            Normalised::EscapesRoot | Normalised::DotsWithParameter | Normalised::Bad => {
                assert!(out.is_empty());
                assert_eq!(reference::normalised_path(&path), None, "{}", path.escape_ascii());
                return;
            }
        };
        assert_eq!(reference::normalised_path(&path).as_ref(), Some(&normal), "{}", path.escape_ascii());
        assert_eq!(normalise(&normal, &mut out), Normalised::Unchanged, "{}", normal.escape_ascii());
        assert!(normal.split(|byte| *byte == b'/').all(|segment| segment != b"." && segment != b".."));
        let mut head = RequestHead::default();
        assert_eq!(append_origin_form(&mut head, &path), Ok(()));
        assert_eq!(head.path(), normal);
    });
}

const AUTHORITIES: &[&[u8]] =
    &[b"example.com", b"a.b:8080", b"[2001:db8::1]:443", b"[::ffff:192.0.2.1]", b"192.0.2.1:1", b"a.:65535", b"a:"];

#[test]
fn authorities_are_host_and_port_and_nothing_else() {
    check!().with_iterations(ITERATIONS).with_type::<Mutation>().for_each(|mutation| {
        let text = mutated(AUTHORITIES, mutation);
        let Ok(authority) = parse_authority(&text) else { return };
        let host = String::from_utf8(authority.host.to_vec()).expect("hosts are ASCII");
        let host = if authority.is_ipv6 { format!("[{host}]") } else { host };
        let rest = text.strip_prefix(host.as_bytes()).expect("the text starts with the host");
        let port = rest.strip_prefix(b":").map(|digits| String::from_utf8(digits.to_vec()).expect("digits"));
        assert!(port.is_some() || rest.is_empty());
        // An empty port is none.
        let port = port.filter(|digits| !digits.is_empty()).map(|digits| digits.parse::<u16>().expect("a port"));
        assert_eq!(port, authority.port);
        if authority.is_ipv6 {
            assert!(host[1..host.len() - 1].parse::<std::net::Ipv6Addr>().is_ok());
        } else {
            assert!(host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
            assert!(!host.starts_with('.') && !host.contains(".."));
        }
    });
}

#[rustfmt::skip]
const CLIENT_HELLO: &[u8] = &[
    22, 3, 1, 0, 83, 1, 0, 0, 79, 3, 3,
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
    0, 0, 2, 0x13, 1, 1, 0, 0, 36,
    0, 0, 0, 14, 0, 12, 0, 0, 9, b'a', b'.', b'e', b'x', b'a', b'm', b'p', b'l', b'e',
    0, 16, 0, 14, 0, 12, 2, b'h', b'2', 8, b'h', b't', b't', b'p', b'/', b'1', b'.', b'1',
];

#[test]
fn a_fingerprint_is_made_of_hellos_that_are_whole_and_of_nothing_else() {
    let hash = |bytes: &[u8]| [bytes.len() as u8; 32];
    check!().with_iterations(ITERATIONS / 10).with_type::<Mutation>().for_each(|mutation| {
        let input = mutated(&[CLIENT_HELLO], mutation);
        let (mut scratch, mut scratch_of_sniff) = (Vec::new(), Vec::new());
        let seen = ja4(&input, &mut scratch, hash);
        if matches!(sniff(&input, &mut scratch_of_sniff), Sniffed::NeedMore | Sniffed::NotTls) {
            assert_eq!(seen, None);
        }
        if let Some(text) = seen {
            assert_eq!(text.len(), JA4_LEN);
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{text}");
        }
    });
}

#[test]
fn hellos_of_any_shape_are_read_without_a_panic() {
    let mut scratch = Vec::new();
    let named = Sniffed::ClientHello {
        server_name: Some("a.example"),
        alpn_h2: true,
        alpn_http11: true,
        alpn_acme_tls: false,
        offers_tls13: false,
        offers_tickets: false,
        has_port: false,
    };
    assert_eq!(sniff(CLIENT_HELLO, &mut scratch), named);
    check!().with_iterations(ITERATIONS / 10).with_type::<Mutation>().for_each(|mutation| {
        let input = mutated(&[CLIENT_HELLO], mutation);
        let (mut scratch, mut scratch_of_whole) = (Vec::new(), Vec::new());
        let whole = sniff(&input, &mut scratch_of_whole);
        for end in 0..input.len() {
            let part = sniff(&input[..end], &mut scratch);
            assert!(part == Sniffed::NeedMore || part == whole, "{part:?} at {end}, {whole:?}: {}", input.escape_ascii());
        }
    });
}

/// What a client does: the frames are built from a byte each, then the stream is cut in two ways.
#[test]
fn frames_of_http2_mean_the_same_in_any_fragmentation() {
    check!().with_iterations(ITERATIONS / 10).with_type::<(Vec<(u8, u8)>, Vec<u8>, Vec<u8>)>().for_each(
        |(frames, raw, pieces)| {
            let mut bytes = Vec::new();
            for (kind, len) in frames {
                // Long runs of one kind, so that budgets are reached.
                for _ in 0..u32::from(*len) * 4 {
                    let len = len % 3 * 7;
                    bytes.extend_from_slice(&[0, 0, len, kind % 12, kind & 0x0f, 0, 0, 0, 1]);
                    bytes.extend(std::iter::repeat_n(kind % 8, len as usize));
                }
            }
            bytes.extend_from_slice(raw);
            let now = Instant::now();
            let whole = receive(&[&bytes], now);
            let mut rest = &bytes[..];
            let mut cut = Vec::new();
            for len in pieces.iter().chain([&1]).cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(rest.len().min(*len as usize % 32 + 1));
                cut.push(piece);
                rest = after;
            }
            assert_eq!(receive(&cut, now), whole);
        },
    );
}

/// How a server's connection takes pieces of what a client sends, with heads read as they come: how it ends, the
/// streams that are there, and what it answers.
fn receive(pieces: &[&[u8]], now: Instant) -> (Option<ConnectionEnd>, usize, Vec<u8>) {
    let ours = OurSettings {
        streams_max: 10,
        initial_window_bytes: 1000,
        connection_window_bytes: 100_000,
        header_list_bytes_max: 1000,
        takes_protocol: false,
    };
    let mut connection: Connection<()> = Connection::new(Role::Server, ours, now);
    let mut end = None;
    let begin: &[&[u8]] = &[PREFACE, &[0, 0, 0, 4, 0, 0, 0, 0, 0]];
    for piece in begin.iter().chain(pieces) {
        let mut input = *piece;
        while end.is_none() {
            match connection.receive(&mut input, now) {
                Ok(Some(Event::Request { key, .. })) => {
                    end = connection.read_request(key, &HeadLimits::default(), &mut RequestHead::default()).err();
                }
                Ok(Some(Event::Trailers { .. })) => {
                    end = connection.read_trailers(&HeadLimits::default(), &mut Fields::default()).err();
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(why) => end = Some(why),
            }
        }
    }
    (end, connection.stream_count(), connection.take_output(Vec::new()))
}

/// An address of either family, mapped ones among them, and a port.
type Address = (u8, [u8; 16], u16);

fn address((family, octets, port): &Address) -> SocketAddr {
    let v4 = [octets[0], octets[1], octets[2], octets[3]];
    let ip = match family % 3 {
        0 => IpAddr::from(v4),
        1 => IpAddr::from(*octets),
        _ => IpAddr::V6(std::net::Ipv4Addr::from(v4).to_ipv6_mapped()),
    };
    SocketAddr::new(ip, *port)
}

/// As a server reads version 1.
fn read_line(header: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let line = std::str::from_utf8(header).ok()?.strip_suffix("\r\n")?;
    let ["PROXY", family, source, destination, source_port, destination_port] = line.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let ip = |text: &str| match family {
        "TCP4" => Some(IpAddr::V4(text.parse().ok()?)),
        "TCP6" if !text.contains('.') => Some(IpAddr::V6(text.parse().ok()?)),
        _ => None,
    };
    let address = |text: &str, port: &str| Some(SocketAddr::new(ip(text)?, port.parse().ok()?));
    Some((address(source, source_port)?, address(destination, destination_port)?))
}

/// As a server reads version 2.
fn read_binary(header: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let rest = header.strip_prefix(b"\r\n\r\n\0\r\nQUIT\n\x21")?;
    let (&[family, high, low], addresses) = rest.split_first_chunk()?;
    if addresses.len() != usize::from(u16::from_be_bytes([high, low])) {
        return None;
    }
    let port = |bytes: &[u8]| Some(u16::from_be_bytes(bytes.try_into().ok()?));
    let (source, destination, ports) = match family {
        0x11 => {
            let (ips, ports) = addresses.split_first_chunk::<8>()?;
            let v4 = |octets: &[u8]| Some(IpAddr::from(<[u8; 4]>::try_from(octets).ok()?));
            (v4(&ips[..4])?, v4(&ips[4..])?, ports)
        }
        0x21 => {
            let (ips, ports) = addresses.split_first_chunk::<32>()?;
            let v6 = |octets: &[u8]| Some(IpAddr::from(<[u8; 16]>::try_from(octets).ok()?));
            (v6(&ips[..16])?, v6(&ips[16..])?, ports)
        }
        _ => return None,
    };
    Some((SocketAddr::new(source, port(ports.get(..2)?)?), SocketAddr::new(destination, port(ports.get(2..)?)?)))
}

/// Both versions say the addresses that they were made of, whatever their families.
#[test]
fn a_proxy_protocol_header_reads_back() {
    check!().with_iterations(ITERATIONS).with_type::<(Address, Address)>().for_each(|(source, destination)| {
        let (source, destination) = (address(source), address(destination));
        for (version, header) in
            [HeaderVersion::V1, HeaderVersion::V2].map(|version| (version, encode(version, source, destination)))
        {
            let seen = match version {
                HeaderVersion::V1 => read_line(header.as_bytes()),
                HeaderVersion::V2 => read_binary(header.as_bytes()),
            };
            let (seen_source, seen_destination) = seen.expect("a readable header");
            let same = |ours: SocketAddr, seen: SocketAddr| {
                ours.ip().to_canonical() == seen.ip().to_canonical() && ours.port() == seen.port()
            };
            assert!(same(source, seen_source) && same(destination, seen_destination), "{source} {destination} {seen:?}");
            assert_eq!(seen_source.is_ipv4(), source.ip().to_canonical().is_ipv4() && destination.ip().to_canonical().is_ipv4());
        }
    });
}

const PROXY_HEADERS: &[&[u8]] = &[
    b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\nGET / HTTP/1.1\r\n",
    b"PROXY TCP6 2001:db8::1 ::ffff:192.0.2.1 65535 0\r\n",
    b"PROXY UNKNOWN whatever\r\n\x16\x03\x01",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x13\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb\x03\0\x04\0\0\0\0",
    b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\x03abcdef",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x1a\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb\x05\0\x02\x01\xff\x02\0\x06a.test",
];

/// However it comes in pieces, a header is read in one way; and what was read is what a header written anew says.
#[test]
fn a_received_proxy_protocol_header_is_read_in_one_way() {
    check!().with_iterations(ITERATIONS).with_type::<(Mutation, u16)>().for_each(|(mutation, cut)| {
        let input = mutated(PROXY_HEADERS, mutation);
        let outcome = read(&input);
        let early = read(&input[..*cut as usize % (input.len() + 1)]);
        assert!(early == Ok(Reading::NeedMore) || early == outcome, "{early:?} became {outcome:?}");
        let Ok(Reading::Whole { said, consumed }) = outcome else { return };
        assert!(consumed <= input.len().min(RECEIVED_BYTES_MAX));
        if let Some(more) = introduction(&input[..consumed]) {
            let is_plain = |text: &str| text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_graphic());
            assert!(is_plain(more.authority()) && is_plain(more.unique_id_text()) && more.unique_id().len() <= 128);
        }
        let Said::Addresses { source, destination } = said else { return };
        for version in [HeaderVersion::V1, HeaderVersion::V2] {
            let written = encode(version, source, destination);
            let whole = Reading::Whole { said, consumed: written.as_bytes().len() };
            assert_eq!(read(written.as_bytes()), Ok(whole));
        }
    });
}
