//! What an Ingress wants to be protected by and is in Secrets: without it nothing of the Ingress is answered.

use crate::manner::Manner;
use crate::secret::KnownPair;
use crate::trust::{ClientAuthority, ServerTrust};
use std::collections::BTreeMap;
use tidegate_cluster::Key;

/// A protection that is not to be had.
pub struct Lack {
    /// The annotation that wants it.
    pub annotation: &'static str,
    /// In a sentence. `None`: nobody can tell so far.
    pub problem: Option<String>,
}

/// What of it is missing.
pub fn lacks(manner: &Manner, pairs: &BTreeMap<Key, KnownPair>) -> impl Iterator<Item = Lack> {
    [of_users(manner, pairs), of_clients(manner, pairs), of_servers(manner, pairs)].into_iter().flatten()
}

fn of_users(manner: &Manner, pairs: &BTreeMap<Key, KnownPair>) -> Option<Lack> {
    let auth = manner.auth.as_ref()?;
    let users = pairs.get(&auth.secret).and_then(|known| known.users(&auth.secret, auth.form));
    lack("auth-secret", users.map(|users| users.map(drop)))
}

fn of_clients(manner: &Manner, pairs: &BTreeMap<Key, KnownPair>) -> Option<Lack> {
    let key = &manner.clients.as_ref()?.secret;
    let authority = pairs.get(key).and_then(|known| ClientAuthority::of(known, key));
    lack("auth-tls-secret", authority.map(|authority| authority.map(drop)))
}

fn of_servers(manner: &Manner, pairs: &BTreeMap<Key, KnownPair>) -> Option<Lack> {
    let tls = &manner.pool.tls;
    let key = tls.secret.as_ref()?;
    let trust = pairs.get(key).and_then(|known| ServerTrust::of(known, key));
    let is_verified = tls.verify == Some(true);
    let trust = trust.map(|trust| match trust {
        Ok(trust) if trust.ca.is_none() && is_verified => {
            Err(format!("the Secret `{key}` has no `ca.crt`, by which servers are verified: add it"))
        }
        Ok(_) => Ok(()),
        Err(problem) => Err(problem),
    });
    lack("proxy-ssl-secret", trust)
}

/// `None`: it is there.
fn lack(annotation: &'static str, found: Option<Result<(), String>>) -> Option<Lack> {
    match found {
        Some(Ok(())) => None,
        Some(Err(problem)) => Some(Lack { annotation, problem: Some(problem) }),
        None => Some(Lack { annotation, problem: None }),
    }
}
