//! Which clients are answered, by their networks. What cannot be read shuts: it would let in everybody.

use super::{Annotations, listed, shortened};
use crate::manner::Manner;
use ipnet::IpNet;
use std::net::IpAddr;
use tidegate_model::Step;

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    // The first that has the client decides, and an `allow` refuses who is in none.
    let denied = networks(annotations, "denylist-source-range");
    let allowed = networks(annotations, "allowlist-source-range").or_else(|| networks(annotations, "whitelist-source-range"));
    manner.steps.extend(denied.map(|networks| Step::Deny(networks.into())));
    manner.steps.extend(allowed.map(|networks| Step::Allow(networks.into())));
    manner.is_one_enough = match annotations.text("satisfy") {
        None | Some("all") => false,
        Some("any") => true,
        Some(_) => {
            annotations.leave_out("satisfy", "it is `any` or `all`, and `all` without it");
            false
        }
    };
}

fn networks(annotations: &mut Annotations<'_>, name: &str) -> Option<Vec<IpNet>> {
    let text = annotations.written(name)?;
    let read: Result<Vec<IpNet>, &str> = listed(text).map(|one| network(one).ok_or(one)).collect();
    match read {
        Ok(networks) if !networks.is_empty() => return Some(networks),
        Ok(_) => annotations.shut(name, "no network is named: write some, as in `10.0.0.0/8, 192.0.2.7`, or remove it"),
        Err(wrong) => {
            let wrong = shortened(wrong);
            annotations.shut(name, &format!("`{wrong}` is not a network: write one, as in `10.0.0.0/8`, or remove it"));
        }
    }
    None
}

/// A network, of which the bits behind its length do not count, or one address.
pub fn network(text: &str) -> Option<IpNet> {
    let network = text.parse::<IpNet>().map(|network| network.trunc()).ok();
    network.or_else(|| text.parse::<IpAddr>().map(IpNet::from).ok())
}
