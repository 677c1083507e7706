//! What can be asked of certificates: which there are, and that one that is obtained is renewed or revoked. Orders take
//! seconds to minutes; who asks waits for a while only, and what is on its way then goes on.

use crate::ask::ask;
use crate::extract::{Json, Parameters};
use crate::handlers::{Answer, json};
use crate::problem::{Problem, bad_request, not_found};
use axum::extract::State;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{CertificateChanged, NoOptions, RevokeRequest};
use tidegate_control::{ControlHandle, Issuing, IssuingRefusal, RevocationReason};
use tokio::time::timeout;

/// Below what clients wait for an answer.
const WAIT: Duration = Duration::from_secs(75);

/// Reasons of RFC 5280 that the holder of a certificate may give.
const REASONS: [(&str, RevocationReason); 4] = [
    ("unspecified", RevocationReason::Unspecified),
    ("key-compromise", RevocationReason::KeyCompromise),
    ("superseded", RevocationReason::Superseded),
    ("cessation-of-operation", RevocationReason::CessationOfOperation),
];

pub async fn list(State(handle): State<ControlHandle>) -> Answer {
    json(&ask(&handle, |control| control.certificates()).await?)
}

pub async fn renew(State(handle): State<ControlHandle>, parameters: Parameters, _: Json<NoOptions>) -> Answer {
    let name = parameters.text("name").to_ascii_lowercase();
    let issuing = issuing(&handle).await?;
    let renewing = {
        let (issuing, name) = (issuing, name.clone());
        async move { issuing.renew(&name).await }
    };
    changed(name, renewing).await
}

pub async fn revoke(State(handle): State<ControlHandle>, parameters: Parameters, Json(request): Json<RevokeRequest>) -> Answer {
    let name = parameters.text("name").to_ascii_lowercase();
    let word = request.reason.as_deref().unwrap_or("unspecified");
    let Some((_, reason)) = REASONS.into_iter().find(|(known, _)| *known == word) else {
        let known: Vec<&str> = REASONS.iter().map(|(known, _)| *known).collect();
        let problem = bad_request(format!("`{}` is no reason to revoke", word.escape_debug()));
        return Err(problem.with_help(format!("it can be {}", known.join(", "))));
    };
    let issuing = issuing(&handle).await?;
    let revoking = {
        let (issuing, name) = (issuing, name.clone());
        async move { issuing.revoke(&name, reason).await }
    };
    changed(name, revoking).await
}

async fn issuing(handle: &ControlHandle) -> Result<Arc<Issuing>, Problem> {
    let none = || {
        not_found("no site has its certificate obtained by ACME")
            .with_help("files are renewed by whoever wrote them, and noticed; the internal CA renews by itself")
    };
    ask(handle, |control| control.issuing()).await?.ok_or_else(none)
}

/// What is asked for goes on when nobody waits for it any more.
async fn changed(name: String, change: impl Future<Output = Result<(), IssuingRefusal>> + Send + 'static) -> Answer {
    match timeout(WAIT, tokio::spawn(change)).await {
        Ok(Ok(Ok(()))) => json(&CertificateChanged { name, done: true }),
        Ok(Ok(Err(refusal))) => Err(of_refusal(&name, &refusal)),
        Ok(Err(_)) => Err(crate::problem::draining()),
        Err(_) => json(&CertificateChanged { name, done: false }),
    }
}

fn of_refusal(name: &str, refusal: &IssuingRefusal) -> Problem {
    let name = name.escape_debug();
    match refusal {
        IssuingRefusal::NotWanted | IssuingRefusal::NoCertificate => {
            not_found(format!("`{name}`: {refusal}")).with_help("`tidegate cert list` has the names")
        }
        IssuingRefusal::Failed(fault) => {
            Problem::new(502, "not-obtained", "It was not done", format!("`{name}`: {}", fault.cause))
                .with_help(fault.remedy.clone())
        }
        IssuingRefusal::Busy | IssuingRefusal::TooMany => {
            Problem::new(503, "busy", "Too much is being done already", format!("`{name}`: {refusal}"))
                .with_help("try again in a minute")
        }
        IssuingRefusal::NotAName(_) | IssuingRefusal::NotAllowed(_) => bad_request(format!("`{name}`: {refusal}")),
    }
}
