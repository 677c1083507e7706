//! Answers to challenges: put where the CA looks for them, and taken away again whatever happens.
//! What HTTP and TLS answer is done by workers, who are told; records of DNS are published by `dns-records`.

use crate::cause::{Blame, Cause, one_line};
use crate::interface::ChallengeChange;
use crate::shared::{Shared, withdraw};
use crate::subject::Subject;
use std::rc::Rc;
use tidegate_dns_records::{DnsFault, Published, Publisher, await_published};
use tidegate_model::{Acme, AcmeChallenge, AcmeDns};

/// An answer that is in place. Dropping it takes it away; a record of DNS is then left to [`Shared::sweep`].
pub struct Presented {
    shared: Rc<Shared>,
    what: Option<What>,
}

enum What {
    Http { token: String },
    Tls { server_name: String },
    Dns { publisher: Rc<Publisher>, published: Published },
}

/// What the CA wants to see.
pub struct ChallengeAnswer<'a> {
    pub token: &'a str,
    pub key_authorization: &'a instant_acme::KeyAuthorization,
}

/// Puts the answer in place; when this returns, the CA may look.
pub async fn present(
    shared: &Rc<Shared>,
    subject: &Subject,
    acme: &Acme,
    challenge: AcmeChallenge,
    answer: ChallengeAnswer<'_>,
) -> Result<Presented, Cause> {
    let what = match challenge {
        AcmeChallenge::Http01 => {
            let token = answer.token.to_owned();
            let key_authorization = answer.key_authorization.as_str().to_owned();
            shared.answers.put(&shared.store, ChallengeChange::AddHttp { token: token.clone(), key_authorization }).await;
            What::Http { token }
        }
        AcmeChallenge::TlsAlpn01 => {
            let mut digest = [0; 32];
            let full = answer.key_authorization.digest();
            digest.iter_mut().zip(full.as_ref()).for_each(|(to, from)| *to = *from);
            let server_name = subject.server_name();
            let change = ChallengeChange::AddTls { server_name: server_name.clone(), subject: subject.to_string(), digest };
            shared.answers.put(&shared.store, change).await;
            What::Tls { server_name }
        }
        AcmeChallenge::Dns01 => {
            let Some(dns) = &acme.dns else {
                return Err(Cause::new(Blame::Preflight, "dns-01 has no provider of DNS", "add `dns` with a provider to `acme`"));
            };
            return publish(shared, subject, dns, &answer.key_authorization.dns_value()).await;
        }
    };
    Ok(Presented { shared: shared.clone(), what: Some(what) })
}

/// RFC 8555 section 8.4. Every server of the zone must have the record before the CA may ask any of them: a wrong
/// answer costs the order.
async fn publish(shared: &Rc<Shared>, subject: &Subject, dns: &AcmeDns, value: &str) -> Result<Presented, Cause> {
    let record = format!("_acme-challenge.{}", subject.server_name());
    let lookup = shared.lookup(dns.resolver);
    let publisher = shared.publisher(dns, lookup.clone()).map_err(|fault| provider_cause(&fault))?;
    let published = publisher.publish(&record, value).await.map_err(|fault| provider_cause(&fault))?;
    // From here on there is something to take away, also when this is cut short.
    let what = What::Dns { publisher, published: published.clone() };
    let presented = Presented { shared: shared.clone(), what: Some(what) };
    match await_published(&lookup, &published.name, value, dns.propagation).await {
        Ok(_) => Ok(presented),
        Err(fault) => {
            presented.withdraw().await;
            Err(Cause::new(
                Blame::Preflight,
                one_line(&fault.to_string()),
                "check that the provider writes to the zone that the world sees, and raise `propagation` if its servers are slow",
            ))
        }
    }
}

fn provider_cause(fault: &DnsFault) -> Cause {
    let remedy = fault.help.clone().unwrap_or_else(|| "check the provider under `dns` in `acme`; tried again by itself".into());
    Cause::new(Blame::Preflight, one_line(&fault.message), remedy)
}

impl Presented {
    /// Takes it away and waits until that is done.
    pub async fn withdraw(mut self) {
        match self.what.take() {
            Some(What::Dns { publisher, published }) => {
                // Should this be cut short in turn, the record is swept with those that are left over.
                let mut again = Presented {
                    shared: self.shared.clone(),
                    what: Some(What::Dns { publisher: publisher.clone(), published: published.clone() }),
                };
                withdraw(&publisher, &published).await;
                again.what = None;
            }
            what @ (Some(What::Http { .. } | What::Tls { .. }) | None) => self.what = what,
        }
    }
}

impl Drop for Presented {
    fn drop(&mut self) {
        match self.what.take() {
            Some(What::Http { token }) => self.shared.answers.take_away(ChallengeChange::RemoveHttp { token }),
            Some(What::Tls { server_name }) => self.shared.answers.take_away(ChallengeChange::RemoveTls { server_name }),
            Some(What::Dns { publisher, published }) => self.shared.leave_over(publisher, published),
            None => {}
        }
    }
}
