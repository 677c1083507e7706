//! One conversation for each role, fed in with a cut at each place, and in pieces of each small size: what the owner
//! learns and what is sent must be the same as when it comes at once.

use crate::frames::{GET, OK, POST, client_begins, field, frame, server_begins};
use crate::peer::{Endpoint, Fact};
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::fault::ConnectionEnd;

/// What a client sends: every kind of frame, good and bad, and a fault at the end.
fn of_client() -> Vec<u8> {
    let long = [POST, &field("content-length", "5"), &field("x", &"y".repeat(200))].concat();
    let (first, rest) = long.split_at(20);
    let (second, third) = rest.split_at(100);
    [
        client_begins(),
        frame(4, 0, 0, &[0, 1, 0, 0, 0, 100, 0, 4, 0, 0, 1, 0]),
        frame(1, 0x0c | 0x20, 1, &[&[3, 0, 0, 0, 9, 7], POST, &[0; 3]].concat()),
        frame(0, 0, 1, b"abc"),
        frame(0, 8, 1, &[2, b'd', 0, 0]),
        frame(0, 8, 1, &[3, 0, 0, 0]),
        frame(0, 0, 1, b""),
        frame(1, 0, 3, first),
        frame(9, 0, 3, second),
        frame(9, 0, 3, b""),
        frame(9, 4, 3, third),
        frame(0, 0, 3, b"he"),
        frame(6, 0, 0, b"12345678"),
        frame(2, 0, 1, &[0, 0, 0, 3, 1]),
        frame(0x10, 0, 0, b"\0\0\0\x03u=1, i"),
        frame(0xfa, 0xff, 1, b"unknown"),
        frame(0xfa, 0xff, 0, b""),
        frame(8, 0, 0, &[0, 0, 1, 0]),
        frame(8, 0, 1, &[0, 0, 1, 0]),
        frame(0, 1, 3, b"llo"),
        frame(1, 5, 1, &field("x-sum", "1")),
        frame(1, 5, 5, GET),
        // Streams that break a rule: an upper-case name, a length, a window, an end twice.
        frame(1, 5, 7, &[GET, &field("A", "b")].concat()),
        frame(1, 4, 9, &[POST, &field("content-length", "1")].concat()),
        frame(0, 1, 9, b"ab"),
        frame(1, 4, 11, POST),
        frame(8, 0, 11, &[0; 4]),
        frame(0, 1, 11, b"read past"),
        frame(1, 5, 13, GET),
        frame(0, 1, 13, b"x"),
        frame(1, 4, 15, POST),
        frame(3, 0, 15, &[0, 0, 0, 8]),
        frame(0, 9, 5, &[1, 0]),
        frame(7, 0, 0, b"\0\0\0\0\0\0\0\0why"),
        frame(6, 1, 0, b"answered"),
        frame(0, 0, 17, b"never opened"),
        frame(6, 0, 0, b"too late"),
    ]
    .concat()
}

/// What a server sends to one that has asked on streams 1 to 9.
fn of_server() -> Vec<u8> {
    [
        server_begins(),
        frame(1, 4, 1, &field(":status", "103")),
        frame(1, 4, 1, OK),
        frame(1, 4, 3, &[OK, &field("content-length", "3")].concat()),
        frame(0, 0, 1, b"abc"),
        frame(0, 9, 3, b"\x02abc\0\0"),
        frame(1, 0, 5, OK),
        frame(9, 0, 5, &field("a", "b")),
        frame(9, 4, 5, b""),
        frame(0, 0, 5, b"d"),
        frame(1, 5, 5, &field("grpc-status", "0")),
        frame(1, 5, 7, &[OK, &field("A", "b")].concat()),
        frame(3, 0, 9, &[0, 0, 0, 7]),
        frame(8, 0, 0, &[0, 0, 1, 0]),
        frame(4, 0, 0, &[0, 3, 0, 0, 0, 1]),
        frame(0, 1, 1, b"end"),
        frame(7, 0, 0, b"\0\0\0\x05\0\0\0\0"),
        frame(5, 4, 1, &[&[0, 0, 0, 2], GET].concat()),
    ]
    .concat()
}

type Seen = (Vec<Fact>, Option<ConnectionEnd>, Vec<u8>);

fn seen<'b>(role: Role, pieces: impl IntoIterator<Item = &'b [u8]>) -> Seen {
    let mut endpoint = Endpoint::new(role);
    if role == Role::Client {
        for _ in 0..5 {
            endpoint.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        }
    }
    for piece in pieces {
        endpoint.receive(piece);
    }
    (endpoint.facts, endpoint.end, endpoint.connection.take_output(Vec::new()))
}

#[test]
fn input_means_the_same_however_it_is_cut() {
    for (role, bytes) in [(Role::Server, of_client()), (Role::Client, of_server())] {
        let whole = seen(role, [&bytes[..]]);
        assert!(whole.1.is_some() && whole.0.len() > 9, "{whole:?}");
        for cut in 0..=bytes.len() {
            let (before, after) = bytes.split_at(cut);
            assert_eq!(seen(role, [before, after]), whole, "{role:?}, cut at {cut}");
            let (inside, after) = after.split_at(after.len().min(1));
            assert_eq!(seen(role, [before, inside, &[], after]), whole, "{role:?}, the byte at {cut} alone");
        }
        for size in 1..40 {
            assert_eq!(seen(role, bytes.chunks(size)), whole, "{role:?}, in pieces of {size}");
        }
        // What has come is known when it has come: a beginning says nothing that the whole does not.
        for end in 0..bytes.len() {
            let (facts, ended, output) = seen(role, [&bytes[..end]]);
            assert!(ended.is_none() || (ended, &output) == (whole.1, &whole.2), "{role:?}: {end}");
            assert!(whole.2.starts_with(&output) && facts.len() <= whole.0.len(), "{role:?}: {end}");
        }
    }
}

/// Cuts of a frame's content are pieces of a body, which need no frame that is whole.
#[test]
fn content_is_handed_on_as_it_comes() {
    let mut endpoint = Endpoint::new(Role::Server);
    endpoint.receive(&[client_begins(), frame(1, 4, 1, POST)].concat());
    let data = frame(0, 1, 1, b"hello");
    for (at, byte) in data.iter().enumerate() {
        endpoint.receive(&[*byte]);
        let expected =
            (at >= 9).then(|| Fact::Data { stream: 1, bytes: data[9..=at].to_vec(), ends_stream: at == data.len() - 1 });
        assert_eq!(endpoint.facts.get(1), expected.as_ref(), "{at}");
    }
}
