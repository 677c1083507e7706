//! `oidc`: what a request says of a log-in, and what the upstream hears of it: cookies, which requests may begin a
//! log-in, claims and tokens as fields, the addresses that are the log-in's own. What cookies hold is in `access`; who
//! asks the provider, and waits, is `proxy`.

mod page;

pub use page::PAGE_FIELDS;

use crate::context::Scratch;
use crate::jwt::tell_claims;
use crate::refusal::{OidcRefusal, Refusal};
use crate::template::{Target, encode};
use std::borrow::Cow;
use tidegate_access::oidc::{CHUNKS_MAX, CookieNames, ProviderId, Realm, Session, join_chunks, provider_id};
use tidegate_access::{Claims, Identity, is_met};
use tidegate_model::{Oidc, OidcProvider, Step, log_ins};
use tidegate_wire::Fields;
use tidegate_wire::head::{HeaderId, Method, RequestHead};

#[derive(Debug, PartialEq, Eq)]
pub struct CompiledOidc {
    pub settings: Oidc,
    /// Of the provider, and of all that makes a session another one.
    pub id: ProviderId,
    pub names: CookieNames,
    /// Of `WWW-Authenticate`, for who is not sent to the provider.
    pub challenge: Box<str>,
    /// What it is called in an address.
    called: Box<str>,
    /// Each of the other providers, as a log-in of its own.
    others: Box<[CompiledOidc]>,
}

impl CompiledOidc {
    pub fn new(oidc: &Oidc) -> CompiledOidc {
        let id = id_of(oidc);
        let alone = |provider: &OidcProvider| Oidc { provider: provider.clone(), others: Vec::new(), ..oidc.clone() };
        let others: Box<[CompiledOidc]> = oidc.others.iter().map(|provider| CompiledOidc::new(&alone(provider))).collect();
        let hex = |id: &ProviderId| format!("{:032x}", u128::from_be_bytes(*id));
        // One that asks with which provider is another one than each of these.
        let ids: Vec<String> = std::iter::once(&id).chain(others.iter().map(|other| &other.id)).map(hex).collect();
        let whole = if others.is_empty() { ids[0].clone() } else { hex(&provider_id(ids.iter().map(String::as_str))) };
        let called = &whole[..8];
        CompiledOidc {
            names: CookieNames::new(&id, oidc.domain.as_deref()),
            settings: oidc.clone(),
            id,
            challenge: format!("OpenID login=\"{}?with={called}\"", Oidc::LOG_IN).into(),
            called: called.into(),
            others,
        }
    }

    /// All by which somebody may log in, each as a log-in of its own.
    pub fn ways(&self) -> impl Iterator<Item = &CompiledOidc> {
        std::iter::once(self).chain(&self.others)
    }

    /// Whether somebody is asked by which one.
    pub fn has_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Where what is sealed for a request is good: at its host, or in the domain whose sites have one log-in. A host
    /// beyond that has one of its own.
    pub fn realm<'r>(&'r self, host: &'r [u8]) -> Realm<'r> {
        let domain = self.settings.domain.as_deref().map(str::as_bytes).filter(|domain| is_within(host, domain));
        Realm { provider: &self.id, host: domain.unwrap_or(host) }
    }

    /// The value of `WWW-Authenticate` beside a refusal, where that is one of its own.
    pub fn challenge_of(&self, refusal: Refusal) -> Option<Cow<'_, str>> {
        matches!(refusal, Refusal::Oidc(OidcRefusal::LogInNeeded)).then(|| Cow::Borrowed(&*self.challenge))
    }

    /// What its log-in is called in an address.
    pub fn is_called(&self, name: &[u8]) -> bool {
        *self.called.as_bytes() == *name
    }

    /// Whether the claims are what is required of them.
    pub fn is_enough(&self, claims: &Claims) -> bool {
        self.settings.requirements.iter().all(|requirement| is_met(requirement, claims))
    }

    /// The user's name: the claim that the site has chosen, or else the subject, which each token has. Whoever is not
    /// named in a way that goes into a header field is known by the session.
    pub fn user(&self, claims: &Claims, session: &Session) -> String {
        let said = |claim: &str| {
            let mut name = Vec::new();
            claims.write(claim, &mut name);
            String::from_utf8(name).ok().filter(|name| Identity::is_name(name))
        };
        let by_session = || format!("session:{:032x}", u128::from_be_bytes(session.id));
        said(&self.settings.user).or_else(|| said(Oidc::USER)).unwrap_or_else(by_session)
    }

    /// Tells the upstream who has logged in, as far as it is asked for.
    pub fn apply(&self, head: &mut RequestHead, session: &Session, claims: &Claims, scratch: &mut Scratch) {
        tell_claims(&self.settings.headers, head, claims, scratch);
        let tokens = [
            (&self.settings.access_token, &*session.access_token),
            (&self.settings.id_token, if self.settings.id_token.is_some() { &session.id_token.text() } else { "" }),
        ];
        for (name, token) in tokens {
            let Some(name) = name.as_ref() else { continue };
            head.fields.remove_spellings(name.as_bytes());
            if token.is_empty() {
                continue;
            }
            scratch.rendered.clear();
            if name.eq_ignore_ascii_case("authorization") {
                scratch.rendered.extend_from_slice(b"Bearer ");
            }
            encode(Target::HeaderValue, token.as_bytes(), &mut scratch.rendered);
            head.fields.push(name.as_bytes(), scratch.rendered.trim_ascii());
        }
    }

    /// Whether it tells the upstream something under that name.
    pub fn writes(&self, name: &str) -> bool {
        self.settings.told().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// What nobody says of himself, where no log-in was needed.
    pub fn tell_nobody(&self, head: &mut RequestHead) {
        for name in self.settings.told() {
            head.fields.remove_spellings(name.as_bytes());
        }
    }
}

/// All that makes a session another one: whose cookie is opened for whom.
fn id_of(oidc: &Oidc) -> ProviderId {
    let provider = &oidc.provider;
    let keeps = match (oidc.access_token.is_some(), oidc.asks_user_info) {
        (false, false) => "",
        (true, false) => "access",
        (false, true) => "userinfo",
        (true, true) => "access userinfo",
    };
    let mut parts = vec![&*provider.issuer, &provider.client, oidc.domain.as_deref().unwrap_or_default(), keeps];
    parts.extend(provider.scopes.iter().map(String::as_str));
    for (name, value) in &provider.parameters {
        parts.extend([name.as_str(), value]);
    }
    provider_id(parts)
}

/// The step that counts among those of a site and of one of its routes.
pub fn oidc_of<'s>(site_steps: &'s [Step], route_steps: &'s [Step]) -> Option<&'s Oidc> {
    log_ins(site_steps, route_steps).flat_map(Step::parts).find_map(|step| match step {
        Step::Oidc(Some(oidc)) => Some(&**oidc),
        _ => None,
    })
}

/// The host of a request in the one spelling that browsers' cookies are kept by.
pub fn cookie_host(head: &RequestHead) -> Cow<'_, [u8]> {
    let host = head.host();
    let host = host.strip_suffix(b".").unwrap_or(host);
    if host.iter().any(u8::is_ascii_uppercase) { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) }
}

/// Whether a host is the domain, or one of its hosts.
fn is_within(host: &[u8], domain: &[u8]) -> bool {
    host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with(b"."))
}

/// Whether somebody looks at a page, who can be sent to a provider and come back: no script's request, no prefetch, no
/// form that would be lost on the way. Expired pages whose scripts each began a log-in have filled whole cookie jars.
pub fn is_navigation(head: &RequestHead, is_upgrade: bool) -> bool {
    let field = |name: &'static [u8]| head.fields.all_named(name).next();
    if is_upgrade || !matches!(head.method, Method::Get | Method::Head) {
        return false;
    }
    if field(b"sec-purpose").is_some() || field(b"purpose").is_some_and(|value| value.eq_ignore_ascii_case(b"prefetch")) {
        return false;
    }
    if let Some(mode) = field(b"sec-fetch-mode") {
        return mode == b"navigate";
    }
    // A browser from before 2023, or one without TLS.
    let accept = head.fields.all_named(b"accept").any(|value| {
        value.split(|byte| *byte == b',').any(|one| one.trim_ascii().to_ascii_lowercase().starts_with(b"text/html"))
    });
    accept && field(b"x-requested-with").is_none()
}

/// The addresses that are the log-in's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OidcAddress {
    Callback,
    LogIn,
    LogOut,
    BackChannel,
}

/// All log-ins of a site, whichever route asks for them.
#[derive(Debug)]
pub struct OidcOfSite {
    all: Box<[CompiledOidc]>,
}

impl OidcOfSite {
    /// `None`: nobody of the site asks for one.
    pub fn of<'s>(steps: impl Iterator<Item = &'s Step>) -> Option<Box<OidcOfSite>> {
        let mut all: Vec<CompiledOidc> = Vec::new();
        for step in steps.flat_map(Step::parts) {
            let Step::Oidc(Some(oidc)) = step else { continue };
            // Of those that share sessions each has addresses of its own.
            let is_same = |known: &CompiledOidc, other: &CompiledOidc| {
                known.id == other.id && known.settings.callback == other.settings.callback
            };
            let compiled = CompiledOidc::new(oidc);
            for other in CompiledOidc::new(oidc).others {
                if !all.iter().any(|known| is_same(known, &other)) {
                    all.push(other);
                }
            }
            if !all.iter().any(|known| is_same(known, &compiled) && known.called == compiled.called) {
                all.push(compiled);
            }
        }
        (!all.is_empty()).then(|| Box::new(OidcOfSite { all: all.into() }))
    }

    pub fn all(&self) -> &[CompiledOidc] {
        &self.all
    }

    /// Which of the log-in's own addresses a path is.
    pub fn address(&self, path: &[u8]) -> Option<OidcAddress> {
        let is_one = |of: fn(&Oidc) -> &str| self.all.iter().any(|one| of(&one.settings).as_bytes() == path);
        if path == Oidc::LOG_IN.as_bytes() {
            Some(OidcAddress::LogIn)
        } else if path == Oidc::BACK_CHANNEL.as_bytes() {
            Some(OidcAddress::BackChannel)
        } else if is_one(|settings| &settings.logout) {
            Some(OidcAddress::LogOut)
        } else if is_one(Oidc::callback_path) {
            Some(OidcAddress::Callback)
        } else {
            None
        }
    }

    /// Takes the log-ins' cookies out of a request, so that no upstream sees them.
    pub fn take_cookies(&self, fields: &mut Fields) -> OidcCookies {
        let mut taken = OidcCookies::default();
        let is_ours = |name: &[u8]| name.starts_with(b"__") && self.all.iter().any(|one| one.names.has(name));
        let has_some = |value: &[u8]| value.split(|byte| *byte == b';').any(|pair| is_ours(split_pair(pair).0));
        if !fields.all(HeaderId::Cookie).any(has_some) {
            return taken;
        }
        let mut rest = Vec::new();
        for pair in fields.all(HeaderId::Cookie).flat_map(|value| value.split(|byte| *byte == b';')) {
            let (name, value) = split_pair(pair);
            if is_ours(name) {
                taken.0.push((name.into(), value.into()));
            } else if !pair.trim_ascii().is_empty() {
                if !rest.is_empty() {
                    rest.extend_from_slice(b"; ");
                }
                rest.extend_from_slice(pair.trim_ascii());
            }
        }
        fields.remove_id(HeaderId::Cookie);
        if !rest.is_empty() {
            fields.push_id(HeaderId::Cookie, &rest);
        }
        taken
    }
}

fn split_pair(pair: &[u8]) -> (&[u8], &[u8]) {
    let pair = pair.trim_ascii();
    match pair.iter().position(|byte| *byte == b'=') {
        Some(equals) => (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()),
        None => (pair, b""),
    }
}

/// What a request has brought of log-ins. The head that it came in bounds it.
#[derive(Debug, Default)]
pub struct OidcCookies(Vec<(CookieText, CookieText)>);

type CookieText = Box<[u8]>;

/// Cookies of one name that are looked at.
const SAME_NAME_MAX: usize = 4;

impl OidcCookies {
    /// Values of cookies of that name. There is one, unless somebody else has set another for a part of the site or for
    /// its domain.
    pub fn all<'c>(&'c self, name: &'c str) -> impl Iterator<Item = &'c [u8]> + 'c {
        self.0.iter().filter(|(known, _)| **known == *name.as_bytes()).map(|(_, value)| &**value).take(SAME_NAME_MAX)
    }

    /// Sealed sessions, put together: one, or several where cookies of a name come more than once. A site beside this
    /// one can put cookies of these names, for some path, in front of ours (RFC 6265 section 5.4, number 2), and must
    /// not log anybody out by that: the first of each make one, the second of each another.
    pub fn sessions<'c>(&'c self, names: &'c CookieNames) -> impl Iterator<Item = Vec<u8>> + 'c {
        let of_chunk = move |number| self.0.iter().filter(move |(name, _)| names.chunk_of(name) == Some(number));
        let most = (0..CHUNKS_MAX).map(|number| of_chunk(number).count()).max().unwrap_or(0);
        let joined = move |turn: usize| {
            // Where one has fewer, its last stands in all that follow.
            join_chunks(|number| of_chunk(number).take(turn + 1).last().map(|(_, value)| &**value))
        };
        (0..most.min(SAME_NAME_MAX)).filter_map(joined)
    }

    /// Up to which number there are pieces, whether they fit together or not.
    pub fn chunks(&self, names: &CookieNames) -> usize {
        self.0.iter().filter_map(|(name, _)| names.chunk_of(name)).max().map_or(0, |last| last + 1)
    }
}

/// A redirect that takes the place of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub struct OidcRedirect {
    pub status: u16,
    pub location: String,
}

/// What a request of a site with log-ins has of them.
#[derive(Debug, Default)]
pub struct OidcOfRequest {
    pub cookies: OidcCookies,
    /// Values of `Set-Cookie` of its answer, whatever that is.
    pub set_cookies: Vec<String>,
    /// Where the client is sent instead of being refused.
    pub redirect: Option<OidcRedirect>,
}

#[cfg(test)]
mod tests;
