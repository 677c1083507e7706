//! Connections drawn from a seed, some with a fault, are read by our core and by the crate `h2`: each says by its
//! frames whether it ends a stream or the connection, and they say the same but for differences that are known.

use super::{Socket, Tasks, Wires};
use crate::against_python::drawn;
use crate::frames::parsed;
use crate::peer::{Endpoint, Fact};
use bytes::Bytes;
use http::{Method, Request};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Waker};
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::frame::{ErrorCode, FrameHead};

const CASES: u64 = 3000;

/// Faults of a stream for which `h2` does something else than to end the stream, as RFC 9113 wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// PRIORITY that is not five bytes long (section 6.3).
    PriorityLength,
    /// A stream that depends on itself (RFC 7540 section 5.3.1).
    PriorityOfItself,
    /// WINDOW_UPDATE by nothing (section 6.9).
    WindowByNothing,
    /// WINDOW_UPDATE beyond what a window can be (section 6.9.1).
    WindowBeyondAll,
    /// DATA or HEADERS behind END_STREAM (section 5.1, half-closed).
    BehindTheEnd,
    /// DATA where an answer has had no head (section 8.1).
    BeforeTheHead,
    /// Trailers that do not end their stream (section 8.1).
    TrailersWithoutEnd,
    /// A head or trailers that break a rule (section 8.1.1).
    Malformed,
}

/// The faults of the frames on a stream.
fn shapes(id: u32, frames: &[(FrameHead, Vec<u8>)], why: &str) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let (mut has_head, mut has_ended, mut window) = (false, false, 0);
    for (head, payload) in frames.iter().filter(|(head, _)| head.stream == id) {
        let first = payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff);
        match head.kind {
            0 | 1 if has_ended => shapes.push(Shape::BehindTheEnd),
            0 if !has_head => shapes.push(Shape::BeforeTheHead),
            1 if has_head && head.flags & 1 == 0 => shapes.push(Shape::TrailersWithoutEnd),
            2 if head.len != 5 => shapes.push(Shape::PriorityLength),
            2 if first == Some(id) => shapes.push(Shape::PriorityOfItself),
            1 if head.flags & 0x20 != 0 && first == Some(id) => shapes.push(Shape::PriorityOfItself),
            8 if first == Some(0) => shapes.push(Shape::WindowByNothing),
            8 => {
                window += u64::from(first.unwrap_or(0));
                if window > 0x7fff_ffff - 65_535 {
                    shapes.push(Shape::WindowBeyondAll);
                }
            }
            _ => {}
        }
        has_head |= head.kind == 1;
        has_ended |= head.kind < 2 && head.flags & 1 != 0;
    }
    if why.contains(&format!("Malformed {{ stream: {id},")) {
        shapes.push(Shape::Malformed);
    }
    shapes
}

/// What an end makes of what came, as it says it to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Stream,
    Connection,
}

/// The frames of an end say it: GOAWAY with a code, or RST_STREAM, with its stream.
fn verdict(output: &[u8]) -> (Verdict, String, u32) {
    let mut said = (Verdict::Good, String::new(), 0);
    for (head, payload) in parsed(output) {
        let code = |at: usize| {
            payload
                .get(at..at + 4)
                .and_then(|code| code.try_into().ok())
                .map_or(ErrorCode::NoError, |code| ErrorCode::of(u32::from_be_bytes(code)))
        };
        match head.kind {
            7 if code(4) != ErrorCode::NoError => return (Verdict::Connection, code(4).name().to_owned(), 0),
            3 if said.0 == Verdict::Good => said = (Verdict::Stream, code(0).name().to_owned(), head.stream),
            _ => {}
        }
    }
    said
}

const REQUESTS: usize = 3;

fn ours(role: Role, bytes: &[u8]) -> (Verdict, String, u32, String) {
    let mut endpoint = Endpoint::new(role);
    if role == Role::Client {
        for _ in 0..REQUESTS {
            endpoint.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        }
    }
    endpoint.receive(bytes);
    let (verdict, code, id) = verdict(&endpoint.connection.take_output(Vec::new()));
    let why = match (endpoint.end, &endpoint.facts) {
        (Some(end), _) => end.to_string(),
        (None, facts) => {
            let faults = facts.iter().filter(|fact| matches!(fact, Fact::Malformed { .. }));
            faults.map(|fact| format!("{fact:?}")).collect::<Vec<_>>().join(", ")
        }
    };
    (verdict, code, id, why)
}

/// The owner of `h2` reads bodies, gives their windows back, and keeps all streams.
fn theirs(role: Role, bytes: &[u8]) -> (Verdict, String, u32) {
    let wires = Rc::<RefCell<Wires>>::default();
    let tasks = Rc::<Tasks>::default();
    let (socket, spawner) = (Socket(wires.clone()), tasks.clone());
    let read = |mut body: h2::RecvStream, spawner: &Rc<Tasks>, held: Box<dyn std::any::Any>| {
        spawner.borrow_mut().push(Box::pin(async move {
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
            }
            let _ = body.trailers().await;
            std::future::pending::<()>().await;
            drop((body, held));
        }));
    };
    if role == Role::Server {
        tasks.borrow_mut().push(Box::pin(async move {
            let Ok(mut connection) = h2::server::handshake(socket).await else { return };
            while let Some(accepted) = connection.accept().await {
                let Ok((request, respond)) = accepted else { break };
                let respond: h2::server::SendResponse<Bytes> = respond;
                read(request.into_body(), &spawner, Box::new(respond));
            }
            // What it has to say of the error goes out with its end.
            let _ = poll_fn(|context| connection.poll_closed(context)).await;
        }));
    } else {
        tasks.borrow_mut().push(Box::pin(async move {
            let builder = h2::client::Builder::new();
            let Ok((mut sender, connection)) = builder.handshake::<_, Bytes>(socket).await else { return };
            for _ in 0..REQUESTS {
                let mut request = Request::new(());
                (*request.method_mut(), *request.uri_mut()) = (Method::POST, "http://a/".parse().expect("an address"));
                let (answer, stream) = sender.send_request(request, false).expect("it is taken");
                let own = spawner.clone();
                spawner.borrow_mut().push(Box::pin(async move {
                    if let Ok(answer) = answer.await {
                        read(answer.into_body(), &own, Box::new(stream));
                    } else {
                        std::future::pending::<()>().await;
                        drop(stream);
                    }
                }));
            }
            drop(connection.await);
            std::future::pending::<()>().await;
            drop(sender);
        }));
    }
    let mut context = Context::from_waker(Waker::noop());
    for round in 0..12 {
        // A client has sent its requests before answers come.
        if round == 3 {
            wires.borrow_mut().to_h2.extend(bytes);
        }
        let mut polled = std::mem::take(&mut *tasks.borrow_mut());
        polled.retain_mut(|task| task.as_mut().poll(&mut context).is_pending());
        polled.append(&mut tasks.borrow_mut());
        *tasks.borrow_mut() = polled;
    }
    let output: Vec<u8> = wires.borrow().from_h2.iter().copied().collect();
    verdict(&output)
}

/// Whether a difference is one of those that are known, each with its reason; `id` is the stream that ours has ended.
fn is_known(ours: Verdict, theirs: Verdict, id: u32, why: &str, bytes: &[u8]) -> bool {
    let frames = parsed(bytes);
    let shapes_of = |id: u32| shapes(id, &frames, why);
    let is_reset = |id: u32| frames.iter().any(|(head, _)| head.kind == 3 && head.stream == id);
    let any_has = |shape: Shape| frames.iter().any(|(head, _)| shapes_of(head.stream).contains(&shape));
    let is_malformed_by = |rule: &str| why.contains(&format!("Malformed {{ stream: {id}, why: {rule} }}"));
    // Of ten bytes, the longest value that is drawn.
    let has_blank = |id: u32| {
        let heads = frames.iter().filter(|(head, _)| head.kind == 1 && head.stream == id);
        heads.into_iter().any(|(_, block)| block.windows(2).any(|pair| pair == b"\n "))
    };
    match (ours, theirs) {
        // RFC 9113 wants the stream to end; `h2` ends the connection.
        (Verdict::Stream, Verdict::Connection) => shapes_of(id).iter().any(|shape| match shape {
            Shape::PriorityLength
            | Shape::WindowByNothing
            | Shape::WindowBeyondAll
            | Shape::BehindTheEnd
            | Shape::BeforeTheHead
            | Shape::TrailersWithoutEnd
            | Shape::Malformed => true,
            Shape::PriorityOfItself => false,
        }),
        // A stream that its peer has reset meanwhile needs no end; ours says its own all the same. And `h2` reads past
        // pseudo-headers in trailers, which section 8.1 forbids, takes `!` for a host, and a blank in front of a value,
        // which section 8.2.1 forbids.
        (Verdict::Stream, Verdict::Good) => {
            let ends_it_itself = shapes_of(id).iter().any(|shape| match shape {
                Shape::WindowBeyondAll | Shape::BehindTheEnd | Shape::TrailersWithoutEnd | Shape::Malformed => true,
                Shape::PriorityLength | Shape::PriorityOfItself | Shape::WindowByNothing | Shape::BeforeTheHead => false,
            });
            ends_it_itself && is_reset(id)
                || is_malformed_by("PseudoHeader")
                || is_malformed_by("BadAuthority")
                || is_malformed_by("BadFieldValue") && has_blank(id)
        }
        // Section 6.3: PRIORITY of a wrong length is a fault of its stream, which is over; `h2` ends the connection. So
        // it does for a window that is opened by nothing, on a stream that its peer has reset.
        (Verdict::Good, Verdict::Connection) => {
            let opens_a_reset_one = |id: u32| is_reset(id) && shapes_of(id).contains(&Shape::WindowByNothing);
            any_has(Shape::PriorityLength) || frames.iter().any(|(head, _)| opens_a_reset_one(head.stream))
        }
        // Section 5.3.2: what PRIORITY says has no meaning any more, so a stream may depend on itself.
        (Verdict::Good, Verdict::Stream) => any_has(Shape::PriorityOfItself),
        // Section 5.1 allows it, where `h2` reads past it or resets the stream; and PUSH_PROMISE without the end of its
        // block, with which `h2` refuses it as well.
        (Verdict::Connection, Verdict::Stream | Verdict::Good) => {
            why.starts_with("a frame on a stream that has ended") || why.starts_with("PUSH_PROMISE")
        }
        (Verdict::Good, Verdict::Good) | (Verdict::Stream, Verdict::Stream) | (Verdict::Connection, Verdict::Connection) => false,
    }
}

#[test]
fn both_say_the_same_of_faults() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(CASES),
    };
    let (mut differences, mut faults) = (Vec::new(), 0);
    for seed in seeds {
        let role = if seed % 2 == 0 { Role::Server } else { Role::Client };
        let bytes = drawn(role, seed);
        let (ours, our_code, id, why) = ours(role, &bytes);
        let (theirs, their_code, _) = theirs(role, &bytes);
        faults += usize::from(ours != Verdict::Good);
        if ours != theirs && !is_known(ours, theirs, id, &why, &bytes) {
            let came = bytes.escape_ascii();
            differences.push(format!("SEED={seed} {role:?}: {ours:?} {our_code} ({why}); h2: {theirs:?} {their_code}: {came}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(faults > 0 || std::env::var("SEED").is_ok(), "no case had a fault");
}
