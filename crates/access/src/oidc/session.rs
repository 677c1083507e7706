//! A session: who has logged in, until when, and what it is refreshed with. It lies in cookies of the browser, sealed,
//! and nowhere else.

use super::ProviderId;
use super::answer::TokenAnswer;
use super::id_token::IdToken;
use super::parts::{digest_of, put, take_array, take_number, take_text};
use super::revoked::{Revocation, Revoked};
use super::user_info::missing_of;
use crate::claims::Claims;
use crate::json::Value;
use crate::jws::TokenFault;
use std::time::Duration;

const VERSION: u8 = 2;
/// A token is refreshed that long before it ends, or a tenth of its life where that is shorter.
const REFRESH_AHEAD_SECONDS: u64 = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Of the log-in, the same after each refresh.
    pub id: [u8; 16],
    /// In seconds of Unix time, as all times here.
    pub began: u64,
    pub ends: u64,
    /// When it is refreshed, if it can be.
    pub refresh_at: Option<u64>,
    pub id_token: IdToken,
    /// An object of claims that the provider has said beside the token. Empty where there are none.
    pub more_claims: Box<str>,
    /// Empty where there is none.
    pub refresh_token: Box<str>,
    /// Kept only where an upstream gets it; else empty.
    pub access_token: Box<str>,
}

impl Session {
    /// Of a log-in that has just come to its end.
    pub fn begin(id: [u8; 16], life: Duration, id_token: IdToken, answer: TokenAnswer, keeps_access: bool, now: u64) -> Session {
        Session {
            id,
            began: now,
            ends: now + life.as_secs(),
            refresh_at: refresh_at(&answer, now),
            id_token,
            more_claims: Box::default(),
            refresh_token: answer.refresh_token.unwrap_or_default(),
            access_token: if keeps_access { answer.access_token } else { Box::default() },
        }
    }

    /// With what the provider says beside the ID token.
    pub fn with_claims(self, more_claims: Box<str>) -> Session {
        Session { more_claims, ..self }
    }

    /// All that the provider has said of somebody.
    pub fn claims(&self) -> Result<Claims, TokenFault> {
        self.id_token.claims_and(&self.more_claims)
    }

    /// After a refresh. What it does not bring stays.
    pub fn refreshed(&self, id_token: Option<IdToken>, answer: TokenAnswer, keeps_access: bool, now: u64) -> Session {
        let more_claims = match (&id_token, Value::parse_object(self.more_claims.as_bytes())) {
            // What the new token says itself counts.
            (Some(token), Ok(more)) => token.claims().map(|claims| missing_of(&claims, more)).unwrap_or_default(),
            (None, _) | (_, Err(_)) => self.more_claims.clone(),
        };
        let refresh_token = answer.refresh_token.clone().unwrap_or_else(|| self.refresh_token.clone());
        let answer = TokenAnswer { refresh_token: Some(refresh_token), ..answer };
        let session =
            Session::begin(self.id, Duration::ZERO, id_token.unwrap_or_else(|| self.id_token.clone()), answer, keeps_access, now);
        Session { began: self.began, ends: self.ends, more_claims, ..session }
    }

    /// By which all that have this very state of the session know its refresh: tabs, and other hosts.
    pub fn generation(&self) -> [u8; 16] {
        let id = format!("{:032x}", u128::from_be_bytes(self.id));
        digest_of([id.as_str(), &self.refresh_token])
    }

    pub fn is_over(&self, now: u64) -> bool {
        now >= self.ends
    }

    pub fn is_to_be_refreshed(&self, now: u64) -> bool {
        self.refresh_at.is_some_and(|at| now >= at)
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2048);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.id);
        for number in [self.began, self.ends, self.refresh_at.unwrap_or_default()] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        self.id_token.write(&mut bytes);
        put(&mut bytes, self.more_claims.as_bytes());
        put(&mut bytes, self.refresh_token.as_bytes());
        put(&mut bytes, self.access_token.as_bytes());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<Session> {
        let mut rest = bytes;
        let [version] = take_array(&mut rest)?;
        if version != VERSION {
            return None;
        }
        let session = Session {
            id: take_array(&mut rest)?,
            began: take_number(&mut rest)?,
            ends: take_number(&mut rest)?,
            refresh_at: take_number(&mut rest).map(|at| Some(at).filter(|at| *at > 0))?,
            id_token: IdToken::read(&mut rest)?,
            more_claims: take_text(&mut rest)?,
            refresh_token: take_text(&mut rest)?,
            access_token: take_text(&mut rest)?,
        };
        rest.is_empty().then_some(session)
    }
}

/// `None`: there is nothing to refresh it with, or nothing that says when.
fn refresh_at(answer: &TokenAnswer, now: u64) -> Option<u64> {
    let life = answer.expires_in.filter(|_| answer.refresh_token.is_some())?;
    // A provider that says 0 is not asked for each request.
    let life = life.max(1);
    Some(now + life - REFRESH_AHEAD_SECONDS.min(life / 10))
}

/// By what a session may be revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionMarks {
    own: [u8; 16],
    subject: Option<[u8; 16]>,
    session: Option<[u8; 16]>,
    began: u64,
}

impl SessionMarks {
    pub fn of(provider: &ProviderId, session: &Session, claims: &Claims) -> SessionMarks {
        let text = |name: &str| claims.claim(name).and_then(Value::text);
        SessionMarks {
            own: session.id,
            subject: text("sub").map(|subject| Revocation::mark_of_subject(provider, &subject)),
            session: text("sid").map(|session| Revocation::mark_of_session(provider, &session)),
            began: session.began,
        }
    }

    pub fn are_in(&self, revoked: &Revoked) -> bool {
        let has = |mark: &[u8; 16]| revoked.has(mark, self.began);
        !revoked.is_empty() && (has(&self.own) || self.subject.iter().chain(&self.session).any(has))
    }
}

#[cfg(test)]
mod tests {
    use super::{Session, SessionMarks};
    use crate::claims::Claims;
    use crate::json::Value;
    use crate::oidc::{IdToken, Revocation, Revoked, TokenAnswer};
    use std::time::Duration;

    const NOW: u64 = 1_800_000_000;

    fn answer(refresh: Option<&str>, expires_in: Option<u64>) -> TokenAnswer {
        TokenAnswer { id_token: None, access_token: "access".into(), refresh_token: refresh.map(Into::into), expires_in }
    }

    fn id_token(text: &[u8]) -> IdToken {
        let mut written = Vec::new();
        for part in [&b"{}"[..], text, b"signature"] {
            crate::oidc::parts::put(&mut written, part);
        }
        IdToken::read(&mut &written[..]).expect("as written")
    }

    fn session() -> Session {
        let token = id_token(br#"{"sub":"alice","sid":"s"}"#);
        Session::begin([7; 16], Duration::from_hours(8), token, answer(Some("r1"), Some(300)), false, NOW)
    }

    #[test]
    fn a_session_comes_back_as_it_went() {
        let more = session().with_claims(r#"{"groups":["staff"]}"#.into());
        for session in [session(), Session { refresh_at: None, access_token: "a".into(), ..session() }, more] {
            let bytes = session.write();
            assert_eq!(Session::read(&bytes), Some(session));
            for cut in 0..bytes.len() {
                assert_eq!(Session::read(&bytes[..cut]), None);
            }
            assert_eq!(Session::read(&[&bytes[..], b"x"].concat()), None);
        }
    }

    #[test]
    fn a_refresh_is_due_before_the_token_ends_and_lengthens_no_session() {
        let check = |refresh: Option<&str>, life: Option<u64>, expected: Option<u64>| {
            let session = Session::begin([7; 16], Duration::from_hours(8), session().id_token, answer(refresh, life), false, NOW);
            assert_eq!(session.refresh_at.map(|at| at - NOW), expected, "{refresh:?} {life:?}");
        };
        check(Some("r"), Some(300), Some(270));
        check(Some("r"), Some(3600), Some(3540));
        check(Some("r"), Some(2), Some(2));
        check(Some("r"), None, None);
        check(None, Some(300), None);
        let first = session();
        let second = first.refreshed(None, answer(Some("r2"), Some(300)), true, NOW + 280);
        assert_eq!((second.id, second.began, second.ends), (first.id, first.began, first.ends));
        assert_eq!((&*second.refresh_token, &*second.access_token), ("r2", "access"));
        assert_eq!(second.refresh_at, Some(NOW + 280 + 270));
        assert_ne!(first.generation(), second.generation());
        let third = second.refreshed(Some(id_token(b"{}")), answer(None, Some(300)), true, NOW + 600);
        assert_eq!(&*third.refresh_token, "r2", "a provider that does not rotate");
        assert_eq!(third.refresh_at, Some(NOW + 600 + 270));
        assert!(!first.is_over(NOW + 8 * 3600 - 1) && first.is_over(NOW + 8 * 3600));
    }

    #[test]
    fn claims_beside_the_token_are_claims_of_the_session_and_never_in_their_place() {
        let check = |session: &Session, expected: &[(&str, Option<&str>)]| {
            let claims = session.claims().expect("claims");
            for (name, value) in expected {
                assert_eq!(claims.claim(name).and_then(Value::text).as_deref(), *value, "{name}");
            }
        };
        let first = session();
        check(&first, &[("sub", Some("alice")), ("email", None)]);
        let first = first.with_claims(r#"{"email":"a@b","team":"red"}"#.into());
        check(&first, &[("sub", Some("alice")), ("email", Some("a@b")), ("team", Some("red"))]);
        // A refresh after which nobody has said more, and one whose token says a part of it itself.
        let second = first.refreshed(None, answer(Some("r2"), Some(300)), true, NOW);
        check(&second, &[("email", Some("a@b")), ("team", Some("red"))]);
        let token = id_token(br#"{"sub":"alice","email":"new@b"} "#);
        let third = second.refreshed(Some(token), answer(Some("r3"), Some(300)), true, NOW);
        check(&third, &[("sub", Some("alice")), ("email", Some("new@b")), ("team", Some("red"))]);
    }

    #[test]
    fn a_session_is_over_by_its_own_name_its_providers_and_its_subjects() {
        let (session, provider) = (session(), [1; 16]);
        let claims = Claims::of_text(r#"{"sub":"alice","sid":"s"}"#).expect("claims");
        let marks = SessionMarks::of(&provider, &session, &claims);
        let check = |mark: [u8; 16], began_until: u64, expected: bool| {
            let mut revoked = Revoked::default();
            assert!(revoked.add(Revocation { mark, began_until, ends: u64::MAX }, NOW));
            assert_eq!(marks.are_in(&revoked), expected, "{mark:?}");
        };
        check([7; 16], u64::MAX, true);
        check([8; 16], u64::MAX, false);
        check(Revocation::mark_of_session(&provider, "s"), u64::MAX, true);
        check(Revocation::mark_of_session(&provider, "t"), u64::MAX, false);
        check(Revocation::mark_of_subject(&provider, "alice"), NOW, true);
        check(Revocation::mark_of_subject(&provider, "alice"), NOW - 1, false);
        check(Revocation::mark_of_subject(&[2; 16], "alice"), NOW, false);
        assert!(!marks.are_in(&Revoked::default()));
    }
}
