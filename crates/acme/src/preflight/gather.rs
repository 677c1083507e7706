//! What is found out about a name before an order: its addresses, who may issue for it, and what answers where the CA
//! would look. Everything has a time limit and a number; what is found is judged in `verdict`.

use crate::contact::Conversation;
use crate::interface::ChallengeChange;
use crate::preflight::verdict::{Findings, Found, Probe, ProbeAnswer};
use crate::preflight::{http_probe, tls_probe};
use crate::shared::Shared;
use crate::subject::Subject;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tidegate_dns_records::LookupFault;
use tidegate_model::{Acme, AcmeChallenge};

/// A name with more addresses belongs to somebody else's fleet.
const ADDRESSES_MAX: usize = 8;

pub async fn gather(
    shared: &Shared,
    subject: &Subject,
    acme: &Acme,
    conversation: &Conversation,
    challenges: &[AcmeChallenge],
    account: Option<String>,
) -> Findings {
    let coming: Vec<AcmeChallenge> = challenges.iter().copied().filter(|kind| *kind != AcmeChallenge::Dns01).collect();
    let lookup = shared.lookup(acme.dns.as_ref().and_then(|dns| dns.resolver));
    let (addresses, caa) = match subject {
        Subject::Ip(ip) => (Found::Some(vec![*ip]), Found::NotAsked),
        Subject::Host(name) | Subject::Wildcard(name) => {
            let limit = shared.timing.probe_max;
            let addresses =
                async { if coming.is_empty() { Found::NotAsked } else { within(limit, lookup.addresses(name)).await } };
            tokio::join!(addresses, within(limit, lookup.caa(name)))
        }
    };
    let mut probes = Vec::new();
    if let Found::Some(addresses) = &addresses {
        let own = own_addresses();
        for challenge in coming {
            for &address in addresses.iter().take(ADDRESSES_MAX) {
                let is_own = address.is_loopback() || own.contains(&address);
                let answer = probe(shared, subject, acme, challenge, address, is_own).await;
                probes.push(Probe { challenge, address, is_own, answer });
            }
        }
    }
    Findings { addresses, caa, caa_identities: conversation.directory.meta.caa_identities.clone(), account, probes }
}

async fn within<T>(limit: Duration, question: impl Future<Output = Result<T, LookupFault>>) -> Found<T> {
    match tokio::time::timeout(limit, question).await {
        Ok(Ok(found)) => Found::Some(found),
        Ok(Err(fault)) if fault.is_negative() => Found::None,
        Ok(Err(fault)) => Found::Failed(fault.to_string()),
        Err(_) => Found::Failed(format!("no answer within {limit:?}")),
    }
}

/// Addresses of this machine's interfaces; without them every address counts as foreign, which only makes verdicts
/// milder.
fn own_addresses() -> HashSet<IpAddr> {
    if_addrs::get_if_addrs().unwrap_or_default().into_iter().map(|interface| interface.ip()).collect()
}

/// Asks as a CA would ask, with an answer in place that only we can give. At addresses of our own the mapped port is
/// asked, since what maps it stands outside.
async fn probe(
    shared: &Shared,
    subject: &Subject,
    acme: &Acme,
    challenge: AcmeChallenge,
    address: IpAddr,
    is_own: bool,
) -> ProbeAnswer {
    let limit = shared.timing.probe_max;
    let outcome = match challenge {
        AcmeChallenge::Http01 => {
            let at = SocketAddr::new(address, if is_own { acme.http_port } else { 80 });
            let (token, text) = (nonce("tidegate-probe-"), nonce(""));
            let change = ChallengeChange::AddHttp { token: token.clone(), key_authorization: text.clone() };
            shared.answers.put(&shared.store, change).await;
            let outcome = tokio::time::timeout(limit, http_probe::ask(at, subject, &token, &text)).await;
            shared.answers.take_away(ChallengeChange::RemoveHttp { token });
            outcome
        }
        AcmeChallenge::TlsAlpn01 => {
            let at = SocketAddr::new(address, if is_own { acme.https_port } else { 443 });
            let (digest, server_name) = (rand::random::<[u8; 32]>(), subject.server_name());
            let (name, subject) = (server_name.clone(), subject.to_string());
            shared.answers.put(&shared.store, ChallengeChange::AddTls { server_name: name, subject, digest }).await;
            let outcome = tokio::time::timeout(limit, tls_probe::ask(at, &server_name, &digest)).await;
            shared.answers.take_away(ChallengeChange::RemoveTls { server_name });
            outcome
        }
        AcmeChallenge::Dns01 => return ProbeAnswer::Ours,
    };
    outcome.unwrap_or_else(|_| ProbeAnswer::None(format!("no answer within {limit:?}")))
}

/// Nobody guesses 128 bits.
fn nonce(prefix: &str) -> String {
    format!("{prefix}{:032x}", rand::random::<u128>())
}
