//! By what an Ingress refuses a request, of all that it says: servers are free to ask for one thing before the other.

use super::answers::Place;
use super::objects::{CREDENTIALS, Host, Ingress};
use super::questions::Question;
use std::net::Ipv4Addr;

/// Statuses with which it may be refused at the location. None: nothing keeps it out.
pub fn refusals(host: &Host, question: &Question, place: &Place) -> Vec<u16> {
    let Some(ingress) = host.ingresses.iter().find(|ingress| ingress.name == place.ingress) else { return Vec::new() };
    let mut statuses = Vec::new();
    if place.is_nobody {
        statuses.push(404);
    }
    if ingress.annotation("proxy-body-size") == Some("1k") && question.body_length > 1024 {
        statuses.push(413);
    }
    if !is_near(ingress, question) {
        statuses.push(403);
    }
    if ingress.annotation("auth-type").is_some() && question.field("Authorization") != Some(CREDENTIALS) {
        statuses.push(401);
    }
    if ingress.annotation("auth-url").is_some() {
        match question.field("Cookie") {
            Some("session=good") => {}
            Some("session=bad") => statuses.push(403),
            _ => statuses.push(401),
        }
    }
    statuses
}

/// Whether its networks let the client in.
fn is_near(ingress: &Ingress, question: &Question) -> bool {
    // Of several the last is the one that no trusted proxy has.
    let client = question.field("X-Forwarded-For").and_then(|all| all.rsplit(", ").next()).unwrap_or("127.0.0.1");
    let has = |name: &str| ingress.annotation(name).map(|all| all.split(',').any(|network| contains(network, client)));
    has("denylist-source-range") != Some(true) && has("whitelist-source-range") != Some(false)
}

fn contains(network: &str, client: &str) -> bool {
    let (base, bits) = network.split_once('/').unwrap_or((network, "32"));
    let number = |text: &str| text.parse::<Ipv4Addr>().map(u32::from);
    match (number(base), number(client), bits.parse::<u32>()) {
        (Ok(base), Ok(client), Ok(bits)) => (base ^ client).checked_shr(32 - bits).unwrap_or_default() == 0,
        _ => false,
    }
}
