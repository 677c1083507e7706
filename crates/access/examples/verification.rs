//! What a worker spends on a token, in medians: the first sight of one (taken apart, verified, its claims read,
//! remembered) and every later one (looked up by its digest, its times looked at). Also what somebody can make it spend
//! at most: large keys, tokens without a `kid`, long ones. The keys and the tokens are made here.
//!
//! ```sh
//! cargo run --release -p tidegate-access --example verification
//! ```

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tidegate_access::{Claims, Expectation, Jws, KEYS_MAX, KeySet, KeySetOrigin, TokenFault, VerifiedTokens};

const TOKEN_BYTES_MAX: usize = 64 * 1024;
const ROUNDS: usize = 301;
const NOW: f64 = 1.0e9;

fn main() {
    println!("medians of {ROUNDS} rounds, in microseconds");
    for size in [200, 6_000] {
        let claims = claims_of(size);
        for issuer in [
            elliptic(&claims),
            elliptic_384(&claims),
            edwards(&claims),
            rsa(&claims, KeySize::Rsa2048),
            rsa(&claims, KeySize::Rsa4096),
        ] {
            let first = median(|| first_sight(&issuer.token, &issuer.keys, &mut VerifiedTokens::default()).map(drop));
            let mut tokens = VerifiedTokens::default();
            first_sight(&issuer.token, &issuer.keys, &mut tokens).expect("a good token");
            let second = median(|| second_sight(&issuer.token, &issuer.keys, &mut tokens));
            println!("{:8} {size:5} bytes of claims: first {:8.2}  second {:6.2}", issuer.name, micros(first), micros(second));
        }
    }
    let claims = claims_of(200);
    let crowd = crowd(&claims);
    let named = median(|| first_sight(&crowd.token, &crowd.keys, &mut VerifiedTokens::default()).map(drop));
    println!("ES256, the last of {KEYS_MAX} keys: {:.2}", micros(named));
    let nameless = nameless(&claims);
    let refused = median(|| match first_sight(&nameless.token, &nameless.keys, &mut VerifiedTokens::default()) {
        Ok(_) => panic!("nobody has signed it"),
        Err(_) => Ok(()),
    });
    println!("RS256 without `kid`, as many keys of 4096 bits as are tried, all in vain: {:.2}", micros(refused));
    let set = crowd_document();
    let parsed =
        median(|| KeySet::parse(black_box(set.as_bytes()), KeySetOrigin::Address).map(drop).map_err(|_| TokenFault::Shape));
    println!("a set of {KEYS_MAX} keys, {} bytes, read beside the workers: {:.2}", set.len(), micros(parsed));
}

struct Issuer {
    name: &'static str,
    keys: KeySet,
    token: String,
}

fn claims_of(bytes: usize) -> String {
    let start = r#"{"iss":"https://idp.example.com","aud":"api","sub":"alice","exp":4000000000,"groups":["#;
    let groups: Vec<String> =
        (0..bytes.saturating_sub(start.len()) / 20).map(|number| format!("\"group-{number:011}\"")).collect();
    format!("{start}{}]}}", groups.join(","))
}

fn encoded(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn signed(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encoded(header.as_bytes()), encoded(claims.as_bytes()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", encoded(&signature))
}

fn set(jwks: &str) -> KeySet {
    KeySet::parse(format!("{{\"keys\":[{jwks}]}}").as_bytes(), KeySetOrigin::Address).expect("a good set")
}

fn curve_jwk(pair: &EcdsaKeyPair, curve: &str, id: &str) -> String {
    let point = &pair.public_key().as_ref()[1..];
    let (x, y) = point.split_at(point.len() / 2);
    format!(r#"{{"kty":"EC","crv":"{curve}","kid":"{id}","x":"{}","y":"{}"}}"#, encoded(x), encoded(y))
}

fn curve_signed(pair: &EcdsaKeyPair, header: &str, claims: &str) -> String {
    signed(header, claims, |message| pair.sign(&SystemRandom::new(), message).expect("a signature").as_ref().to_vec())
}

fn elliptic(claims: &str) -> Issuer {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let token = curve_signed(&pair, r#"{"alg":"ES256","kid":"k"}"#, claims);
    Issuer { name: "ES256", keys: set(&curve_jwk(&pair, "P-256", "k")), token }
}

fn elliptic_384(claims: &str) -> Issuer {
    let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key");
    let token = curve_signed(&pair, r#"{"alg":"ES384","kid":"k"}"#, claims);
    Issuer { name: "ES384", keys: set(&curve_jwk(&pair, "P-384", "k")), token }
}

fn edwards(claims: &str) -> Issuer {
    let pair = Ed25519KeyPair::generate().expect("a key");
    let token = signed(r#"{"alg":"EdDSA","kid":"k"}"#, claims, |message| pair.sign(message).as_ref().to_vec());
    let jwk = format!(r#"{{"kty":"OKP","crv":"Ed25519","kid":"k","x":"{}"}}"#, encoded(pair.public_key().as_ref()));
    Issuer { name: "EdDSA", keys: set(&jwk), token }
}

fn rsa_jwk(pair: &RsaKeyPair, id: &str) -> String {
    let public = pair.public_key();
    let (n, e) = (public.modulus().big_endian_without_leading_zero(), public.exponent().big_endian_without_leading_zero());
    let id = if id.is_empty() { String::new() } else { format!(r#""kid":"{id}","#) };
    format!(r#"{{"kty":"RSA",{id}"n":"{}","e":"{}"}}"#, encoded(n), encoded(e))
}

fn rsa_signed(pair: &RsaKeyPair, header: &str, claims: &str) -> String {
    signed(header, claims, |message| {
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).expect("a signature");
        signature
    })
}

fn rsa(claims: &str, size: KeySize) -> Issuer {
    let pair = RsaKeyPair::generate(size).expect("a key");
    let name = if pair.public_modulus_len() == 256 { "RS256" } else { "RSA-4096" };
    let token = rsa_signed(&pair, r#"{"alg":"RS256","kid":"k"}"#, claims);
    Issuer { name, keys: set(&rsa_jwk(&pair, "k")), token }
}

/// As many keys as a set may have, and a token of the last.
fn crowd(claims: &str) -> Issuer {
    let pairs: Vec<EcdsaKeyPair> =
        (0..KEYS_MAX).map(|_| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key")).collect();
    let jwks: Vec<String> =
        pairs.iter().enumerate().map(|(number, pair)| curve_jwk(pair, "P-256", &format!("key-{number}"))).collect();
    let last = pairs.last().expect("keys");
    let token = curve_signed(last, &format!(r#"{{"alg":"ES256","kid":"key-{}"}}"#, KEYS_MAX - 1), claims);
    Issuer { name: "ES256", keys: set(&jwks.join(",")), token }
}

/// Keys without names, and a token that none of them has signed.
fn nameless(claims: &str) -> Issuer {
    let pairs: Vec<RsaKeyPair> = (0..4).map(|_| RsaKeyPair::generate(KeySize::Rsa4096).expect("a key")).collect();
    let jwks: Vec<String> = pairs.iter().map(|pair| rsa_jwk(pair, "")).collect();
    let stranger = RsaKeyPair::generate(KeySize::Rsa4096).expect("a key");
    let token = rsa_signed(&stranger, r#"{"alg":"RS256"}"#, claims);
    Issuer { name: "RS256", keys: set(&jwks.join(",")), token }
}

/// A set that is as large as may be: keys with chains of certificates.
fn crowd_document() -> String {
    let pair = RsaKeyPair::generate(KeySize::Rsa4096).expect("a key");
    let jwk = |number: usize| {
        rsa_jwk(&pair, &format!("key-{number}")).replacen('{', &format!("{{\"x5c\":[\"{}\"],", "A".repeat(4_000)), 1)
    };
    format!("{{\"keys\":[{}]}}", (0..KEYS_MAX).map(jwk).collect::<Vec<_>>().join(","))
}

fn expectation() -> Expectation<'static> {
    Expectation { issuer: Some("https://idp.example.com"), audiences: &[], kind: None, needs_expiry: true, leeway: 60.0 }
}

fn first_sight(token: &str, keys: &KeySet, tokens: &mut VerifiedTokens) -> Result<Rc<Claims>, TokenFault> {
    let token = black_box(token.as_bytes());
    let digest = VerifiedTokens::digest(token);
    let jws = Jws::parse(token, TOKEN_BYTES_MAX)?;
    jws.verify(keys)?;
    let claims = Rc::new(jws.into_claims()?);
    tokens.add(digest, keys.digest, claims.clone());
    claims.check(&expectation(), NOW)?;
    Ok(claims)
}

fn second_sight(token: &str, keys: &KeySet, tokens: &mut VerifiedTokens) -> Result<(), TokenFault> {
    let digest = VerifiedTokens::digest(black_box(token.as_bytes()));
    let claims = tokens.get(&digest, &keys.digest).expect("a token that was seen before");
    claims.check(&expectation(), NOW)
}

fn median(mut work: impl FnMut() -> Result<(), TokenFault>) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let begin = Instant::now();
            black_box(work()).expect("what it is meant to do");
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
