//! Which connections come to a filter chain of Envoy. What no chain takes is closed there; so what is asked of a
//! connection, and is not answered by the port alone, stands before all that the chain has.

use super::clusters::Socket;
use crate::accounts::Origin;
use crate::tree::Tree;

const WITHOUT_PROTOCOL: &str = "a client that names no protocol in its handshake comes in here as well";

/// Carries what all connections answer that come to a port of ours: `port` is that of the listener.
pub fn of_chain(matched: &Tree, is_tls: bool, port: Option<u16>, origin: &mut Origin) {
    let transport = matched.get("transport_protocol");
    let expected = if is_tls { "tls" } else { "raw_buffer" };
    if transport.text().is_some_and(|text| text == expected || text.is_empty()) {
        origin.carry_all(transport.statements());
    }
    let destination = matched.get("destination_port");
    if destination.number().is_some() && destination.number() == port.map(u64::from) {
        origin.carry_all(destination.statements());
    }
    let ranges = matched.get("prefix_ranges");
    let is_any = |range: &Tree| range.get("prefix_len").number().unwrap_or(0) == 0;
    if ranges.items().iter().any(is_any) {
        origin.carry_all(ranges.statements());
    }
    let source = matched.get("source_type");
    if matches!(source.text(), Some("ANY" | "0")) {
        origin.carry_all(source.statements());
    }
    let protocols = matched.get("application_protocols");
    let texts = protocols.texts();
    let has = |name: &str| texts.iter().any(|text| text == name);
    let all: &[&str] = if is_tls { &["h2", "http/1.1"] } else { &["http/1.1", "h2c"] };
    if texts.is_empty() {
        origin.carry_all(protocols.statements());
    } else if all.iter().all(|name| has(name)) {
        protocols.statements().into_iter().for_each(|at| origin.differ(at, WITHOUT_PROTOCOL));
    }
}

/// Adds to what is said of a listener what its chains ask of connections: whoever comes to one of them by it comes to
/// no other.
pub fn of_others(chains: &[&Tree], port: Option<u16>, own: &mut Origin) {
    for chain in chains {
        let matched = chain.get("filter_chain_match");
        let is_tls = !matches!(Socket::of(chain.get("transport_socket")), Socket::Plain) || chain.has("tls_context");
        let mut said = Origin::default();
        said.carry_all(matched.get("server_names").statements());
        of_chain(matched, is_tls, port, &mut said);
        own.within.extend(matched.statements().difference(&said.within));
    }
}
