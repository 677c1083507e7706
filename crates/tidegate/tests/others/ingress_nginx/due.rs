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
    if is_denied(ingress, question) {
        statuses.push(403);
    }
    let asked = ways(ingress, question);
    // Ways in, each by what refuses it.
    if !(ingress.is_any() && asked.contains(&None)) {
        statuses.extend(asked.into_iter().flatten());
    }
    statuses
}

/// By what each of the ways to be let in refuses the client. None: it lets him in.
fn ways(ingress: &Ingress, question: &Question) -> Vec<Option<u16>> {
    let near = is_in(ingress, "whitelist-source-range", question).map(|is_near| (!is_near).then_some(403));
    let has_password = question.field("Authorization") == Some(CREDENTIALS);
    let password = ingress.annotation("auth-type").map(|_| (!has_password).then_some(401));
    let session = ingress.annotation("auth-url").map(|_| match question.field("Cookie") {
        Some("session=good") => None,
        Some("session=bad") => Some(403),
        _ => Some(401),
    });
    near.into_iter().chain(password).chain(session).collect()
}

pub fn is_denied(ingress: &Ingress, question: &Question) -> bool {
    is_in(ingress, "denylist-source-range", question) == Some(true)
}

/// Whether the client is in the networks that the annotation names. None: it names none.
fn is_in(ingress: &Ingress, name: &str, question: &Question) -> Option<bool> {
    // Of several the last is the one that no trusted proxy has.
    let client = question.field("X-Forwarded-For").and_then(|all| all.rsplit(", ").next()).unwrap_or("127.0.0.1");
    ingress.annotation(name).map(|all| all.split(',').any(|network| contains(network, client)))
}

fn contains(network: &str, client: &str) -> bool {
    let (base, bits) = network.split_once('/').unwrap_or((network, "32"));
    let number = |text: &str| text.parse::<Ipv4Addr>().map(u32::from);
    match (number(base), number(client), bits.parse::<u32>()) {
        (Ok(base), Ok(client), Ok(bits)) => (base ^ client).checked_shr(32 - bits).unwrap_or_default() == 0,
        _ => false,
    }
}
