//! An OpenID provider for tests: discovery, keys, log-in without a question, tokens with PKCE, refresh tokens that
//! rotate, and every way to be wrong that a test asks for. Whoever presents a refresh token a second time loses all
//! that came of that log-in, as providers that look for thieves do it (RFC 9700 section 4.14.2).

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub const CLIENT: &str = "tidegate";
pub const SECRET: &str = "s3cret & +%";
/// A connection whose client says nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the provider does, where a test wants it otherwise.
#[derive(Debug, Clone)]
pub struct ProviderBehaviour {
    /// Whom it logs in.
    pub subject: String,
    pub session: String,
    pub expires_in: u64,
    pub gives_refresh_tokens: bool,
    /// A refresh token that comes a second time ends all of its log-in.
    pub detects_reuse: bool,
    /// How long a refresh takes.
    pub refresh_takes: Duration,
    /// What the token endpoint does instead of an answer.
    pub token_fault: Option<TokenEndpointFault>,
    /// Claims of ID tokens that are set, or removed with `null`.
    pub claims: Vec<(String, Value)>,
    /// How far its clock is ahead.
    pub clock_ahead: i64,
    /// Instead of a code.
    pub authorization_error: Option<String>,
    /// Members of the token endpoint's answer that are set, or removed with `null`.
    pub token_members: Vec<(String, Value)>,
    /// What it says of somebody beside the ID token, with `sub` unless that is said here.
    pub user_info: Vec<(String, Value)>,
    /// What the userinfo endpoint answers instead, as head fields and body.
    pub user_info_fault: Option<(u16, String, String)>,
    /// What discovery says besides, or instead.
    pub metadata: Vec<(String, Value)>,
    /// How ID tokens are signed.
    pub signs: Signs,
    /// What discovery answers instead: all that is sent, from the status line on.
    pub discovery_fault: Option<String>,
    pub is_away: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenEndpointFault {
    Hangs,
    Status500,
    /// Far more than anybody should read.
    Endless,
    NoJson,
    /// All that is sent, from the status line on.
    Raw(&'static str),
}

/// How a token is signed by who has no key of the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// The provider itself.
    AsItSays,
    /// Nobody (`none`).
    Nobody,
    /// With the provider's public key taken for a secret.
    PublicKeyAsSecret,
    /// With a key of one's own that the token brings along.
    OwnKeyBesideIt,
    /// With a key of one's own under the name of the provider's.
    OwnKey,
    /// Under a name that leads elsewhere.
    KeyNamed(&'static str),
}

impl Default for ProviderBehaviour {
    fn default() -> ProviderBehaviour {
        ProviderBehaviour {
            subject: "alice".into(),
            session: "session-1".into(),
            expires_in: 300,
            gives_refresh_tokens: true,
            detects_reuse: true,
            refresh_takes: Duration::ZERO,
            token_fault: None,
            claims: Vec::new(),
            clock_ahead: 0,
            authorization_error: None,
            token_members: Vec::new(),
            user_info: Vec::new(),
            user_info_fault: None,
            metadata: Vec::new(),
            signs: Signs::AsItSays,
            discovery_fault: None,
            is_away: false,
        }
    }
}

/// Runs until it is dropped.
pub struct OpenIdProvider {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    key: EcdsaKeyPair,
    state: Mutex<State>,
    ends: AtomicBool,
}

#[derive(Default)]
struct State {
    behaviour: ProviderBehaviour,
    issuer: String,
    codes: HashMap<String, Code>,
    /// Refresh tokens, with their log-in, and whether they were used.
    refresh_tokens: HashMap<String, (u64, bool)>,
    /// Log-ins, with whether they still hold.
    families: HashMap<u64, Family>,
    next: u64,
    /// People whose access tokens are good.
    access_tokens: HashMap<String, u64>,
    requests: Vec<String>,
}

struct Code {
    challenge: String,
    nonce: String,
    redirect: String,
}

#[derive(Clone)]
struct Family {
    holds: bool,
    nonce: String,
    subject: String,
    session: String,
}

impl OpenIdProvider {
    pub fn start() -> OpenIdProvider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).expect("a key");
        let state = State { issuer: format!("http://{address}"), ..State::default() };
        let shared = Arc::new(Shared { key, state: Mutex::new(state), ends: AtomicBool::new(false) });
        let serving = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.ends.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let serving = serving.clone();
                std::thread::spawn(move || {
                    let _ = serving.serve(stream);
                });
            }
        });
        OpenIdProvider { address, shared }
    }

    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes what it does from now on.
    pub fn behave(&self, change: impl FnOnce(&mut ProviderBehaviour)) {
        change(&mut self.shared.state().behaviour);
    }

    /// How many requests it had whose line begins so, as `POST /token grant_type=refresh_token`.
    pub fn asked(&self, beginning: &str) -> usize {
        self.shared.state().requests.iter().filter(|request| request.starts_with(beginning)).count()
    }

    pub fn requests(&self) -> Vec<String> {
        self.shared.state().requests.clone()
    }

    /// Ends every log-in, as an administrator does.
    pub fn revoke_all(&self) {
        self.shared.state().families.values_mut().for_each(|family| family.holds = false);
    }

    /// What it sends to sites when a session ends (OpenID Connect Back-Channel Logout 1.0), with these claims set.
    pub fn logout_token(&self, claims: &[(&str, Value)]) -> String {
        let number = {
            let mut state = self.shared.state();
            state.next += 1;
            state.next
        };
        let mut whole = json!({
            "iss": self.issuer(), "aud": CLIENT, "iat": now(), "exp": now() + 120, "jti": format!("message-{number}"),
            "events": { "http://schemas.openid.net/event/backchannel-logout": {} },
        });
        for (name, value) in claims {
            set(&mut whole, name, value);
        }
        self.shared.sign(&whole, "logout+jwt")
    }
}

impl Drop for OpenIdProvider {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn set(whole: &mut Value, name: &str, value: &Value) {
    let object = whole.as_object_mut().expect("an object");
    if value.is_null() {
        object.remove(name);
    } else {
        object.insert(name.to_owned(), value.clone());
    }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64
}

/// What an answer is.
struct ProviderAnswer {
    status: u16,
    fields: String,
    body: String,
}

impl ProviderAnswer {
    fn json(status: u16, body: &Value) -> ProviderAnswer {
        ProviderAnswer {
            status,
            fields: "Content-Type: application/json\r\nCache-Control: no-store\r\n".into(),
            body: body.to_string(),
        }
    }

    fn redirect(location: &str) -> ProviderAnswer {
        ProviderAnswer { status: 302, fields: format!("Location: {location}\r\n"), body: String::new() }
    }

    fn plain(status: u16, body: &str) -> ProviderAnswer {
        ProviderAnswer { status, fields: "Content-Type: text/plain\r\n".into(), body: body.into() }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut writer = stream;
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let (mut length, mut authorization, mut field) = (0, String::new(), String::new());
        loop {
            field.clear();
            if reader.read_line(&mut field)? == 0 || field.trim().is_empty() {
                break;
            }
            let (name, value) = field.split_once(':').unwrap_or((&field, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "authorization" => value.trim().clone_into(&mut authorization),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let body = String::from_utf8_lossy(&body).into_owned();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        self.state().requests.push(format!("{method} {path} {query}{body}"));
        if self.state().behaviour.is_away {
            return Ok(());
        }
        let fault = self.state().behaviour.discovery_fault.clone();
        if let Some(fault) = fault.filter(|_| path == "/.well-known/openid-configuration") {
            if fault.is_empty() {
                std::thread::sleep(PATIENCE);
            }
            return writer.write_all(fault.as_bytes());
        }
        let Some(answer) = self.answer(&format!("{method} {path}"), &parameters(query), &parameters(&body), &authorization)
        else {
            return self.misbehave(&mut writer);
        };
        let ProviderAnswer { status, fields, body } = answer;
        write!(writer, "HTTP/1.1 {status} Any\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
    }

    /// Whatever the token endpoint does instead of an answer.
    fn misbehave(&self, writer: &mut TcpStream) -> std::io::Result<()> {
        let fault = self.state().behaviour.token_fault;
        match fault {
            Some(TokenEndpointFault::Hangs) => std::thread::sleep(PATIENCE),
            Some(TokenEndpointFault::Status500) => {
                write!(writer, "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops")?;
            }
            Some(TokenEndpointFault::NoJson) => {
                write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")?;
            }
            Some(TokenEndpointFault::Raw(text)) => writer.write_all(text.as_bytes())?,
            Some(TokenEndpointFault::Endless) => {
                write!(writer, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\nConnection: close\r\n\r\n")?;
                let piece = [b' '; 16 << 10];
                for _ in 0..6400 {
                    writer.write_all(&piece)?;
                }
            }
            None => {}
        }
        Ok(())
    }

    /// `None`: the token endpoint misbehaves.
    fn answer(
        &self,
        what: &str,
        query: &HashMap<String, String>,
        form: &HashMap<String, String>,
        authorization: &str,
    ) -> Option<ProviderAnswer> {
        Some(match what {
            "GET /.well-known/openid-configuration" => self.metadata(),
            "GET /keys" => {
                let point = self.key.public_key().as_ref();
                let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
                let key = json!({ "kty": "EC", "crv": "P-256", "kid": "one", "use": "sig", "alg": "ES256",
                    "x": part(1..33), "y": part(33..65) });
                ProviderAnswer::json(200, &json!({ "keys": [key] }))
            }
            "GET /authorize" => self.authorize(query),
            "POST /token" if self.state().behaviour.token_fault.is_some() => return None,
            "POST /token" => self.token(form, authorization),
            "GET /userinfo" => self.user_info(authorization),
            "GET /end" => ProviderAnswer::redirect(query.get("post_logout_redirect_uri").map_or("/", String::as_str)),
            _ => ProviderAnswer::plain(404, "nothing"),
        })
    }

    fn metadata(&self) -> ProviderAnswer {
        let state = self.state();
        let issuer = &state.issuer;
        let mut document = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "end_session_endpoint": format!("{issuer}/end"),
            "userinfo_endpoint": format!("{issuer}/userinfo"),
            "authorization_response_iss_parameter_supported": true,
            "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        for (name, value) in &state.behaviour.metadata {
            set(&mut document, name, value);
        }
        ProviderAnswer::json(200, &document)
    }

    fn authorize(&self, query: &HashMap<String, String>) -> ProviderAnswer {
        let of = |name: &str| query.get(name).cloned().unwrap_or_default();
        let mut state = self.state();
        let (redirect, given) = (of("redirect_uri"), encoded(&of("state")));
        let issuer = encoded(&state.issuer);
        if of("client_id") != CLIENT || of("response_type") != "code" || of("code_challenge_method") != "S256" {
            return ProviderAnswer::plain(400, "not a request that this provider takes");
        }
        if let Some(error) = &state.behaviour.authorization_error {
            return ProviderAnswer::redirect(&format!("{redirect}?error={error}&state={given}&iss={issuer}"));
        }
        state.next += 1;
        let code = format!("code-{}", state.next);
        let flow = Code { challenge: of("code_challenge"), nonce: of("nonce"), redirect: redirect.clone() };
        state.codes.insert(code.clone(), flow);
        ProviderAnswer::redirect(&format!("{redirect}?code={code}&state={given}&iss={issuer}"))
    }

    fn token(&self, form: &HashMap<String, String>, authorization: &str) -> ProviderAnswer {
        let of = |name: &str| form.get(name).cloned().unwrap_or_default();
        let expected = STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)));
        if authorization != format!("Basic {expected}") && (of("client_id") != CLIENT || of("client_secret") != SECRET) {
            return ProviderAnswer::json(401, &json!({ "error": "invalid_client" }));
        }
        match of("grant_type").as_str() {
            "authorization_code" => self.redeem(&of("code"), &of("code_verifier"), &of("redirect_uri")),
            "refresh_token" => self.refresh(&of("refresh_token")),
            _ => ProviderAnswer::json(400, &json!({ "error": "unsupported_grant_type" })),
        }
    }

    fn redeem(&self, code: &str, verifier: &str, redirect: &str) -> ProviderAnswer {
        let mut state = self.state();
        let Some(code) = state.codes.remove(code) else { return ProviderAnswer::json(400, &json!({ "error": "invalid_grant" })) };
        let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        if challenge != code.challenge || redirect != code.redirect {
            return ProviderAnswer::json(400, &json!({ "error": "invalid_grant", "error_description": "PKCE or redirect_uri" }));
        }
        state.next += 1;
        let number = state.next;
        let ProviderBehaviour { subject, session, .. } = state.behaviour.clone();
        state.families.insert(number, Family { holds: true, nonce: code.nonce, subject, session });
        self.issue(&mut state, number)
    }

    fn refresh(&self, token: &str) -> ProviderAnswer {
        let takes = self.state().behaviour.refresh_takes;
        std::thread::sleep(takes);
        let mut state = self.state();
        let refused = ProviderAnswer::json(400, &json!({ "error": "invalid_grant" }));
        let Some((family, is_used)) = state.refresh_tokens.get(token).copied() else { return refused };
        if is_used {
            if state.behaviour.detects_reuse {
                state.families.entry(family).and_modify(|family| family.holds = false);
            }
            return refused;
        }
        if !state.families.get(&family).is_some_and(|family| family.holds) {
            return refused;
        }
        state.refresh_tokens.insert(token.to_owned(), (family, true));
        self.issue(&mut state, family)
    }

    fn issue(&self, state: &mut State, number: u64) -> ProviderAnswer {
        let family = state.families[&number].clone();
        let behaviour = state.behaviour.clone();
        let at = now() + behaviour.clock_ahead;
        let mut claims = json!({
            "iss": state.issuer, "aud": CLIENT, "sub": family.subject, "sid": family.session, "nonce": family.nonce,
            "iat": at, "nbf": at, "exp": at + 300, "email": format!("{}@example.com", family.subject), "groups": ["staff", "users"],
        });
        state.next += 1;
        let access_token = format!("access-{}", state.next);
        state.access_tokens.insert(access_token.clone(), number);
        let digest = digest::digest(&digest::SHA256, access_token.as_bytes());
        set(&mut claims, "at_hash", &json!(URL_SAFE_NO_PAD.encode(&digest.as_ref()[..16])));
        for (name, value) in &behaviour.claims {
            set(&mut claims, name, value);
        }
        let mut body = json!({
            "token_type": "Bearer", "expires_in": behaviour.expires_in,
            "access_token": access_token, "id_token": self.sign_as(behaviour.signs, &claims),
        });
        if behaviour.gives_refresh_tokens {
            let token = format!("refresh-{}", state.next);
            state.refresh_tokens.insert(token.clone(), (number, false));
            set(&mut body, "refresh_token", &json!(token));
        }
        for (name, value) in &behaviour.token_members {
            set(&mut body, name, value);
        }
        ProviderAnswer::json(200, &body)
    }

    fn user_info(&self, authorization: &str) -> ProviderAnswer {
        let state = self.state();
        if let Some((status, fields, body)) = state.behaviour.user_info_fault.clone() {
            return ProviderAnswer { status, fields, body };
        }
        let family = authorization.strip_prefix("Bearer ").and_then(|token| state.access_tokens.get(token));
        let Some(family) = family.and_then(|number| state.families.get(number)) else {
            return ProviderAnswer::json(401, &json!({ "error": "invalid_token" }));
        };
        let mut claims = json!({ "sub": family.subject });
        for (name, value) in &state.behaviour.user_info {
            set(&mut claims, name, value);
        }
        ProviderAnswer::json(200, &claims)
    }

    fn sign_as(&self, signs: Signs, claims: &Value) -> String {
        let own = || {
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).expect("a key");
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref()).expect("a key")
        };
        let with = |header: Value, sign: &dyn Fn(&[u8]) -> Vec<u8>| {
            let parts = [header.to_string(), claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part));
            let message = parts.join(".");
            format!("{message}.{}", URL_SAFE_NO_PAD.encode(sign(message.as_bytes())))
        };
        let by =
            |key: &EcdsaKeyPair, message: &[u8]| key.sign(&SystemRandom::new(), message).expect("a signature").as_ref().to_vec();
        match signs {
            Signs::AsItSays => self.sign(claims, "JWT"),
            Signs::Nobody => with(json!({ "alg": "none", "kid": "one" }), &|_| Vec::new()),
            Signs::PublicKeyAsSecret => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.key.public_key().as_ref());
                with(json!({ "alg": "HS256", "kid": "one" }), &|message| hmac::sign(&key, message).as_ref().to_vec())
            }
            Signs::OwnKeyBesideIt => {
                let key = own();
                let point = key.public_key().as_ref().to_vec();
                let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
                let jwk = json!({ "kty": "EC", "crv": "P-256", "kid": "own", "x": part(1..33), "y": part(33..65) });
                with(json!({ "alg": "ES256", "kid": "own", "jwk": jwk, "jku": "http://127.0.0.1:1/keys" }), &|message| {
                    by(&key, message)
                })
            }
            Signs::OwnKey => {
                let key = own();
                with(json!({ "alg": "ES256", "kid": "one" }), &|message| by(&key, message))
            }
            Signs::KeyNamed(name) => with(json!({ "alg": "ES256", "kid": name }), &|message| by(&self.key, message)),
        }
    }

    fn sign(&self, claims: &Value, kind: &str) -> String {
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "ES256", "kid": "one", "typ": kind }).to_string());
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// As forms and queries are written.
pub fn parameters(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

pub fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |done, byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => done + &char::from(byte).to_string(),
        _ => done + &format!("%{byte:02X}"),
    })
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, behind @ ..] = rest {
        let hex = |at: usize| rest.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        (rest, ()) = match (first, hex(1), hex(2)) {
            (b'%', Some(high), Some(low)) => (&rest[3..], bytes.push((high * 16 + low) as u8)),
            (b'+', _, _) => (behind, bytes.push(b' ')),
            (byte, _, _) => (behind, bytes.push(*byte)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
