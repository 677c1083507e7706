//! What the steps do to a request, by the code that runs them: whether one refuses it, and what its path is behind
//! them. Of what only the moment or the client knows (what limits have counted, a certificate, a password) nothing is
//! said.

use super::Question;
use crate::Known;
use std::time::Duration;
use tidegate_geo::Whereabouts;
use tidegate_limiting::Tables;
use tidegate_middleware::{
    CompiledStep, Context, Halt, HeaderNameRules, Limited, Refusal, RequestId, Scope, Scratch, Walk, apply_request, compile_steps,
};
use tidegate_model::{Route, Site};
use tidegate_wire::head::RequestHead;
use tidegate_wire::http1::request_framing;
use tidegate_wire::{BodyFraming, Span};

/// How a request gets through its steps.
#[derive(Debug)]
pub enum Walked {
    Through,
    /// A step answers a question before another request (CORS).
    Preflight,
    /// As [`Through`](Walked::Through), up to a log-in that decides about the rest.
    UpToLogIn,
}

/// Runs the site's and the route's steps on the head, which becomes what the steps make of it. The outer error is a
/// step that cannot be compiled, the inner one the refusal.
pub fn walk(
    site: &Site,
    route: Option<&Route>,
    (question, upgrade, known): (&Question, Option<Span>, Known<'_>),
    head: &mut RequestHead,
) -> Result<Result<Walked, Refusal>, String> {
    let tables = Tables::default();
    let options = route.map(|route| site.options.and(&route.options));
    let path_policy = options.map_or(site.options.path_policy, |options| options.path_policy).unwrap_or_default();
    let route_steps = route.map_or(&[][..], |route| &route.steps);
    let scope = Scope { tables: &tables, site: "", route: "", path_policy };
    let mut steps = compile_steps(scope, &site.steps, route_steps).map_err(|error| error.to_string())?.into_vec();
    // Whether a client has shown a certificate is not asked.
    steps.retain(|step| !matches!(step, CompiledStep::ClientAuth));
    let policy = route.map_or(site.options.header_names, |route| site.options.and(&route.options).header_names);
    if let Err(refusal) = HeaderNameRules::new(policy.unwrap_or_default(), site.all_steps()).settle(&mut head.fields) {
        return Ok(Err(refusal));
    }
    let context = Context {
        scheme: question.scheme,
        port: question.port,
        client_ip: question.client_ip,
        client_port: 0,
        peer_ip: question.client_ip,
        tls_sni: None,
        tls_version: None,
        client_certificate: None,
        tls_ja4: None,
        introduction: None,
        upstream_address: None,
        request_id: RequestId(0),
        given_id: None,
        identity: None,
        claims: None,
        error: None,
        now_unix_ms: 0,
        since_start: Duration::ZERO,
        asked_path: head.path,
        asked_query: head.query,
        told_query: head.query,
        upgrade,
        geo: Whereabouts::without_memory(known.geo),
        maps: known.maps,
    };
    let declared = request_framing(head).ok().and_then(BodyFraming::declared_length);
    let mut limited = Limited::default();
    let halt = apply_request(&steps, &mut Walk::default(), head, &context, &mut Scratch::default(), &mut limited);
    let after = match halt {
        Ok(Halt::Done(after)) => after,
        Ok(Halt::Authenticate(_) | Halt::Verify(_) | Halt::LogIn(_) | Halt::CheckKey(_) | Halt::AnyOf(_) | Halt::Ask(_)) => {
            return Ok(Ok(Walked::UpToLogIn));
        }
        Err(refusal) => return Ok(Err(refusal)),
    };
    if after.body_limit.is_some_and(|limit| limit.check_declared(declared).is_err()) {
        return Ok(Err(Refusal::BodyTooLarge));
    }
    Ok(Ok(if after.is_preflight { Walked::Preflight } else { Walked::Through }))
}
