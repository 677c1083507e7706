//! Connections drawn from a seed, some with a fault, are read by our core and by the crate `h2`: each says by its
//! frames whether it ends a stream or the connection, and they say the same but for differences that are known.

use super::{Socket, Tasks, Wires};
use crate::against_python::drawn;
use crate::frames::parsed;
use crate::peer::Endpoint;
use bytes::Bytes;
use http::{Method, Request};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Waker};
use tidegate_wire::h2::connection::Role;
use tidegate_wire::h2::frame::ErrorCode;

const CASES: u64 = 3000;

/// What an end makes of what came, as it says it to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Stream,
    Connection,
}

/// The frames of an end say it: GOAWAY with a code, or RST_STREAM.
fn verdict(output: &[u8]) -> (Verdict, String) {
    let mut said = (Verdict::Good, String::new());
    for (head, payload) in parsed(output) {
        let code = |at: usize| {
            payload
                .get(at..at + 4)
                .and_then(|code| code.try_into().ok())
                .map_or(ErrorCode::NoError, |code| ErrorCode::of(u32::from_be_bytes(code)))
        };
        match head.kind {
            7 if code(4) != ErrorCode::NoError => return (Verdict::Connection, code(4).name().to_owned()),
            3 if said.0 == Verdict::Good => said = (Verdict::Stream, code(0).name().to_owned()),
            _ => {}
        }
    }
    said
}

const REQUESTS: usize = 3;

fn ours(role: Role, bytes: &[u8]) -> (Verdict, String, String) {
    let mut endpoint = Endpoint::new(role);
    if role == Role::Client {
        for _ in 0..REQUESTS {
            endpoint.ask("POST / HTTP/1.1\r\nHost: a\r\n\r\n", true);
        }
    }
    endpoint.receive(bytes);
    let (verdict, code) = verdict(&endpoint.connection.take_output(Vec::new()));
    let why = match (endpoint.end, &endpoint.facts) {
        (Some(end), _) => end.to_string(),
        (None, facts) => format!("{:?}", facts.last()),
    };
    (verdict, code, why)
}

/// The owner of `h2` reads bodies, gives their windows back, and keeps all streams.
fn theirs(role: Role, bytes: &[u8]) -> (Verdict, String) {
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

/// Whether a difference is one of those that are known, each with its reason.
fn is_known(ours: Verdict, theirs: Verdict, why: &str, bytes: &[u8]) -> bool {
    let frames = parsed(bytes);
    let has = |kind: u8| frames.iter().any(|(head, _)| head.kind == kind);
    match (ours, theirs) {
        // RFC 9113 section 8.1.1 wants the stream to end; `h2` ends the connection for many faults of a stream.
        (Verdict::Stream, Verdict::Connection) => true,
        // A stream that its peer has reset meanwhile needs no end; ours says its own all the same. And `h2` reads past
        // pseudo-headers in trailers, which section 8.1 forbids.
        (Verdict::Stream, Verdict::Good) => has(3) || why.contains("PseudoHeader"),
        // Section 6.3: PRIORITY of a wrong length is a fault of its stream, which is over; `h2` ends the connection.
        (Verdict::Good, Verdict::Connection) => frames.iter().any(|(head, _)| head.kind == 2 && head.len != 5),
        // Section 5.1 allows it, where `h2` reads past it or resets the stream; and PUSH_PROMISE without the end of its
        // block, with which `h2` refuses it as well.
        (Verdict::Connection, Verdict::Stream | Verdict::Good) => {
            why.starts_with("a frame on a stream that has ended") || why.starts_with("PUSH_PROMISE")
        }
        (Verdict::Good, _) | (Verdict::Stream, Verdict::Stream) | (Verdict::Connection, Verdict::Connection) => false,
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
        let (ours, our_code, why) = ours(role, &bytes);
        let (theirs, their_code) = theirs(role, &bytes);
        faults += usize::from(ours != Verdict::Good);
        if ours != theirs && !is_known(ours, theirs, &why, &bytes) {
            let came = bytes.escape_ascii();
            differences.push(format!("SEED={seed} {role:?}: {ours:?} {our_code} ({why}); h2: {theirs:?} {their_code}: {came}"));
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    assert!(faults > 0 || std::env::var("SEED").is_ok(), "no case had a fault");
}
