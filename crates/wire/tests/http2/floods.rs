//! Floods, each by the name that it became known under: after how much of it the connection ends, and what it may hold
//! until then. Budgets themselves are tested beside `h2::floods`; what a driver holds of output, in `message`.

use crate::frames::{GET, OK, POST, client_begins, field, frame, parsed, server_begins};
use crate::peer::{Endpoint, Fact};
use tidegate_wire::h2::connection::{Connection, Event, Role};
use tidegate_wire::h2::fault::ConnectionEnd;
use tidegate_wire::h2::frame::ErrorCode;
use tidegate_wire::{Flood, HeadLimits, RequestHead, ResponseHead};

/// More than any budget lets through at one moment.
const ENDLESS: usize = 40_000;

/// The n-th stream of a client.
fn id(times: usize) -> u32 {
    2 * times as u32 + 1
}

fn begun(role: Role) -> Endpoint {
    let mut endpoint = Endpoint::new(role);
    if role == Role::Client {
        endpoint.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        endpoint.receive(&[server_begins(), frame(1, 4, 1, OK)].concat());
    } else {
        endpoint.receive(&client_begins());
    }
    endpoint
}

/// Sends pieces until the connection ends, at `ends_within` of them: as that flood. Streams that ended are released, as
/// the proxy does, and no more than a few are ever there; output is sent after each piece.
fn check(role: Role, name: &str, piece: impl Fn(usize) -> Vec<u8>, ends_within: std::ops::Range<usize>, flood: Flood) {
    let mut endpoint = begun(role);
    let mut sent = 0;
    let mut answered = 0;
    while endpoint.end.is_none() && sent < ENDLESS {
        endpoint.facts.clear();
        endpoint.receive(&piece(sent));
        for fact in std::mem::take(&mut endpoint.facts) {
            if let Fact::Reset { stream, .. } | Fact::Malformed { stream, .. } = fact
                && let Some(key) = endpoint.key(stream)
            {
                endpoint.connection.release(key);
            }
        }
        answered += endpoint.connection.take_output(Vec::new()).len();
        assert!(endpoint.connection.stream_count() <= 2, "{name}: streams are held");
        sent += 1;
    }
    assert_eq!(endpoint.end, Some(ConnectionEnd::Flood(flood)), "{name}, after {sent}");
    assert!(ends_within.contains(&sent), "{name}: it took {sent}");
    assert!(answered <= 200 + 60 * sent, "{name}: {answered} bytes answered {sent}");
}

#[test]
fn cve_2023_44487_rapid_reset() {
    let piece = |times| [frame(1, 5, id(times), GET), frame(3, 0, id(times), &[0, 0, 0, 8])].concat();
    check(Role::Server, "whole requests", piece, 200..300, Flood::RapidReset);
    let piece = |times| [frame(1, 4, id(times), POST), frame(3, 0, id(times), &[0; 4])].concat();
    check(Role::Server, "requests with a body", piece, 200..300, Flood::RapidReset);
}

#[test]
fn cve_2025_8671_made_you_reset() {
    let made = |name: &str, flags: u8, block: &[u8], more: &dyn Fn(u32) -> Vec<u8>| {
        let piece = |times| [frame(1, flags | 4, id(times), block), more(id(times))].concat();
        check(Role::Server, name, piece, 200..300, Flood::RapidReset);
    };
    made("a window by nothing", 1, GET, &|id| frame(8, 0, id, &[0; 4]));
    made("a window over 2^31 - 1", 1, GET, &|id| frame(8, 0, id, &[0x7f, 255, 255, 255]));
    made("DATA behind the end", 1, GET, &|id| frame(0, 0, id, b"x"));
    made("HEADERS behind the end", 1, GET, &|id| frame(1, 5, id, &field("a", "b")));
    made("a short PRIORITY", 1, GET, &|id| frame(2, 0, id, &[0; 4]));
    made("a long PRIORITY", 1, GET, &|id| frame(2, 0, id, &[0; 6]));
    made("a dependency on itself", 1, GET, &|id| frame(2, 0, id, &[&id.to_be_bytes()[..], &[0]].concat()));
    made("more than was declared", 0, &[POST, &field("content-length", "1")].concat(), &|id| frame(0, 0, id, b"ab"));
    made("less than was declared", 0, &[POST, &field("content-length", "9")].concat(), &|id| frame(0, 1, id, b"ab"));
    made("trailers that end nothing", 0, POST, &|id| frame(1, 4, id, &field("a", "b")));
    made("a pseudo-header in trailers", 0, POST, &|id| frame(1, 5, id, &[0x84]));
    made("more than the window", 0, POST, &|id| {
        (0..5).flat_map(|_| frame(0, 8, id, &[0; 16_384])).chain(frame(8, 0, id, &[0; 4])).collect()
    });
    let itself = |times| frame(1, 0x25, id(times), &[&id(times).to_be_bytes()[..], &[0], GET].concat());
    check(Role::Server, "a head that depends on itself", itself, 200..300, Flood::RapidReset);
}

/// Requests that are refused at once: malformed heads (CVE-2019-9514), fields without a name or a value (9516).
#[test]
fn cve_2019_9514_resets_and_9516_empty_fields() {
    for (name, fields) in [("upper case", field("A", "b")), ("empty", field("", "")), ("line ends", field("a", "\r\n"))] {
        let piece = |times| frame(1, 5, id(times), &[GET, &fields].concat());
        check(Role::Server, name, piece, 200..300, Flood::RapidReset);
    }
}

#[test]
fn cve_2024_27316_continuation() {
    for role in [Role::Server, Role::Client] {
        for payload in [&b""[..], b"\x82", &field("a", "b")] {
            let mut endpoint = begun(role);
            endpoint.receive(&frame(1, 0, 1 + 2 * u32::from(role == Role::Server), payload));
            let mut sent = 0;
            while endpoint.end.is_none() && sent < 100 {
                endpoint.receive(&frame(9, 0, 1 + 2 * u32::from(role == Role::Server), payload));
                sent += 1;
            }
            assert_eq!((endpoint.end, sent), (Some(ConnectionEnd::Flood(Flood::Continuation)), 33), "{role:?}");
        }
        // Large ones end by what they would have us hold.
        let mut endpoint = begun(role);
        endpoint.receive(&frame(1, 0, 1, &[0; 16_384]));
        let sent = (0..100).take_while(|_| {
            endpoint.receive(&frame(9, 0, 1, &[0; 16_384]));
            endpoint.end.is_none()
        });
        assert!(sent.count() * 16_384 <= 2 * 65_536 + 16_384, "{role:?}");
        assert_eq!(endpoint.end.map(ConnectionEnd::code), Some(ErrorCode::EnhanceYourCalm));
    }
}

/// PING (CVE-2019-9512), SETTINGS (9515), priorities (9513), empty frames (9518), and what nobody knows.
#[test]
fn cve_2019_frames_that_ask_for_nothing() {
    for role in [Role::Server, Role::Client] {
        let open = if role == Role::Server { frame(1, 4, 1, POST) } else { Vec::new() };
        let frames = |name: &str, piece: Vec<u8>, count: usize, flood: Flood| {
            // A ping is paid for by as many bytes as we send ourselves, of which the first are our SETTINGS.
            let within = count - 5..count + 70;
            check(role, name, |times| if times == 0 { [&open[..], &piece].concat() } else { piece.clone() }, within, flood);
        };
        frames("SETTINGS", frame(4, 0, 0, &[]), 50, Flood::Settings);
        frames("SETTINGS with one", frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]), 50, Flood::Settings);
        frames("acknowledgements", frame(4, 1, 0, &[]), 50, Flood::Settings);
        frames("PRIORITY", frame(2, 0, 1, &[0, 0, 0, 3, 1]), 500, Flood::Priority);
        frames("PRIORITY of idle streams", frame(2, 0, 77, &[0, 0, 0, 3, 1]), 500, Flood::Priority);
        frames("unknown frames", frame(0xfa, 0, 1, &[0; 100]), 500, Flood::Priority);
        frames("GOAWAY", frame(7, 0, 0, &[0; 8]), 500, Flood::Priority);
        frames("empty DATA", frame(0, 0, 1, &[]), 200, Flood::EmptyData);
        frames("DATA that is padding", frame(0, 8, 1, &[10; 11]), 200, Flood::EmptyData);
    }
    let update = |_| frame(0x10, 0, 0, b"\0\0\0\x01u=1");
    check(Role::Server, "PRIORITY_UPDATE", update, 490..510, Flood::Priority);
    for role in [Role::Server, Role::Client] {
        check(role, "PING", |_| frame(6, 0, 0, &[0; 8]), 1000..4000, Flood::Ping);
        check(role, "answers to no PING", |_| frame(6, 1, 0, &[0; 8]), 990..1010, Flood::Ping);
    }
}

/// Windows that open by a byte (CVE-2019-9511) have a body sent in frames of a byte: what is sent pays for less than
/// was asked.
#[test]
fn cve_2019_9511_window_dribble() {
    let mut endpoint = begun(Role::Server);
    endpoint.receive(&[frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]), frame(1, 5, 1, GET)].concat());
    let key = endpoint.key(1).expect("a stream");
    endpoint.connection.send_response(key, &ResponseHead { status: 200, ..ResponseHead::default() }, false);
    endpoint.connection.offer(key);
    endpoint.connection.take_output(Vec::new());
    let mut frames = 0;
    while endpoint.end.is_none() && frames < ENDLESS {
        endpoint.receive(&frame(8, 0, 1, &[0, 0, 0, 1]));
        if let Some((key, bytes)) = endpoint.connection.next_to_send() {
            endpoint.connection.send_data(key, &b"x"[..bytes], false, true);
        }
        assert!(endpoint.connection.take_output(Vec::new()).len() <= 30);
        frames += 1;
    }
    assert_eq!(endpoint.end, Some(ConnectionEnd::Flood(Flood::WindowUpdate)));
    assert!(frames < 30_000, "{frames}");
    let updates = |_| frame(8, 0, 0, &[0, 0, 0, 1]);
    check(Role::Server, "windows that nothing is sent in", updates, 4000..4050, Flood::WindowUpdate);
}

/// Small blocks that stand for large heads: an entry of the table again and again, and crumbs of a cookie. What is
/// held of a head stays within its bound, and the stream is refused.
#[test]
fn hpack_bombs_take_no_more_than_a_head_may() {
    let large = [&[0x40, 1, b'a'][..], &[127, 0xa1, 0x1e], &[b'x'; 4000]].concat();
    let limits = HeadLimits::default();
    let check = |name: &str, first: &[u8], bomb: &[u8], is_refused: bool| {
        let mut endpoint = begun(Role::Server);
        endpoint.receive(&frame(1, 5, 1, &[GET, first].concat()));
        assert!(endpoint.end.is_none(), "{name}");
        let connection: &mut Connection<()> = &mut endpoint.connection;
        let mut bytes = frame(1, 1, 3, GET);
        let mut pieces = bomb.chunks(16_384).peekable();
        while let Some(piece) = pieces.next() {
            bytes.extend(frame(9, if pieces.peek().is_none() { 4 } else { 0 }, 3, piece));
        }
        let mut input = &bytes[..];
        let Ok(Some(Event::Request { key, .. })) = connection.receive(&mut input, endpoint.now) else { panic!("{name}") };
        let mut head = RequestHead::default();
        let read = connection.read_request(key, &limits, &mut head).expect("it can be decoded");
        assert_eq!(read.is_err(), is_refused, "{name}: {read:?}");
        let held = head.fields.bytes.capacity();
        assert!(held <= 3 * limits.head_bytes_max, "{name}: {held} bytes of a head");
        // Crumbs of a cookie are one field, and each takes its name and 32 bytes of what a head may have.
        let crumbs_max = limits.head_bytes_max / ("cookie".len() + 32);
        let fields = head.fields.list.len();
        assert!(fields <= limits.fields_max + 8 + crumbs_max, "{name}: {fields} fields");
        // The connection goes on, with tables that agree.
        assert!(connection.receive(&mut &frame(6, 0, 0, b"go on?!?")[..], endpoint.now).is_ok());
        connection.reset_for_fault(key, endpoint.now).expect("the first");
        let output = parsed(&connection.take_output(Vec::new()));
        assert!(output.iter().any(|(head, payload)| head.kind == 6 && payload == b"go on?!?"), "{name}");
    };
    check("a large entry, 100,000 times", &large, &vec![0xbe; 100_000], true);
    check("a large entry, a few times", &large, &[0xbe; 10], false);
    check("crumbs of a cookie, 60,000", &[0x60, 1, b'a'], &vec![0xbe; 60_000], true);
    check("crumbs without a value", &[], &vec![0xa0; 100_000], true);
    check("names without values", &[], &vec![0x90; 100_000], true);
    check("literals of one letter", &[], &[0, 1, b'a', 1, b'b'].repeat(20_000), true);
    check("a value of more than a head may have", &[], &field("a", &"x".repeat(100_000)), true);
    // Refused again and again, it is a flood of resets.
    let bomb = [GET, &large, &vec![0xbe; 10_000]].concat();
    self::check(Role::Server, "bombs", |times| frame(1, 5, id(times), &bomb), 200..300, Flood::RapidReset);
}

/// A client that opens more streams than it may has each refused, and nothing is held of them.
#[test]
fn streams_over_the_bound_are_refused_and_cost_nothing() {
    let mut endpoint = begun(Role::Server);
    let mut refused = 0;
    for times in 0..10_000 {
        endpoint.receive(&frame(1, 5, id(times), GET));
        let output = parsed(&endpoint.connection.take_output(Vec::new()));
        refused += output.iter().filter(|(head, code)| head.kind == 3 && code[3] == ErrorCode::RefusedStream as u8).count();
    }
    assert_eq!((endpoint.connection.stream_count(), refused, endpoint.end), (100, 9900, None));
}
