//! A connection that was just opened, and whose it is: everybody's, or the only client's that may use it, where servers
//! are told by the connection who asks. How it is opened is in the parent.

use crate::connect::lifespan::Lifespan;
use crate::shared::OpenSlot;
use std::any::Any;
use std::net::SocketAddr;
use std::rc::Weak;
use tidegate_transport::{Sock, Stream};

/// The two ends of a client's connection, as `send-proxy-protocol` says them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Client {
    pub source: SocketAddr,
    /// Where the client connected to.
    pub destination: SocketAddr,
}

/// Whose a connection is that is not shared by clients.
#[derive(Debug)]
pub struct Owner {
    pub client: Client,
    /// Alive for as long as the client's connection.
    pub connection: Weak<dyn Any>,
}

impl Owner {
    /// Whether the owner's requests came over a connection that has ended: there will be no more.
    pub fn is_gone(&self) -> bool {
        self.connection.strong_count() == 0
    }
}

/// Whether a connection may have that client's requests. Pools have an owner for each connection and a client for each
/// request, or neither.
pub fn serves(owner: Option<&Owner>, client: Option<&Client>) -> bool {
    match (owner, client) {
        (None, None) => true,
        (Some(owner), Some(client)) => owner.client == *client,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// A connection that was just opened.
pub struct Fresh<S: Sock> {
    pub stream: Stream<S>,
    pub slot: OpenSlot,
    pub lifespan: Lifespan,
    pub owner: Option<Box<Owner>>,
}
