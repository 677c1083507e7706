//! Takes a certificate back (RFC 8555 section 7.6), with the account that ordered it. What becomes of the name then is
//! the engine's.

use crate::account;
use crate::cause::{Blame, Cause, Context, Said};
use crate::interface::RevocationReason;
use crate::kept;
use crate::nonce::repeat;
use crate::shared::{Shared, storage_cause};
use crate::stored::{self, Facts, Held};
use crate::subject::Subject;
use instant_acme::{Error, RevocationRequest};
use tidegate_model::Acme;

/// `Ok` with why it cannot be kept that it is revoked, where the CA has done it and storage fails.
pub async fn revoke(
    shared: &Shared,
    subject: &Subject,
    acme: &Acme,
    mut held: Held,
    reason: RevocationReason,
) -> Result<Option<Cause>, Cause> {
    let directory = held.facts.directory.clone();
    let authority = acme.authorities.iter().find(|authority| Some(&authority.directory) == directory.as_ref());
    let Some(authority) = authority else {
        let text = format!("the certificate of {subject} came from {}", directory.as_deref().unwrap_or("elsewhere"));
        return Err(Cause::new(
            Blame::Setup,
            text,
            "add that CA to `acme` to revoke it there, or use the tool that it was obtained with",
        ));
    };
    let conversation = shared.contacts.open(authority, &authority.directory, shared.timing.request_max).await?;
    let ready = account::account(shared, authority, acme.email.as_deref(), &conversation).await?;
    let request = RevocationRequest { certificate: &held.leaf.der, reason: Some(reason_of(reason)) };
    match repeat(async || ready.account.revoke(&request).await).await {
        Ok(()) => {}
        // It was, before; that is what was wanted.
        Err(Error::Api(problem)) if Said::from(&problem).kind == "alreadyRevoked" => {}
        Err(error) => {
            let name = subject.to_string();
            let context = Context { name: &name, authority: &authority.name, challenge: None, retry_after: None };
            return Err(conversation.cause(&error, context));
        }
    }
    held.facts.is_revoked = true;
    let written = shared.store.write(&stored::facts_key(subject), &stored::write(&held.facts)).await;
    Ok(written.err().map(|fault| storage_cause(&fault)))
}

/// Remembers what was found out, so that it is known after a restart, and to others of the same storage.
pub async fn note(shared: &Shared, subject: &Subject, facts: Facts) {
    let outcome = match kept::read(shared, subject).await {
        // Somebody has replaced it.
        Ok(read) if read.certificate.as_ref().is_none_or(|(held, _)| held.leaf.serial != facts.serial) => return,
        Ok(_) => {
            shared.store.write(&stored::facts_key(subject), &stored::write(&facts)).await.map_err(|fault| storage_cause(&fault))
        }
        Err(cause) => Err(cause),
    };
    if let Err(cause) = outcome {
        tracing::debug!(name = %subject, %cause, "that a certificate is revoked cannot be kept");
    }
}

fn reason_of(reason: RevocationReason) -> instant_acme::RevocationReason {
    match reason {
        RevocationReason::Unspecified => instant_acme::RevocationReason::Unspecified,
        RevocationReason::KeyCompromise => instant_acme::RevocationReason::KeyCompromise,
        RevocationReason::Superseded => instant_acme::RevocationReason::Superseded,
        RevocationReason::CessationOfOperation => instant_acme::RevocationReason::CessationOfOperation,
    }
}
