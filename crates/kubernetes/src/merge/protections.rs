//! What an Ingress wants to be protected by and is in Secrets and ConfigMaps: without it nothing of the Ingress is
//! answered.

use super::Material;
use crate::header_map::{HeaderMapForm, fields};
use crate::manner::Manner;
use crate::trust::{ClientAuthority, ServerTrust};

/// A protection that is not to be had.
pub struct Lack {
    /// The annotation that wants it.
    pub annotation: &'static str,
    /// In a sentence. `None`: nobody can tell so far.
    pub problem: Option<String>,
}

/// What of it is missing.
pub fn lacks(manner: &Manner, known: Material<'_>) -> impl Iterator<Item = Lack> {
    let of_secrets = [of_users(manner, known), of_clients(manner, known), of_servers(manner, known)];
    let of_maps = [of_requests(manner, known), of_questions(manner, known), of_answers(manner, known)];
    of_secrets.into_iter().chain(of_maps).flatten()
}

/// What servers may decide by. Whoever wrote it for all Ingresses is told, and no Ingress.
fn of_requests(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let key = manner.defaults.request_headers.as_ref()?;
    let is_there = matches!(fields(known.maps, key, HeaderMapForm::OfRequests), Some(Ok(_)));
    (!is_there).then_some(Lack { annotation: "proxy-set-headers", problem: None })
}

fn of_questions(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let key = manner.forward_auth.as_ref()?.headers_from.as_ref()?;
    lack("auth-proxy-set-headers", fields(known.maps, key, HeaderMapForm::OfRequests).map(|fields| fields.map(drop)))
}

/// What ingress-nginx would not have either, it denies.
fn of_answers(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let key = manner.custom_headers.as_ref()?;
    let fields = fields(known.maps, key, HeaderMapForm::Literal);
    let allowed = &manner.defaults.allowed_headers;
    let is_refused = |name: &str| !allowed.contains(&*name.to_ascii_lowercase());
    let fields = fields.map(|fields| match fields?.into_iter().find(|change| is_refused(&change.name)) {
        Some(refused) => Err(format!(
            "the field `{}` of the ConfigMap `{key}` is not among `global-allowed-response-headers`: add it there, or remove it here",
            refused.name
        )),
        None => Ok(()),
    });
    lack("custom-headers", fields)
}

fn of_users(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let auth = manner.auth.as_ref()?;
    let users = known.pairs.get(&auth.secret).and_then(|known| known.users(&auth.secret, auth.form));
    lack("auth-secret", users.map(|users| users.map(drop)))
}

fn of_clients(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let key = &manner.clients.as_ref()?.secret;
    let authority = known.pairs.get(key).and_then(|known| ClientAuthority::of(known, key));
    lack("auth-tls-secret", authority.map(|authority| authority.map(drop)))
}

fn of_servers(manner: &Manner, known: Material<'_>) -> Option<Lack> {
    let tls = &manner.pool.tls;
    let key = tls.secret.as_ref()?;
    let trust = known.pairs.get(key).and_then(|known| ServerTrust::of(known, key));
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
