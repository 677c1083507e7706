//! One order at one CA, from its address to the chain: authorisation by one kind of challenge, finalisation, download.
//! It can be left at any point and taken up again by the order's address and the key. Who orders what, when and where
//! is in `attempt`.

use crate::cause::{Blame, Cause, Context, Said, another_challenge_could_mend, said_by_authority};
use crate::challenge::{ChallengeAnswer, present};
use crate::contact::Conversation;
use crate::keys;
use crate::nonce::{repeat, repeat_safe};
use crate::shared::Shared;
use crate::subject::Subject;
use instant_acme::{AuthorizationStatus, ChallengeType, Error, Order, OrderStatus};
use jiff::Timestamp;
use std::rc::Rc;
use std::time::Duration;
use tidegate_model::{Acme, AcmeChallenge};

/// The wait between two questions about an order grows up to here.
const POLL_MAX: Duration = Duration::from_secs(10);
/// A CA that wants to be asked less often is heard up to here; the limit of the whole order is what ends it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// An order and whom it is for.
pub struct Placed<'a> {
    pub shared: &'a Rc<Shared>,
    pub subject: &'a Subject,
    pub acme: &'a Acme,
    pub conversation: &'a Conversation,
    pub order: Order,
    /// The key of the certificate, PKCS#8 PEM.
    pub key_pem: &'a str,
}

/// Why an order did not lead to a certificate.
#[derive(Debug)]
pub struct Failure {
    pub cause: Cause,
    /// The order is of no use any more; otherwise it can be taken up again.
    pub is_order_dead: bool,
    /// The CA has counted a failed validation.
    pub is_validation: bool,
    /// The same order with another challenge could succeed.
    pub is_mendable: bool,
    /// The CA does not know the account.
    pub is_account_lost: bool,
    /// Which of the kinds of challenge it was, by its place.
    pub tried: usize,
}

impl Failure {
    pub fn new(cause: Cause) -> Failure {
        Failure { cause, is_order_dead: false, is_validation: false, is_mendable: false, is_account_lost: false, tried: 0 }
    }

    pub fn dead(cause: Cause) -> Failure {
        Failure { is_order_dead: true, ..Failure::new(cause) }
    }

    /// From the library, with what follows for order and account.
    pub fn of(error: &Error, conversation: &Conversation, context: Context<'_>) -> Failure {
        let cause = conversation.cause(error, context);
        let kind = match error {
            Error::Api(problem) => Said::from(problem).kind,
            _ => String::new(),
        };
        let is_client_error = matches!(error, Error::Api(problem) if problem.status.is_some_and(|status| status < 500));
        Failure {
            is_order_dead: is_client_error && kind != "rateLimited" && kind != "badNonce" && kind != "orderNotReady",
            is_account_lost: kind == "accountDoesNotExist",
            ..Failure::new(cause)
        }
    }
}

impl Placed<'_> {
    /// Through all that is left of the order. The chain as PEM.
    pub async fn complete(mut self, challenge: AcmeChallenge) -> Result<String, Failure> {
        let mut poll = self.shared.timing.poll;
        let mut is_authorised = false;
        let mut is_finalised = false;
        loop {
            match self.order.state().status {
                OrderStatus::Pending if !is_authorised => {
                    self.authorise(challenge).await?;
                    is_authorised = true;
                    poll = self.shared.timing.poll;
                }
                OrderStatus::Ready if !is_finalised => {
                    self.finalise().await?;
                    is_finalised = true;
                    poll = self.shared.timing.poll;
                    continue;
                }
                OrderStatus::Valid => return self.download().await,
                OrderStatus::Invalid => return Err(self.invalid(challenge)),
                // Between the last validation and readiness, and while the CA signs.
                OrderStatus::Pending | OrderStatus::Ready | OrderStatus::Processing => self.pause(&mut poll).await,
            }
            let refreshed = repeat_safe(async || self.order.refresh().await.map(|_| ())).await;
            refreshed.map_err(|error| self.failure(&error, Some(challenge)))?;
        }
    }

    /// Shows the CA that the name is ours. What is in place for it is gone when this returns, whatever the outcome.
    async fn authorise(&mut self, kind: AcmeChallenge) -> Result<(), Failure> {
        let presented = {
            let (shared, subject, acme) = (self.shared, self.subject, self.acme);
            let (name, conversation) = (subject.to_string(), self.conversation);
            let context = context(&name, conversation, Some(kind));
            let failure = |error: &Error| Failure::of(error, conversation, context);
            let fetched =
                repeat_safe(async || fetched(self.order.authorizations().next().await.map(|one| one.map(|_| ())))).await;
            fetched.map_err(|error| failure(&error))?;
            let mut authorisations = self.order.authorizations();
            let Some(authorisation) = authorisations.next().await else { return Ok(()) };
            let mut authorisation = authorisation.map_err(|error| failure(&error))?;
            if is_authorised(&authorisation, conversation, context)? {
                return Ok(());
            }
            let Some(mut challenge) = authorisation.challenge(type_of(kind)) else {
                return Err(not_offered(&name, conversation, kind));
            };
            let key_authorization = challenge.key_authorization();
            let answer = ChallengeAnswer { token: &challenge.token, key_authorization: &key_authorization };
            let presented = present(shared, subject, acme, kind, answer)
                .await
                .map_err(|cause| Failure { is_mendable: true, ..Failure::new(cause) })?;
            match repeat(async || challenge.set_ready().await).await {
                // The request may have arrived: the CA is looking already, and the answer must stay in place. Said
                // twice, it is refused at worst.
                Err(Error::Other(_)) => match repeat(async || challenge.set_ready().await).await {
                    Ok(()) | Err(Error::Api(_)) => {}
                    Err(error) => return Err(failure(&error)),
                },
                other => other.map_err(|error| failure(&error))?,
            }
            presented
        };
        let outcome = self.await_authorisation(kind).await;
        presented.withdraw().await;
        outcome
    }

    async fn await_authorisation(&mut self, kind: AcmeChallenge) -> Result<(), Failure> {
        let mut poll = self.shared.timing.poll;
        let name = self.subject.to_string();
        loop {
            self.pause(&mut poll).await;
            let conversation = self.conversation;
            let context = context(&name, conversation, Some(kind));
            let refreshed = repeat_safe(async || match self.order.authorizations().next().await {
                Some(Ok(mut authorisation)) => authorisation.refresh().await.map(|_| ()),
                Some(Err(error)) => Err(error),
                None => Ok(()),
            });
            refreshed.await.map_err(|error| Failure::of(&error, conversation, context))?;
            let mut authorisations = self.order.authorizations();
            let Some(Ok(authorisation)) = authorisations.next().await else { return Ok(()) };
            if is_authorised(&authorisation, conversation, context)? {
                return Ok(());
            }
        }
    }

    async fn finalise(&mut self) -> Result<(), Failure> {
        let request = keys::signing_request(self.subject, self.key_pem).map_err(Failure::dead)?;
        match repeat(async || self.order.finalize_csr(&request).await).await {
            Ok(()) => Ok(()),
            // It became so in between, or another process finalised it; the next look tells.
            Err(Error::Api(problem)) if Said::from(&problem).kind == "orderNotReady" => {
                let refreshed = repeat_safe(async || self.order.refresh().await.map(|_| ())).await;
                refreshed.map_err(|error| self.failure(&error, None))
            }
            Err(error) => Err(self.failure(&error, None)),
        }
    }

    async fn download(&mut self) -> Result<String, Failure> {
        match repeat_safe(async || self.order.certificate().await).await {
            Ok(Some(chain)) => Ok(chain),
            Ok(None) => Err(Failure::new(Cause::new(
                Blame::Authority,
                format!("{} calls the order valid and gives no certificate", self.conversation.authority),
                "tried again by itself",
            ))),
            Err(error) => Err(self.failure(&error, None)),
        }
    }

    fn invalid(&mut self, challenge: AcmeChallenge) -> Failure {
        let name = self.subject.to_string();
        let context = context(&name, self.conversation, Some(challenge));
        let cause = match &self.order.state().error {
            Some(problem) => said_by_authority(&Said::from(problem), context),
            None => Cause::new(
                Blame::Setup,
                format!("{} calls the order invalid and gives no reason", self.conversation.authority),
                "tried again by itself",
            ),
        };
        Failure::dead(cause)
    }

    fn failure(&self, error: &Error, challenge: Option<AcmeChallenge>) -> Failure {
        let name = self.subject.to_string();
        Failure::of(error, self.conversation, context(&name, self.conversation, challenge))
    }

    async fn pause(&self, poll: &mut Duration) {
        let told = self.conversation.take_retry_after().and_then(|when| {
            let wait = when.duration_since(Timestamp::now());
            Duration::try_from(wait).ok()
        });
        tokio::time::sleep(told.map_or(*poll, |told| told.min(RETRY_AFTER_MAX))).await;
        *poll = (*poll * 3 / 2).min(POLL_MAX);
    }
}

/// An order without an authorisation needs none.
fn fetched(authorisation: Option<Result<(), Error>>) -> Result<(), Error> {
    authorisation.unwrap_or(Ok(()))
}

fn context<'a>(name: &'a str, conversation: &'a Conversation, challenge: Option<AcmeChallenge>) -> Context<'a> {
    Context { name, authority: &conversation.authority, challenge, retry_after: None }
}

/// What the CA says of the challenge that failed.
/// Whether the CA believes it; false while it is still looking, or waits for us.
fn is_authorised(
    authorisation: &instant_acme::AuthorizationState,
    conversation: &Conversation,
    context: Context<'_>,
) -> Result<bool, Failure> {
    match authorisation.status {
        AuthorizationStatus::Pending => Ok(false),
        AuthorizationStatus::Valid => Ok(true),
        AuthorizationStatus::Invalid
        | AuthorizationStatus::Revoked
        | AuthorizationStatus::Expired
        | AuthorizationStatus::Deactivated => Err(refused(authorisation, conversation, context)),
    }
}

fn refused(authorisation: &instant_acme::AuthorizationState, conversation: &Conversation, context: Context<'_>) -> Failure {
    let problem = authorisation.challenges.iter().find_map(|challenge| challenge.error.as_ref());
    let Some(problem) = problem else {
        return Failure::dead(Cause::new(
            Blame::Setup,
            format!("{} calls the authorisation invalid and gives no reason", conversation.authority),
            "tried again by itself",
        ));
    };
    let said = Said::from(problem);
    Failure {
        is_validation: true,
        is_mendable: another_challenge_could_mend(&said),
        ..Failure::dead(said_by_authority(&said, context))
    }
}

fn not_offered(name: &str, conversation: &Conversation, kind: AcmeChallenge) -> Failure {
    let cause = Cause::new(
        Blame::Setup,
        format!("{} does not offer {kind} for {name}", conversation.authority),
        "choose another `challenge`, or another CA",
    );
    Failure { is_mendable: true, ..Failure::new(cause) }
}

fn type_of(challenge: AcmeChallenge) -> ChallengeType {
    match challenge {
        AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        AcmeChallenge::Http01 => ChallengeType::Http01,
        AcmeChallenge::Dns01 => ChallengeType::Dns01,
    }
}
