//! `auth any`: several ways to be let in, of which one is enough. Addresses and certificates are looked at here;
//! whether somebody has logged in is found out by whoever runs the steps (`proxy`), a way after the other: those that
//! ask nobody in front of those that ask another server. Where none is satisfied, which of their refusals is the answer
//! is decided here.

use crate::allow::Access;
use crate::api_key::CompiledApiKey;
use crate::basic_auth::CompiledBasicAuth;
use crate::client_auth;
use crate::compile_error::CompileError;
use crate::context::Context;
use crate::forward_auth::CompiledForwardAuth;
use crate::jwt::CompiledJwt;
use crate::oidc::CompiledOidc;
use crate::refusal::{ApiKeyRefusal, OidcRefusal, Refusal, TokenRefusal};
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
    /// Looked at by its cookies alone as long as another way is left; who is sent to its provider is, where none is.
    Oidc(Box<CompiledOidc>),
    /// Another server is asked when nobody nearer has let the client in.
    ForwardAuth(Box<CompiledForwardAuth>),
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
        let ways: Vec<Option<Way>> = any.tried().into_iter().map(Way::new).collect::<Result<_, CompileError>>()?;
        Ok(CompiledAuthAny { ways: ways.into_iter().flatten().collect() })
    }

    /// Before any way is tried: what a server behind us might take for what is looked at here.
    pub fn remove_look_alikes(&self, head: &mut RequestHead) {
        for way in &self.ways {
            match way {
                Way::Jwt(jwt) => jwt.remove_look_alikes(head),
                Way::ApiKey(auth) => auth.remove_look_alikes(head),
                Way::Access(_) | Way::ClientAuth | Way::BasicAuth(_) | Way::Oidc(_) | Way::ForwardAuth(_) => {}
            }
        }
    }

    /// When somebody is let in by the way at that position: keys, and tokens that are kept from the upstream, are not
    /// for who is behind us, whichever way it was, and a client's cookies are none of an auth server that was not
    /// asked. Fields of other names that a way may set were taken out on arrival.
    pub fn remove_unverified(&self, by: usize, head: &mut RequestHead) {
        for (position, way) in self.ways.iter().enumerate() {
            match way {
                Way::ApiKey(auth) => auth.remove_keys(head),
                Way::Jwt(jwt) => jwt.remove_tokens(head),
                Way::ForwardAuth(auth) if position != by && auth.copies("cookie") => {
                    head.fields.remove_id(HeaderId::Cookie);
                }
                Way::Access(_) | Way::ClientAuth | Way::BasicAuth(_) | Way::Oidc(_) | Way::ForwardAuth(_) => {}
            }
        }
    }

    /// Whether what a client says in `Authorization` is not for the upstream, by any of the ways: who is let in by an
    /// address is not asked for it, so that nobody has verified what it says. Not so where the way at that position,
    /// which has let the client in, has put something of its own there.
    pub fn hides_credentials(&self, by: usize) -> bool {
        let writes = |way: &Way| match way {
            Way::Oidc(oidc) => oidc.writes("authorization"),
            Way::ForwardAuth(auth) => auth.copies("authorization"),
            Way::Access(_) | Way::ClientAuth | Way::BasicAuth(_) | Way::Jwt(_) | Way::ApiKey(_) => false,
        };
        !self.ways.get(by).is_some_and(writes)
            && self.ways.iter().any(|way| match way {
                Way::BasicAuth(auth) => !auth.forwards,
                Way::Jwt(jwt) => !jwt.settings.forwards,
                // The upstream takes what stands there for the word of the provider, or of the auth server.
                Way::Oidc(_) | Way::ForwardAuth(_) => writes(way),
                Way::Access(_) | Way::ClientAuth | Way::ApiKey(_) => false,
            })
    }

    /// The position of the way that lets the client in before anybody would have to log in, if there is one.
    pub fn open_way(&self, head: &RequestHead, context: &Context<'_>) -> Option<usize> {
        self.ways.iter().map_while(|way| way.lets_through(head, context)).position(|lets_through| lets_through)
    }

    pub fn jwt(&self) -> Option<&CompiledJwt> {
        self.ways.iter().find_map(|way| if let Way::Jwt(jwt) = way { Some(&**jwt) } else { None })
    }

    pub fn oidc(&self) -> Option<&CompiledOidc> {
        self.ways.iter().find_map(|way| if let Way::Oidc(oidc) = way { Some(&**oidc) } else { None })
    }

    pub fn forward_auth(&self) -> Option<&CompiledForwardAuth> {
        self.ways.iter().find_map(|way| if let Way::ForwardAuth(auth) = way { Some(&**auth) } else { None })
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
            Step::Oidc(Some(oidc)) => Some(Way::Oidc(Box::new(CompiledOidc::new(oidc)))),
            Step::ForwardAuth(Some(auth)) => Some(Way::ForwardAuth(Box::new(CompiledForwardAuth::new(auth)))),
            Step::BasicAuth(None)
            | Step::Jwt(None)
            | Step::ApiKey(None)
            | Step::Oidc(None)
            | Step::ForwardAuth(None)
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
            Way::BasicAuth(_) | Way::Jwt(_) | Way::ApiKey(_) | Way::Oidc(_) | Way::ForwardAuth(_) => None,
        }
    }

    fn challenge(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        match self {
            Way::BasicAuth(auth) => auth.challenge_of(refusal),
            Way::Jwt(jwt) => jwt.challenge_of(refusal),
            Way::ApiKey(auth) => auth.challenge_of(refusal),
            Way::Oidc(oidc) => oidc.challenge_of(refusal),
            Way::Access(_) | Way::ClientAuth | Way::ForwardAuth(_) => None,
        }
    }

    /// The refusal of who has not tried it.
    fn asks(&self) -> Option<Refusal> {
        match self {
            Way::BasicAuth(_) => Some(Refusal::NotAuthenticated),
            Way::Jwt(_) => Some(TokenRefusal::Missing.into()),
            Way::ApiKey(_) => Some(ApiKeyRefusal::Missing.into()),
            Way::Oidc(_) => Some(OidcRefusal::LogInNeeded.into()),
            Way::Access(_) | Way::ClientAuth | Way::ForwardAuth(_) => None,
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
    /// The client would be sent to log in, and where that is done is out of reach.
    Away,
    Tried,
    /// Whether what it has tried is right is not known.
    NotKnown,
}

impl WaysRefused {
    /// Whether this one is the answer now.
    pub fn note(&mut self, refusal: Refusal, head: &RequestHead) -> bool {
        let weight = weight(refusal, head);
        let counts = self.0.is_none_or(|(known, _)| known <= weight);
        if counts {
            self.0 = Some((weight, refusal));
        }
        counts
    }

    /// Whether something cannot be known now, so that nobody is told that it was wrong.
    pub fn is_unknown(self) -> bool {
        self.0.is_some_and(|(weight, _)| weight == Weight::NotKnown)
    }

    /// Of what none lets in.
    pub fn refusal(self) -> Refusal {
        self.0.map_or(Refusal::Denied, |(_, refusal)| refusal)
    }
}

fn weight(refusal: Refusal, head: &RequestHead) -> Weight {
    match refusal {
        Refusal::Denied | Refusal::NoClientCertificate => Weight::Denied,
        Refusal::Token(TokenRefusal::Missing)
        | Refusal::ApiKey(ApiKeyRefusal::Missing)
        | Refusal::Oidc(OidcRefusal::LogInNeeded) => Weight::MayLogIn,
        Refusal::NotAuthenticated if !says_password(head) => Weight::MayLogIn,
        Refusal::Oidc(OidcRefusal::ProviderAway) => Weight::Away,
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
    use super::{CompiledAuthAny, Way, WaysRefused};
    use crate::context::Context;
    use crate::fixtures::{context, request};
    use crate::forward_auth::AuthFault;
    use crate::refusal::{ApiKeyRefusal, OidcRefusal, Refusal, TokenRefusal};
    use tidegate_access::TokenFault;
    use tidegate_model::{
        AccessRule, ApiKeyAuth, ApiKeyPlace, ApiKeySource, AuthAny, AuthUsers, BasicAuth, ClientAuthDemand, ForwardAuth, Jwt,
        NamePattern, Oidc, PoolName, Step, TokenPlace,
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

    fn oidc(access_token: Option<&str>) -> Step {
        Step::Oidc(Some(Box::new(Oidc { access_token: access_token.map(str::to_owned), ..crate::fixtures::oidc("https://a") })))
    }

    fn forward(copied: &[&str]) -> Step {
        let copied = copied.iter().map(|name| NamePattern::new(name)).collect();
        Step::ForwardAuth(Some(Box::new(ForwardAuth { copied, ..ForwardAuth::new(PoolName("auth".into())) })))
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
        let check = |ways: &[Step], expected: Option<usize>| {
            // The client is 192.0.2.1.
            assert_eq!(any(ways).open_way(&request("/", "example.com", &[]), &context()), expected, "{ways:?}");
        };
        check(&[allow("192.0.2.0/24"), basic("Staff")], Some(0));
        check(&[allow("10.0.0.0/8"), basic("Staff")], None);
        check(&[allow("10.0.0.0/8"), allow("192.0.2.1/32"), basic("Staff")], Some(1));
        check(&[basic("Staff"), allow("192.0.2.0/24")], None);
        check(&[forward(&[]), allow("192.0.2.0/24")], Some(0));
        check(&[Step::ClientAuth(ClientAuthDemand::Require), allow("192.0.2.0/24")], Some(1));
        check(&[Step::ClientAuth(ClientAuthDemand::Require)], None);
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
        let (log_in, away) = (OidcRefusal::LogInNeeded.into(), OidcRefusal::ProviderAway.into());
        check(&[], &[password, log_in], log_in);
        check(&[], &[bad_key, log_in, away], bad_key);
        check(&[], &[password, log_in, away], away);
        check(&[], &[Refusal::Auth(AuthFault::TooLate), password, away], Refusal::Auth(AuthFault::TooLate));
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
        let with_provider = [oidc(None), forward(&[]), basic("Staff")];
        let seen = any(&with_provider).challenges(OidcRefusal::LogInNeeded.into()).join(", ");
        assert!(seen.starts_with(basic_said) && seen.contains(", OpenID login="), "{seen}");
        check(&all, Refusal::Denied, &[]);
        check(&all, ApiKeyRefusal::Unclear.into(), &[]);
        check(&all, TokenRefusal::NotEnough.into(), &["Bearer error=\"insufficient_scope\""]);
        check(&[allow("10.0.0.0/8"), Step::ClientAuth(ClientAuthDemand::Require)], Refusal::Denied, &[]);
    }

    #[test]
    fn what_nobody_has_verified_is_hidden_as_well() {
        let check = |ways: &[Step], by: usize, expected: bool| {
            assert_eq!(any(ways).hides_credentials(by), expected, "{ways:?} {by}");
        };
        check(&[allow("10.0.0.0/8"), basic("Staff")], 0, true);
        check(&[allow("10.0.0.0/8"), jwt()], 0, false);
        // What the provider or the auth server says goes on where it has said it, and nowhere else.
        let said_by_others = [forward(&["Authorization"]), allow("10.0.0.0/8"), oidc(Some("Authorization"))];
        check(&said_by_others, 0, true);
        check(&said_by_others, 1, false);
        check(&said_by_others, 2, false);
        check(&[allow("10.0.0.0/8"), forward(&["X-User"]), oidc(None)], 0, false);
        let mut head = request("/", "example.com", &["X-API-Key: one", "Accept: a", "Cookie: b=c"]);
        let context = Context { client_ip: [10, 0, 0, 1].into(), ..context() };
        let any = any(&[forward(&["Co*"]), allow("10.0.0.0/8"), key()]);
        assert_eq!(any.open_way(&head, &context), Some(0));
        any.remove_unverified(2, &mut head);
        assert_eq!(crate::fixtures::lines(&head.fields), ["Accept: a", "Cookie: b=c"]);
        any.remove_unverified(0, &mut head);
        assert_eq!(crate::fixtures::lines(&head.fields), ["Accept: a"]);
    }

    #[test]
    fn who_asks_another_server_comes_last() {
        let any = any(&[forward(&[]), oidc(None), key(), allow("10.0.0.0/8"), basic("Staff")]);
        let names = any.ways.iter().map(|way| match way {
            Way::Access(_) => "allow",
            Way::ClientAuth => "client-auth",
            Way::BasicAuth(_) => "basic-auth",
            Way::Jwt(_) => "jwt",
            Way::ApiKey(_) => "api-key",
            Way::Oidc(_) => "oidc",
            Way::ForwardAuth(_) => "forward-auth",
        });
        assert_eq!(names.collect::<Vec<_>>(), ["api-key", "allow", "basic-auth", "oidc", "forward-auth"]);
    }
}
