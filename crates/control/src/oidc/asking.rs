//! What a provider is asked: what it says of itself, tokens for a code, tokens for a refresh token. Each question has
//! a bound in time and in bytes, and redirects are not followed: who follows one may be sent to an address of this
//! network.

use super::now_unix;
use crate::key_fetching::{Clients, life};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Response};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tidegate_access::oidc::{
    IdToken, IdTokenFault, IdTokenGrant, LogOutToken, LogOutTokenFault, Metadata, Session, TokenAnswer, TokenAnswerFault,
    UserInfoFault, discovery_url, form, percent_encode, user_info,
};
use tidegate_access::{Claims, TokenFault};
use tidegate_model::{KeySource, OidcProvider};
use tidegate_outbound::Limits;
use tidegate_proxy::auth::oidc::{FoundProvider, LogInOutcome, LogOutOutcome, ProviderState, RefreshOutcome};
use tidegate_proxy::auth::{IssuerKeys, Lack};
use tidegate_proxy::process_state::ProcessState;
use tokio::time::timeout;

/// From the look-up of its name to its last byte.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// A log-in and a refresh wait for this beside tokens.
const USER_INFO_MAX: Duration = Duration::from_secs(5);
/// Of a document, and of an answer with tokens.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// How long a token waits for newer keys.
const KEYS_MAX: Duration = Duration::from_secs(5);
/// How long what a provider says of itself is believed where it does not say it.
const DOCUMENT_LIFE: Duration = Duration::from_hours(1);

pub(super) struct ProviderClient {
    clients: Clients,
    process: Arc<ProcessState>,
}

/// Why tokens cannot be had.
enum TokensFault {
    /// Nothing is known of the grant.
    Away,
    /// The grant is over.
    InvalidGrant,
    /// What came is not to be believed.
    BadAnswer,
}

/// The provider has not been heard of yet.
struct NotFound;

impl ProviderClient {
    pub fn new(process: Arc<ProcessState>) -> ProviderClient {
        ProviderClient { clients: Clients::default(), process }
    }

    /// Asks what the provider says of itself, and tells those who wait for it.
    pub async fn discover(&self, provider: &ProviderState) {
        let issuer = &provider.settings.issuer;
        let shared = &self.process.oidc;
        let had_some = provider.found().is_some();
        let cause = match self.ask_document(&provider.settings).await {
            Ok((metadata, life)) => {
                let source = KeySource::Url { url: metadata.keys.to_string(), ca: provider.settings.ca.clone() };
                match self.process.key_sets.of(&source, Instant::now()) {
                    Ok(keys) => {
                        if !had_some {
                            tracing::info!(issuer, "the provider of log-ins was found");
                        }
                        let life = Some(life.unwrap_or(DOCUMENT_LIFE));
                        return shared.take_found(provider, FoundProvider { metadata, keys }, life, Instant::now());
                    }
                    Err(fault) => fault.to_string(),
                }
            }
            Err(cause) => cause,
        };
        shared.note_failure(provider, Instant::now());
        let remedy = "let this machine reach the address that `issuer=` names, and write the issuer as its document does";
        if had_some {
            tracing::warn!(issuer, cause, remedy, "the provider of log-ins was not found again; what it said before counts");
        } else {
            tracing::error!(issuer, cause, remedy, "the provider of log-ins was not found, and nobody can log in");
        }
    }

    async fn ask_document(&self, settings: &OidcProvider) -> Result<(Metadata, Option<Duration>), String> {
        let request = Request::get(discovery_url(&settings.issuer)).header(ACCEPT, "application/json").body(Bytes::new());
        let answer = self.send(settings, request.map_err(|error| error.to_string())?).await?;
        if answer.status() != 200 {
            return Err(format!("it answers with status {}, and redirects are not followed", answer.status().as_u16()));
        }
        let metadata = Metadata::parse(answer.body(), &settings.issuer).map_err(|fault| format!("its document {fault}"))?;
        Ok((metadata, life(&answer)))
    }

    async fn send(&self, settings: &OidcProvider, request: Request<Bytes>) -> Result<Response<Bytes>, String> {
        self.send_within(settings, request, ANSWER_MAX).await
    }

    async fn send_within(
        &self,
        settings: &OidcProvider,
        request: Request<Bytes>,
        total: Duration,
    ) -> Result<Response<Bytes>, String> {
        let limits = Limits { total, body_bytes_max: BODY_BYTES_MAX };
        let client = self.clients.of(settings.ca.as_ref())?;
        client.send(request, limits).await.map_err(|fault| format!("it {fault}"))
    }

    /// The session that a code stands for.
    pub async fn log_in(
        &self,
        provider: &ProviderState,
        (code, verifier): (&str, &str),
        nonce: &str,
        redirect: &str,
    ) -> LogInOutcome {
        let grant =
            [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect), ("code_verifier", verifier)];
        let answer = match self.tokens(provider, &grant).await {
            Ok(answer) => answer,
            Err(TokensFault::Away) => return LogInOutcome::Away,
            Err(TokensFault::InvalidGrant | TokensFault::BadAnswer) => return LogInOutcome::BadAnswer,
        };
        let Some(token) = &answer.id_token else {
            tell_bad_token(provider, "there is none; `openid` has to be among the scopes");
            return LogInOutcome::BadAnswer;
        };
        let grant = IdTokenGrant::LogIn { nonce, age_max: age_max(provider) };
        let (id_token, claims) = match self.verify(provider, (token, &answer.access_token), grant).await {
            Ok(verified) => verified,
            Err(TokensFault::Away) => return LogInOutcome::Away,
            Err(TokensFault::InvalidGrant | TokensFault::BadAnswer) => return LogInOutcome::BadAnswer,
        };
        let more = match self.user_info(provider, &claims, &answer.access_token).await {
            Ok(more) => more,
            Err(TokensFault::Away) => return LogInOutcome::Away,
            Err(TokensFault::InvalidGrant | TokensFault::BadAnswer) => return LogInOutcome::BadAnswer,
        };
        let mut id = [0; 16];
        if rand::fill(&mut id).is_err() {
            return LogInOutcome::Away;
        }
        let session = Session::begin(id, provider.session, id_token, answer, provider.keeps_access, now_unix());
        LogInOutcome::Session(Box::new(session.with_claims(more)))
    }

    /// A session's newer tokens.
    pub async fn refresh(&self, provider: &ProviderState, session: &Session) -> RefreshOutcome {
        let grant = [("grant_type", "refresh_token"), ("refresh_token", &*session.refresh_token)];
        let answer = match self.tokens(provider, &grant).await {
            Ok(answer) => answer,
            Err(TokensFault::InvalidGrant) => return RefreshOutcome::Over,
            Err(TokensFault::Away | TokensFault::BadAnswer) => return RefreshOutcome::Away,
        };
        // OpenID Connect Core section 12.2: it may be left out, and must be of the same person.
        let grant = IdTokenGrant::Refresh { before: &session.id_token };
        let id_token = match &answer.id_token {
            None => None,
            Some(token) => match self.verify(provider, (token, &answer.access_token), grant).await {
                Ok((id_token, _)) => Some(id_token),
                // The refresh token before is used up, and the new one is good: what was claimed before counts on.
                Err(TokensFault::Away) => None,
                Err(TokensFault::InvalidGrant | TokensFault::BadAnswer) => return RefreshOutcome::Over,
            },
        };
        let more = match id_token.as_ref().unwrap_or(&session.id_token).claims() {
            Ok(claims) => self.user_info(provider, &claims, &answer.access_token).await,
            Err(_) => Err(TokensFault::BadAnswer),
        };
        let renewed = session.refreshed(id_token, answer, provider.keeps_access, now_unix());
        RefreshOutcome::Renewed(Arc::new(match more {
            Ok(more) => renewed.with_claims(more),
            Err(TokensFault::Away) => renewed,
            Err(TokensFault::InvalidGrant | TokensFault::BadAnswer) => return RefreshOutcome::Over,
        }))
    }

    /// Claims that the ID token does not have, where they are asked for.
    async fn user_info(&self, provider: &ProviderState, claims: &Claims, access_token: &str) -> Result<Box<str>, TokensFault> {
        if !provider.asks_user_info {
            return Ok(Box::default());
        }
        let issuer = &provider.settings.issuer;
        let found = provider.found().clone().ok_or(TokensFault::Away)?;
        let Some(endpoint) = &found.metadata.userinfo_endpoint else {
            let remedy = "leave out `userinfo=`, and have the provider put claims into the ID token";
            tracing::error!(issuer, remedy, "the provider's document has no `userinfo_endpoint`");
            return Err(TokensFault::BadAnswer);
        };
        let away = |cause: String| {
            let remedy = "let this machine reach the provider's userinfo endpoint";
            tracing::warn!(issuer, cause, remedy, "the provider does not say who somebody is");
            TokensFault::Away
        };
        let request = Request::get(&**endpoint)
            .header(ACCEPT, "application/json")
            .header(AUTHORIZATION, format!("Bearer {access_token}"))
            .body(Bytes::new())
            .map_err(|error| away(error.to_string()))?;
        let answer = self.send_within(&provider.settings, request, USER_INFO_MAX).await.map_err(away)?;
        let kind = answer.headers().get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        user_info(claims, (answer.status().as_u16(), kind), answer.body()).map_err(|fault| match fault {
            UserInfoFault::Status(status) if !matches!(status, 401 | 403) => away(fault.to_string()),
            UserInfoFault::Status(_)
            | UserInfoFault::Signed
            | UserInfoFault::Unreadable
            | UserInfoFault::OtherSubject
            | UserInfoFault::TooLong => {
                tracing::error!(issuer, %fault, "what the provider says of somebody is not taken");
                TokensFault::BadAnswer
            }
        })
    }

    async fn tokens(&self, provider: &ProviderState, grant: &[(&str, &str)]) -> Result<TokenAnswer, TokensFault> {
        let found = provider.found().clone().ok_or(TokensFault::Away)?;
        let settings = &provider.settings;
        let mut pairs = grant.to_vec();
        let mut authorization = None;
        match &settings.secret {
            Some(secret) if found.metadata.takes_secret_in_form => {
                pairs.extend([("client_id", settings.client.as_str()), ("client_secret", secret.reveal())]);
            }
            // RFC 6749 section 2.3.1: both as in a form, and then as a name and a password.
            Some(secret) => {
                let mut text = String::new();
                percent_encode(&settings.client, &mut text);
                text.push(':');
                percent_encode(secret.reveal(), &mut text);
                authorization = Some(format!("Basic {}", STANDARD.encode(text)));
            }
            None => pairs.push(("client_id", &settings.client)),
        }
        let mut request = Request::post(&*found.metadata.token_endpoint)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let issuer = &settings.issuer;
        let away = |cause: String| {
            let remedy = "let this machine reach the provider's token endpoint";
            tracing::warn!(issuer, cause, remedy, "the provider gives no tokens");
            TokensFault::Away
        };
        let request = request.body(Bytes::from(form(pairs))).map_err(|error| away(error.to_string()))?;
        let answer = self.send(settings, request).await.map_err(away)?;
        TokenAnswer::read(answer.status().as_u16(), answer.body()).map_err(|fault| {
            let remedy = "compare `client=`, `secret=` and the callback's address with what the provider knows";
            match fault {
                TokenAnswerFault::InvalidGrant => {
                    tracing::debug!(issuer, "the provider takes a code or a refresh token no more");
                    TokensFault::InvalidGrant
                }
                TokenAnswerFault::Status(_) => away(fault.to_string()),
                TokenAnswerFault::Refused(_) | TokenAnswerFault::Unreadable | TokenAnswerFault::OtherType(_) => {
                    tracing::error!(issuer, %fault, remedy, "the provider gives no tokens");
                    TokensFault::BadAnswer
                }
            }
        })
    }

    /// `tokens`: the ID token and the access token beside it.
    async fn verify(
        &self,
        provider: &ProviderState,
        tokens: (&str, &str),
        grant: IdTokenGrant<'_>,
    ) -> Result<(IdToken, Claims), TokensFault> {
        let settings = &provider.settings;
        let leeway = provider.leeway.as_secs_f64();
        let mut may_wait = true;
        loop {
            let keys = keys_of(provider).map_err(|NotFound| TokensFault::Away)?;
            let current = keys.current().clone();
            let lack = match current {
                None => Lack::Keys,
                Some(current) => {
                    let expected = IdToken::expectation(&settings.issuer, &settings.client, leeway);
                    match IdToken::verify(tokens, &current, &expected, grant, now_unix() as f64) {
                        Ok(verified) => return Ok(verified),
                        Err(IdTokenFault::Token(TokenFault::UnknownKey)) if may_wait => Lack::ThisKey,
                        Err(fault) => {
                            tell_bad_token(provider, &fault.to_string());
                            return Err(TokensFault::BadAnswer);
                        }
                    }
                }
            };
            if !may_wait || !wait_for_keys(&keys, lack).await {
                tell_bad_token(provider, "cannot be verified: the provider's keys have not come");
                return Err(TokensFault::Away);
            }
            may_wait = false;
        }
    }

    /// Whose session has ended, if the provider says so.
    pub async fn log_out_token(&self, provider: &ProviderState, token: &[u8]) -> Result<LogOutToken, LogOutOutcome> {
        let settings = &provider.settings;
        let mut may_wait = true;
        loop {
            let keys = keys_of(provider).map_err(|NotFound| LogOutOutcome::Away)?;
            let current = keys.current().clone();
            let lack = match current {
                None => Lack::Keys,
                Some(current) => {
                    let expected = IdToken::expectation(&settings.issuer, &settings.client, provider.leeway.as_secs_f64());
                    match LogOutToken::verify(token, &current, &expected, now_unix() as f64) {
                        Ok(over) => return Ok(over),
                        Err(LogOutTokenFault::Token(TokenFault::UnknownKey)) if may_wait => Lack::ThisKey,
                        Err(fault) => {
                            tracing::warn!(issuer = settings.issuer, "the logout token {fault}, and ends nobody's session");
                            return Err(LogOutOutcome::NotBelieved);
                        }
                    }
                }
            };
            if !may_wait || !wait_for_keys(&keys, lack).await {
                return Err(LogOutOutcome::Away);
            }
            may_wait = false;
        }
    }
}

fn keys_of(provider: &ProviderState) -> Result<Arc<IssuerKeys>, NotFound> {
    provider.found().as_ref().map(|found| found.keys.clone()).ok_or(NotFound)
}

/// False: none are on their way.
async fn wait_for_keys(keys: &Arc<IssuerKeys>, lack: Lack) -> bool {
    match keys.wait_for(lack, Instant::now()) {
        Some(ticket) => timeout(KEYS_MAX, ticket).await.is_ok(),
        None => false,
    }
}

/// Whoever asks for a log-in that is no older looks whether it is none (OpenID Connect Core section 3.1.2.1): the
/// request goes by way of the browser, which may have left that out.
fn age_max(provider: &ProviderState) -> Option<f64> {
    let asked = provider.settings.parameters.iter().find(|(name, _)| name == "max_age");
    asked.and_then(|(_, seconds)| seconds.parse().ok())
}

fn tell_bad_token(provider: &ProviderState, why: &str) {
    let issuer = &provider.settings.issuer;
    let remedy = "compare the clocks of both machines, and `issuer=` and `client=` with what the provider says";
    tracing::error!(issuer, why, remedy, "the ID token of a log-in is not taken");
}
