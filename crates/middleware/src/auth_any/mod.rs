//! `auth any`: several ways to be let in, of which one is enough. Addresses and certificates are looked at here;
//! whether somebody has logged in is found out by whoever runs the steps (`proxy`), a way after the other. Where none
//! is satisfied, which of their refusals is the answer is decided here.

use crate::allow::Access;
use crate::api_key::CompiledApiKey;
use crate::basic_auth::CompiledBasicAuth;
use crate::client_auth;
use crate::compile_error::CompileError;
use crate::context::Context;
use crate::jwt::CompiledJwt;
use crate::refusal::{ApiKeyRefusal, Refusal, TokenRefusal};
use std::borrow::Cow;
use tidegate_model::{AuthAny, Step};
use tidegate_wire::head::{HeaderId, RequestHead};

#[derive(Debug)]
pub struct CompiledAuthAny {
    /// In the order in which they are tried.
    pub ways: Box<[Way]>,
}

/// A step that lets somebody in.
#[derive(Debug)]
pub enum Way {
    Access(Access),
    ClientAuth,
    BasicAuth(Box<CompiledBasicAuth>),
    Jwt(Box<CompiledJwt>),
    ApiKey(Box<CompiledApiKey>),
}

/// Each is itself alone.
impl PartialEq for CompiledAuthAny {
    fn eq(&self, other: &CompiledAuthAny) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CompiledAuthAny {}

impl CompiledAuthAny {
    pub fn new(any: &AuthAny) -> Result<CompiledAuthAny, CompileError> {
        let ways: Vec<Option<Way>> = any.ways.iter().map(Way::new).collect::<Result<_, CompileError>>()?;
        Ok(CompiledAuthAny { ways: ways.into_iter().flatten().collect() })
    }

    /// Before any way is tried: what a server behind us might take for what is looked at here.
    pub fn remove_look_alikes(&self, head: &mut RequestHead) {
        for way in &self.ways {
            match way {
                Way::Jwt(jwt) => jwt.remove_look_alikes(head),
                Way::ApiKey(auth) => auth.remove_look_alikes(head),
                Way::Access(_) | Way::ClientAuth | Way::BasicAuth(_) => {}
            }
        }
    }

    /// When somebody is let in: keys are not for who is behind us, whichever way it was.
    pub fn remove_keys(&self, head: &mut RequestHead) {
        for way in &self.ways {
            if let Way::ApiKey(auth) = way {
                auth.remove_keys(head);
            }
        }
    }

    /// Whether what a client says in `Authorization` is not for the upstream, by any of the ways: who is let in by an
    /// address is not asked for it, so that nobody has verified what it says.
    pub fn hides_credentials(&self) -> bool {
        self.ways.iter().any(|way| match way {
            Way::BasicAuth(auth) => !auth.forwards,
            Way::Jwt(jwt) => !jwt.settings.forwards,
            Way::Access(_) | Way::ClientAuth | Way::ApiKey(_) => false,
        })
    }

    /// Whether the client is let in before anybody would have to log in.
    pub fn is_open_to(&self, head: &RequestHead, context: &Context<'_>) -> bool {
        self.ways.iter().map_while(|way| way.lets_through(head, context)).any(|lets_through| lets_through)
    }

    pub fn jwt(&self) -> Option<&CompiledJwt> {
        self.ways.iter().find_map(|way| if let Way::Jwt(jwt) = way { Some(&**jwt) } else { None })
    }

    /// The values of `WWW-Authenticate` beside a refusal of its own: all ways to log in, since any of them would do
    /// (RFC 9110 section 11.6.1). None beside another's.
    pub fn challenges(&self, refusal: Refusal) -> Vec<Cow<'_, str>> {
        let own = self.ways.iter().filter_map(|way| way.challenge(refusal));
        if refusal.status() != 401 || own.clone().next().is_none() {
            return own.collect();
        }
        let all = self.ways.iter().filter_map(|way| way.challenge(refusal).or_else(|| way.challenge(way.asks()?)));
        all.collect()
    }
}

impl Way {
    /// `None`: nobody is let in by it, and `config` takes no such way.
    fn new(step: &Step) -> Result<Option<Way>, CompileError> {
        Ok(match step {
            Step::Allow(_) => Access::of(std::iter::once(step))?.map(Way::Access),
            Step::ClientAuth(_) => Some(Way::ClientAuth),
            Step::BasicAuth(Some(auth)) => Some(Way::BasicAuth(Box::new(CompiledBasicAuth::new(auth)))),
            Step::Jwt(Some(jwt)) => Some(Way::Jwt(Box::new(CompiledJwt::new(jwt)))),
            Step::ApiKey(Some(auth)) => Some(Way::ApiKey(Box::new(CompiledApiKey::new(auth)))),
            Step::BasicAuth(None)
            | Step::Jwt(None)
            | Step::ApiKey(None)
            | Step::Oidc(_)
            | Step::ForwardAuth(_)
            | Step::AuthAny(_)
            | Step::RequestHeader(_)
            | Step::ResponseHeader(_)
            | Step::Rewrite { .. }
            | Step::StripPrefix(_)
            | Step::AddPrefix(_)
            | Step::BodyLimit { .. }
            | Step::Deny(_)
            | Step::Cors(_)
            | Step::Csrf(_)
            | Step::RateLimit(_)
            | Step::ConcurrencyLimit(_) => None,
        })
    }

    /// Whether one that nobody has to log in for lets the client in; `None` of others.
    pub fn lets_through(&self, head: &RequestHead, context: &Context<'_>) -> Option<bool> {
        match self {
            Way::Access(access) => Some(access.lets_through(head, context)),
            Way::ClientAuth => Some(client_auth::lets_through(context)),
            Way::BasicAuth(_) | Way::Jwt(_) | Way::ApiKey(_) => None,
        }
    }

    fn challenge(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        match self {
            Way::BasicAuth(auth) => auth.challenge_of(refusal),
            Way::Jwt(jwt) => jwt.challenge_of(refusal),
            Way::ApiKey(auth) => auth.challenge_of(refusal),
            Way::Access(_) | Way::ClientAuth => None,
        }
    }

    /// The refusal of who has not tried it.
    fn asks(&self) -> Option<Refusal> {
        match self {
            Way::BasicAuth(_) => Some(Refusal::NotAuthenticated),
            Way::Jwt(_) => Some(TokenRefusal::Missing.into()),
            Way::ApiKey(_) => Some(ApiKeyRefusal::Missing.into()),
            Way::Access(_) | Way::ClientAuth => None,
        }
    }
}

/// Which of the refusals of several ways is the answer, so far: that of the way that the client has tried, since it
/// says what was wrong with it; of several, or of none that was tried, the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaysRefused(Option<(Weight, Refusal)>);

/// How much a client learns by a refusal, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// There is nothing to try.
    Denied,
    /// The client has not tried.
    MayLogIn,
    Tried,
    /// Whether what it has tried is right is not known.
    NotKnown,
}

impl WaysRefused {
    pub fn note(&mut self, refusal: Refusal, head: &RequestHead) {
        let weight = weight(refusal, head);
        if self.0.is_none_or(|(known, _)| known <= weight) {
            self.0 = Some((weight, refusal));
        }
    }

    /// Of what none lets in.
    pub fn refusal(self) -> Refusal {
        self.0.map_or(Refusal::Denied, |(_, refusal)| refusal)
    }
}

fn weight(refusal: Refusal, head: &RequestHead) -> Weight {
    match refusal {
        Refusal::Denied | Refusal::NoClientCertificate => Weight::Denied,
        Refusal::Token(TokenRefusal::Missing) | Refusal::ApiKey(ApiKeyRefusal::Missing) => Weight::MayLogIn,
        Refusal::NotAuthenticated if !says_password(head) => Weight::MayLogIn,
        refusal if refusal.status() >= 500 => Weight::NotKnown,
        _ => Weight::Tried,
    }
}

fn says_password(head: &RequestHead) -> bool {
    let is_basic = |value: &[u8]| value.get(..b"Basic".len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"Basic"));
    head.fields.all(HeaderId::Authorization).any(is_basic)
}

#[cfg(test)]
mod tests {
    use super::{CompiledAuthAny, WaysRefused};
    use crate::context::Context;
    use crate::fixtures::{context, request};
    use crate::refusal::{ApiKeyRefusal, Refusal, TokenRefusal};
    use tidegate_access::TokenFault;
    use tidegate_model::{
        AccessRule, ApiKeyAuth, ApiKeyPlace, ApiKeySource, AuthAny, AuthUsers, BasicAuth, ClientAuthDemand, Jwt, Step, TokenPlace,
    };

    fn allow(network: &str) -> Step {
        Step::Allow(AccessRule::from(vec![network.parse().expect("a network")]))
    }

    fn basic(realm: &str) -> Step {
        let (realm, users) = (realm.to_owned(), AuthUsers::Listed(Vec::new()));
        Step::BasicAuth(Some(BasicAuth { realm, users, forwards: false, failures: None }))
    }

    fn key() -> Step {
        Step::ApiKey(Some(Box::new(ApiKeyAuth {
            keys: ApiKeySource::Listed(Vec::new()),
            places: vec![ApiKeyPlace::Field("x-api-key".into())],
            header: None,
            realm: None,
            forwards: false,
            failures: None,
        })))
    }

    fn jwt() -> Step {
        Step::Jwt(Some(Box::new(Jwt {
            issuers: Vec::new(),
            places: vec![TokenPlace::Authorization],
            requirements: Vec::new(),
            headers: Vec::new(),
            user: Jwt::USER.into(),
            realm: None,
            is_optional: false,
            forwards: true,
            needs_expiry: true,
            leeway: Jwt::LEEWAY,
            kind: None,
            token_bytes_max: Jwt::TOKEN_BYTES_MAX,
        })))
    }

    fn any(ways: &[Step]) -> CompiledAuthAny {
        CompiledAuthAny::new(&AuthAny { ways: ways.to_vec() }).expect("ways of the test")
    }

    #[test]
    fn an_address_lets_in_before_anybody_has_to_log_in() {
        let check = |ways: &[Step], expected: bool| {
            // The client is 192.0.2.1.
            assert_eq!(any(ways).is_open_to(&request("/", "example.com", &[]), &context()), expected, "{ways:?}");
        };
        check(&[allow("192.0.2.0/24"), basic("Staff")], true);
        check(&[allow("10.0.0.0/8"), basic("Staff")], false);
        check(&[allow("10.0.0.0/8"), allow("192.0.2.1/32"), basic("Staff")], true);
        check(&[basic("Staff"), allow("192.0.2.0/24")], false);
        check(&[Step::ClientAuth(ClientAuthDemand::Require), allow("192.0.2.0/24")], true);
        check(&[Step::ClientAuth(ClientAuthDemand::Require)], false);
    }

    #[test]
    fn the_answer_is_the_refusal_of_the_way_that_was_tried() {
        let check = |lines: &[&str], refusals: &[Refusal], expected: Refusal| {
            let head = request("/", "example.com", lines);
            let mut refused = WaysRefused::default();
            for refusal in refusals {
                refused.note(*refusal, &head);
            }
            assert_eq!(refused.refusal(), expected, "{lines:?} {refusals:?}");
        };
        let (no_token, bad_token) = (TokenRefusal::Missing.into(), TokenRefusal::Refused(TokenFault::Shape).into());
        let (no_key, bad_key) = (ApiKeyRefusal::Missing.into(), ApiKeyRefusal::Unknown.into());
        let (password, busy) = (Refusal::NotAuthenticated, Refusal::PasswordsBusy);
        let basic: &[&str] = &["Authorization: basic YTpi"];
        check(&[], &[], Refusal::Denied);
        check(&[], &[Refusal::Denied, no_token, password], password);
        check(&[], &[no_token, Refusal::Denied], no_token);
        check(&[], &[bad_token, password, no_key], bad_token);
        check(basic, &[no_token, password, no_key], password);
        check(basic, &[password, no_key, Refusal::NoClientCertificate], password);
        check(&[], &[bad_token, bad_key], bad_key);
        check(&[], &[busy, bad_key, Refusal::Denied], busy);
        check(&[], &[TokenRefusal::KeysMissing.into(), bad_key], TokenRefusal::KeysMissing.into());
    }

    #[test]
    fn all_ways_to_log_in_are_told() {
        let check = |ways: &[Step], refusal: Refusal, expected: &[&str]| {
            assert_eq!(any(ways).challenges(refusal), expected, "{refusal:?}");
        };
        let (basic_said, all) = ("Basic realm=\"Staff\", charset=\"UTF-8\"", [allow("10.0.0.0/8"), jwt(), key(), basic("Staff")]);
        check(&all, Refusal::NotAuthenticated, &["Bearer", "ApiKey", basic_said]);
        check(&all, ApiKeyRefusal::Unknown.into(), &["Bearer", "ApiKey", basic_said]);
        let any_of_all = any(&all);
        let seen = any_of_all.challenges(TokenRefusal::Refused(TokenFault::Shape).into());
        assert!(seen[0].starts_with("Bearer error=\"invalid_token\"") && seen.len() == 3, "{seen:?}");
        check(&all, Refusal::Denied, &[]);
        check(&all, ApiKeyRefusal::Unclear.into(), &[]);
        check(&all, TokenRefusal::NotEnough.into(), &["Bearer error=\"insufficient_scope\""]);
        check(&[allow("10.0.0.0/8"), Step::ClientAuth(ClientAuthDemand::Require)], Refusal::Denied, &[]);
    }

    #[test]
    fn what_nobody_has_verified_is_hidden_as_well() {
        assert!(any(&[allow("10.0.0.0/8"), basic("Staff")]).hides_credentials());
        assert!(!any(&[allow("10.0.0.0/8"), jwt()]).hides_credentials());
        let mut head = request("/", "example.com", &["X-API-Key: one", "Accept: a"]);
        let context = Context { client_ip: [10, 0, 0, 1].into(), ..context() };
        let any = any(&[allow("10.0.0.0/8"), key()]);
        assert!(any.is_open_to(&head, &context));
        any.remove_keys(&mut head);
        assert_eq!(crate::fixtures::lines(&head.fields), ["Accept: a"]);
    }
}
