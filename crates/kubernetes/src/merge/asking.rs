//! Servers that say who may ask, as far as it depends on the host where they are.

use super::protections::lacks;
use super::routes::Routes;
use super::{Content, Material, Member, Merging, TakenPath};
use crate::finding::{FindingCode, Severity};
use crate::fragment::Target;
use crate::header_map::{HeaderMapForm, fields};
use crate::manner::{AuthServer, Manner, MannerForwardAuth};
use crate::reference::ServiceAtPort;
use std::sync::Arc;
use tidegate_model::{ForwardAuth, HostPattern, PathPattern, Pool, PoolName, RouteRetry, Server, Step, TcpAddress};

/// Whom a question goes to.
enum AskedServer<'c> {
    Service(&'c ServiceAtPort),
    Outside(&'c TcpAddress),
}

impl Routes<'_> {
    /// Whether there is somebody to be asked on this host.
    pub(super) fn can_ask(&self, auth: &MannerForwardAuth) -> bool {
        asked_server(auth, self.host, self.content, self.known).is_some()
    }

    /// `None`: nobody can be asked.
    pub(super) fn forward_auth(&self, auth: &MannerForwardAuth) -> Option<Step> {
        let fields = match &auth.headers_from {
            Some(key) => fields(self.known.maps, key, HeaderMapForm::OfRequests)?.ok()?,
            None => Vec::new(),
        };
        let pool = match asked_server(auth, self.host, self.content, self.known)? {
            AskedServer::Service(reference) => self.pool(reference),
            AskedServer::Outside(address) => {
                let pool = outside_pool(address);
                let name = pool.name.clone();
                self.outside.borrow_mut().insert(name.clone(), Arc::new(pool));
                name
            }
        };
        let mut step = ForwardAuth { pool, retry: RouteRetry::OfPool, ..auth.step.clone() };
        let is_said = |name: &str| fields.iter().any(|field| field.name.eq_ignore_ascii_case(name));
        step.headers.retain(|(name, _)| !is_said(name));
        step.headers.extend(fields.into_iter().map(|field| (field.name, field.value)));
        Some(Step::ForwardAuth(Some(Box::new(step))))
    }
}

impl<'m> Merging<'m> {
    /// Whom nobody can ask about, so that nothing of it is answered.
    pub(super) fn note_unasked(&mut self, members: &[Member<'m>], content: &Content<'m>) {
        for Member { age, fragment } in members.iter().copied() {
            let Some(auth) = &fragment.manner.forward_auth else { continue };
            if asked_server(auth, self.host, content, self.around.known).is_none() {
                let field = "metadata.annotations[nginx.ingress.kubernetes.io/auth-url]";
                let message = format!(
                    "no path of `{}` leads to a Service for `{}` without being asked for itself: name the Service in the URL; until then everything of this Ingress is answered with 503 there",
                    self.host, auth.step.target
                );
                self.find(&age.key, FindingCode::ProtectionUnavailable, Severity::Error, field, message);
            }
        }
    }
}

/// Of a URL of the host itself that is whoever its path leads to: a question by way of the host would be asked about.
fn asked_server<'c>(
    auth: &'c MannerForwardAuth,
    host: &HostPattern,
    content: &'c Content<'_>,
    known: Material<'_>,
) -> Option<AskedServer<'c>> {
    match &auth.server {
        AuthServer::Service(reference) => Some(AskedServer::Service(reference)),
        AuthServer::Outside(address) if *host != HostPattern::Exact(address.host.clone()) => Some(AskedServer::Outside(address)),
        AuthServer::Outside(_) | AuthServer::OfHost => of_path(content, &auth.step.target, known).map(AskedServer::Service),
    }
}

fn of_path<'c>(content: &'c Content<'_>, target: &str, known: Material<'_>) -> Option<&'c ServiceAtPort> {
    let path = target.split('?').next().unwrap_or_default();
    if content.guard.is_some() {
        // Whoever asks there has to show a certificate.
        return None;
    }
    let taken = content.paths.iter().find(|taken| takes(taken, path) != Takes::Never)?;
    let manner = &*taken.owned.fragment.manner;
    let Manner { forward_auth, auth, redirect, rewrite, is_shut, .. } = manner;
    let is_shut = *is_shut || taken.is_shut || taken.owned.is_shut || lacks(manner, known).next().is_some();
    let is_open = forward_auth.is_none() && auth.is_none() && redirect.is_none() && rewrite.target.is_empty() && !is_shut;
    match &taken.owned.route.target {
        Target::Service(reference) if is_open && takes(taken, path) == Takes::Surely => Some(reference),
        Target::Service(_) | Target::Unusable => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Surely,
    /// An expression may.
    Perhaps,
    Never,
}

fn takes(taken: &TakenPath<'_>, path: &str) -> Takes {
    if taken.is_below {
        return Takes::Perhaps;
    }
    let begins = |text: &str, with: &str| text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
    let is_taken = match (taken.expression, &taken.path.pattern) {
        (Some(expression), _) => {
            let text = expression.text.split_once(')').map_or("", |(_, text)| text);
            let literal = text.find(|c: char| !c.is_ascii_alphanumeric() && !"/-_~".contains(c));
            return match literal {
                None if begins(path, text) => Takes::Surely,
                None => Takes::Never,
                // The last letter may be one that a quantifier makes needless.
                Some(end) if begins(path, &text[..end.saturating_sub(1)]) => Takes::Perhaps,
                // Alternatives begin otherwise.
                Some(_) if text.contains('|') => Takes::Perhaps,
                Some(_) => Takes::Never,
            };
        }
        (None, PathPattern::Exact(exact)) => exact == path,
        (None, PathPattern::Prefix(prefix)) => path.starts_with(prefix.as_str()) || prefix.strip_suffix('/') == Some(path),
        (None, PathPattern::Beginning(beginning)) => path.starts_with(beginning.as_str()),
        (None, PathPattern::Regex(_)) => return Takes::Perhaps,
    };
    if is_taken { Takes::Surely } else { Takes::Never }
}

/// A server that is no Service. One behind TLS is verified: it says who may come in.
fn outside_pool(address: &TcpAddress) -> Pool {
    Pool::new(PoolName(format!("outside {address}").into()), vec![Server::new(address.clone().into())])
}
