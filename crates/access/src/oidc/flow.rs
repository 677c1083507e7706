//! Log-ins that a browser has begun. What binds one to its browser is a secret in a cookie, which nonce and PKCE are
//! made of; where it goes on afterwards is in `state`, sealed. So a browser that has lost its cookie to that of another
//! tab still gets where it wanted to go, where it begins anew or finds itself logged in, and nobody is sent anywhere
//! else.

use super::parts::{put, take_array, take_number, take_text};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::time::Duration;

/// Log-ins that one browser has begun and not ended; the oldest is dropped.
pub const FLOWS_MAX: usize = 8;
/// For names, passwords and second factors.
pub const FLOW_LIFE: Duration = Duration::from_mins(10);
/// A longer address would not fit into that of the provider.
const TARGET_BYTES_MAX: usize = 2000;
const FLOW_BYTES: usize = 16 + 32 + 8;

/// One log-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub id: [u8; 16],
    /// Known to the browser's cookie alone, where it is sealed.
    pub secret: [u8; 32],
    /// In seconds of Unix time, as all times here.
    pub began: u64,
}

impl Flow {
    /// By which an ID token is known to be of this log-in (OpenID Connect Core section 3.1.2.1).
    pub fn nonce(&self) -> String {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"nonce");
        context.update(&self.secret);
        URL_SAFE_NO_PAD.encode(context.finish())
    }

    /// By which a code is known to be of this log-in (RFC 7636).
    pub fn verifier(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.secret)
    }

    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.verifier().as_bytes()))
    }
}

/// Hosts' clocks may be apart.
fn is_fresh(began: u64, now: u64) -> bool {
    now.abs_diff(began) <= FLOW_LIFE.as_secs()
}

/// Log-ins that one browser has begun, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flows(Vec<Flow>);

impl Flows {
    pub fn read(bytes: &[u8], now: u64) -> Option<Flows> {
        let (mut rest, mut flows) = (bytes, Vec::new());
        while !rest.is_empty() && flows.len() < FLOWS_MAX {
            let flow = Flow { id: take_array(&mut rest)?, secret: take_array(&mut rest)?, began: take_number(&mut rest)? };
            flows.push(flow);
        }
        flows.retain(|flow| is_fresh(flow.began, now));
        Some(Flows(flows))
    }

    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * FLOW_BYTES + 64);
        for flow in &self.0 {
            bytes.extend_from_slice(&flow.id);
            bytes.extend_from_slice(&flow.secret);
            bytes.extend_from_slice(&flow.began.to_be_bytes());
        }
        bytes
    }

    pub fn add(&mut self, flow: Flow) {
        if self.0.len() >= FLOWS_MAX {
            self.0.remove(0);
        }
        self.0.push(flow);
    }

    /// The log-in of that name, which is begun no more.
    pub fn take(&mut self, id: &[u8; 16]) -> Option<Flow> {
        let position = self.0.iter().position(|flow| flow.id == *id)?;
        Some(self.0.remove(position))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a provider gives back with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogInState {
    pub id: [u8; 16],
    pub began: u64,
    /// `https://app.example.com`: where the log-in began.
    pub origin: Box<str>,
    /// The address there, from its path on.
    pub target: Box<str>,
}

impl LogInState {
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48 + self.origin.len() + self.target.len());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.began.to_be_bytes());
        put(&mut bytes, self.origin.as_bytes());
        put(&mut bytes, self.target.as_bytes());
        bytes
    }

    pub fn read(bytes: &[u8]) -> Option<LogInState> {
        let mut rest = bytes;
        let state = LogInState {
            id: take_array(&mut rest)?,
            began: take_number(&mut rest)?,
            origin: take_text(&mut rest)?,
            target: take_text(&mut rest)?,
        };
        (rest.is_empty() && is_local(state.target.as_bytes())).then_some(state)
    }

    pub fn is_fresh(&self, now: u64) -> bool {
        is_fresh(self.began, now)
    }
}

/// Whether browsers take this address for one of the site that gives it: a path, and neither `//host` nor one of the
/// spellings that they read as that.
pub fn is_local(target: &[u8]) -> bool {
    let begins = matches!(target, [b'/'] | [b'/', b'!'..=b'.' | b'0'..=b'[' | b']'..=b'~', ..]);
    begins && target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\')
}

/// Where somebody goes on after a log-in that began at that address: there, or at the site's root where that is none.
pub fn return_target(path: &[u8], query: Option<&[u8]>) -> Box<str> {
    let mut target = path.to_vec();
    if let Some(query) = query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    if target.len() > TARGET_BYTES_MAX {
        target.truncate(path.len());
    }
    let is_fine = target.len() <= TARGET_BYTES_MAX && is_local(&target);
    let text = is_fine.then(|| String::from_utf8(target).ok()).flatten();
    text.map_or_else(|| "/".into(), String::into_boxed_str)
}

#[cfg(test)]
mod tests {
    use super::{FLOW_LIFE, FLOWS_MAX, Flow, Flows, LogInState, is_local, return_target};

    const NOW: u64 = 1_800_000_000;

    fn flow(number: u8, began: u64) -> Flow {
        Flow { id: [number; 16], secret: [number; 32], began }
    }

    #[test]
    fn eight_flows_are_held_and_each_is_taken_once() {
        let mut flows = Flows::default();
        for number in 0..50 {
            flows.add(flow(number, NOW));
        }
        let mut flows = Flows::read(&flows.write(), NOW).expect("as written");
        let held: Vec<u8> = (0..50).filter(|number| flows.clone().take(&[*number; 16]).is_some()).collect();
        assert_eq!(held, (50 - FLOWS_MAX as u8..50).collect::<Vec<_>>());
        assert!(flows.take(&[49; 16]).is_some());
        assert!(flows.take(&[49; 16]).is_none());
        assert!(flows.write().len() <= 8 * 56);
    }

    #[test]
    fn flows_end_by_their_time_whatever_hosts_clocks_say() {
        let mut flows = Flows::default();
        let life = FLOW_LIFE.as_secs();
        for (number, began) in [(1, NOW - life - 1), (2, NOW - life), (3, NOW), (4, NOW + life), (5, NOW + life + 1)] {
            flows.add(flow(number, began));
        }
        let flows = Flows::read(&flows.write(), NOW).expect("as written");
        let held: Vec<u8> = (1..=5).filter(|number| flows.clone().take(&[*number; 16]).is_some()).collect();
        assert_eq!(held, [2, 3, 4]);
        assert_eq!(Flows::read(&[1; 55], NOW), None);
        assert_eq!(Flows::read(&[], NOW), Some(Flows::default()));
    }

    #[test]
    fn nonce_and_challenge_do_not_tell_the_verifier() {
        let flow = flow(7, NOW);
        let (nonce, verifier, challenge) = (flow.nonce(), flow.verifier(), flow.challenge());
        assert!(nonce != verifier && challenge != verifier && nonce != challenge);
        assert_eq!((nonce.len(), verifier.len(), challenge.len()), (43, 43, 43));
        // RFC 7636 appendix B.
        let secret = crate::base64url::decode(b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk").expect("base64url");
        let flow = Flow { secret: secret.try_into().expect("32 bytes"), ..flow };
        assert_eq!(flow.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn state_comes_back_as_it_went() {
        let check = |target: &str, expected: bool| {
            let state = LogInState { id: [1; 16], began: NOW, origin: "https://a.example".into(), target: target.into() };
            assert_eq!(LogInState::read(&state.write()), expected.then_some(state), "{target}");
        };
        check("/", true);
        check("/a?b=c", true);
        check("//evil.example", false);
        check("https://evil.example", false);
    }

    #[test]
    fn addresses_stay_on_their_site() {
        let check = |path: &str, query: Option<&str>, expected: &str| {
            assert_eq!(&*return_target(path.as_bytes(), query.map(str::as_bytes)), expected, "{path} {query:?}");
        };
        check("/a/b", None, "/a/b");
        check("/", Some("a=b"), "/?a=b");
        check("/a%5Cb", None, "/a%5Cb");
        check("/.tidegate", None, "/.tidegate");
        for refused in ["//evil", "/\\evil", "\\\\evil", "evil", "", "*", "/\tevil", "/a\\b", "/a b", "/ä", "https://evil/"] {
            check(refused, None, "/");
            assert!(!is_local(refused.as_bytes()));
        }
        check("/a", Some(&"b".repeat(3000)), "/a");
        check(&format!("/{}", "a".repeat(3000)), None, "/");
    }
}
