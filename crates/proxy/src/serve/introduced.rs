//! The start of a connection that a load balancer has made for somebody else: a header of the PROXY protocol says for
//! whom. Only peers that `accept-proxy-protocol` names come here, and they must send it; how it is read is in `wire`.

use super::{Counted, may_connect};
use crate::connection::Connection;
use std::io;
use std::time::Instant;
use tidegate_transport::{Buf, ReadLimit, Sock, Stream};
use tidegate_wire::proxy_protocol::{HeaderFault, Introduction, Reading, Said, introduction, read};

/// Why a connection is closed instead.
enum Refused {
    Bad(HeaderFault),
    Timeout,
    /// The connection ended before there was a byte, as a check does that only connects; that is no fault of anybody.
    Nothing,
    /// The connection ended in the middle of a header.
    Cut,
}

impl Refused {
    /// The reason code in metrics, and what is to be said of it.
    fn reason(&self) -> Option<(&'static str, String)> {
        match self {
            Refused::Bad(fault @ HeaderFault::Missing) => Some(("proxy_header_missing", fault.to_string())),
            Refused::Bad(fault) => Some(("proxy_header_bad", fault.to_string())),
            Refused::Timeout => Some(("proxy_header_timeout", "no whole header came within `limits header-timeout`".to_owned())),
            Refused::Cut => Some(("proxy_header_bad", "the connection ended within the header".to_owned())),
            Refused::Nothing => None,
        }
    }
}

/// Takes the header, and counts the connection among those of its client. Whether it may go on.
pub(super) async fn accept<S: Sock>(connection: &mut Connection<S>, counted: &mut Counted<S>) -> bool {
    // What is left of the time goes to the handshake.
    let until = connection.begin_handshake(connection.worker.snapshot().shared.limits.header_timeout);
    connection.stream.sock.set_read_limit(ReadLimit::Until(until));
    match take_header(&connection.stream).await {
        // The load balancer's own: it is nobody's client, and however many there are is its business.
        Ok((Said::Nothing, _)) => true,
        Ok((Said::Addresses { source, destination }, more)) => {
            connection.introduce(source, destination);
            connection.introduction = more;
            let may = may_connect(&connection.worker, source.ip());
            counted.client = may.then_some(source.ip());
            may
        }
        Err(refused) => {
            note(connection, &refused);
            connection.account_bytes();
            false
        }
    }
}

/// Reads until the header is whole. What follows it is read next.
async fn take_header<S: Sock>(stream: &Stream<S>) -> Result<(Said, Option<Box<Introduction>>), Refused> {
    let mut is_first = true;
    loop {
        let data: Buf = stream.read().await.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Refused::Timeout,
            _ if is_first => Refused::Nothing,
            _ => Refused::Cut,
        })?;
        if data.is_empty() {
            return Err(if is_first { Refused::Nothing } else { Refused::Cut });
        }
        is_first = false;
        match read(&data).map_err(Refused::Bad)? {
            Reading::NeedMore => stream.need_more(data),
            Reading::Whole { said, consumed } => {
                let more = introduction(&data[..consumed]).map(Box::new);
                let mut rest = data;
                rest.advance(consumed);
                stream.unread(rest);
                return Ok((said, more));
            }
        }
    }
}

fn note<S: Sock>(connection: &Connection<S>, refused: &Refused) {
    let Some((reason, why)) = refused.reason() else { return };
    connection.worker.metrics.connections_refused.increment(reason);
    if let Some(suppressed) = connection.worker.gates.accept.allow(Instant::now()) {
        let peer = connection.client.ip();
        tracing::warn!(%peer, reason, %why, suppressed, setting = "accept-proxy-protocol", "a connection of a load balancer was refused: it does not say whose it is");
    }
}
