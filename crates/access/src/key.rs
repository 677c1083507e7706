//! A key that signatures are verified with, read from a JWK (RFC 7517, 7518, 8037). What a key may be used for is a
//! property of the key: a token only says which of it, and anything else is refused before a byte is verified. So a
//! public key is never taken for a secret, and `none` is no algorithm.

use crate::base64url;
use crate::json::Value;
use crate::roca;
use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm,
};
use aws_lc_rs::{digest, hmac};
use std::fmt;
use thiserror::Error;

/// Longer names are nobody's.
pub const KEY_ID_BYTES_MAX: usize = 512;
/// Of a shared secret; longer ones would be hashed first anyway.
const SECRET_BYTES_MAX: usize = 1024;
/// What aws-lc verifies with, in bits.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// How a token may be signed (RFC 7518 section 3.1, RFC 8037, RFC 9864).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
}

impl Algorithm {
    pub const NAMES: &'static [(&'static str, Algorithm)] = &[
        ("HS256", Algorithm::Hs256),
        ("HS384", Algorithm::Hs384),
        ("HS512", Algorithm::Hs512),
        ("RS256", Algorithm::Rs256),
        ("RS384", Algorithm::Rs384),
        ("RS512", Algorithm::Rs512),
        ("PS256", Algorithm::Ps256),
        ("PS384", Algorithm::Ps384),
        ("PS512", Algorithm::Ps512),
        ("ES256", Algorithm::Es256),
        ("ES384", Algorithm::Es384),
        ("ES512", Algorithm::Es512),
        ("EdDSA", Algorithm::EdDsa),
        // What RFC 9864 calls EdDSA with this curve.
        ("Ed25519", Algorithm::EdDsa),
    ];

    pub fn of_name(name: &str) -> Option<Algorithm> {
        Algorithm::NAMES.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// The function that its signatures are made over.
    pub fn digest(self) -> &'static digest::Algorithm {
        match self {
            Algorithm::Hs256 | Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => &digest::SHA256,
            Algorithm::Hs384 | Algorithm::Rs384 | Algorithm::Ps384 | Algorithm::Es384 => &digest::SHA384,
            // Ed25519 is defined with SHA-512 (RFC 8032 section 5.1).
            Algorithm::Hs512 | Algorithm::Rs512 | Algorithm::Ps512 | Algorithm::Es512 | Algorithm::EdDsa => &digest::SHA512,
        }
    }
}

/// Why a key is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyFault {
    #[error("is of a kind (`kty` or `crv`) that no token is verified with here")]
    UnknownKind,
    #[error("is for something else than verifying signatures (`use`, `key_ops` or `alg`)")]
    OtherPurpose,
    /// Who signs has shown everybody what with.
    #[error("has its private half beside it")]
    Private,
    #[error("is a shared secret, which an address on the network must not give away")]
    PublishedSecret,
    #[error("has members that cannot be read")]
    Malformed,
    #[error("is too short, too long, or can be factored")]
    Weak,
}

/// A key, and what may be verified with it.
#[derive(Clone)]
pub struct VerificationKey {
    pub id: Option<Box<str>>,
    material: Material,
    /// Where its owner has said which one.
    only: Option<Algorithm>,
}

/// A key by its kind, parsed once for all tokens.
#[derive(Clone)]
enum Material {
    /// With each of the ways in which a token may be signed by it.
    Rsa(Box<[(Algorithm, ParsedPublicKey)]>),
    /// A curve goes with one way of signing.
    Curve(Algorithm, ParsedPublicKey),
    Secret(Box<[(Algorithm, hmac::Key)]>),
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerificationKey").field("id", &self.id).field("only", &self.only).finish_non_exhaustive()
    }
}

impl VerificationKey {
    /// Reads a JWK.
    pub fn of_jwk(jwk: Value<'_>, takes_secrets: bool) -> Result<VerificationKey, KeyFault> {
        let kind = text(jwk, "kty")?.ok_or(KeyFault::Malformed)?;
        if !matches!(&*kind, "RSA" | "EC" | "OKP" | "oct") {
            return Err(KeyFault::UnknownKind);
        }
        is_for_verifying(jwk)?;
        let only = match text(jwk, "alg")? {
            None => None,
            Some(name) => Some(Algorithm::of_name(&name).ok_or(KeyFault::OtherPurpose)?),
        };
        let id = text(jwk, "kid")?;
        if id.as_ref().is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return Err(KeyFault::Malformed);
        }
        let is_private = jwk.member("d").is_some();
        let material = match &*kind {
            "RSA" | "EC" | "OKP" if is_private => return Err(KeyFault::Private),
            "RSA" => rsa(jwk, only)?,
            "EC" => elliptic(jwk)?,
            "OKP" => edwards(jwk)?,
            "oct" if !takes_secrets => return Err(KeyFault::PublishedSecret),
            "oct" => secret(jwk, only)?,
            _ => return Err(KeyFault::UnknownKind),
        };
        let key = VerificationKey { id: id.map(Into::into), material, only };
        // Such as `ES256` beside another curve.
        if only.is_some_and(|only| !key.takes(only)) { Err(KeyFault::OtherPurpose) } else { Ok(key) }
    }

    /// Whether tokens may be signed by this key in this way.
    pub fn takes(&self, algorithm: Algorithm) -> bool {
        let is_possible = match &self.material {
            Material::Rsa(ways) => ways.iter().any(|(way, _)| *way == algorithm),
            Material::Curve(way, _) => *way == algorithm,
            Material::Secret(ways) => ways.iter().any(|(way, _)| *way == algorithm),
        };
        is_possible && self.only.is_none_or(|only| only == algorithm)
    }

    pub fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.takes(algorithm) {
            return false;
        }
        match &self.material {
            Material::Rsa(ways) => ways.iter().any(|(way, key)| *way == algorithm && key.verify_sig(message, signature).is_ok()),
            Material::Curve(_, key) => key.verify_sig(message, signature).is_ok(),
            Material::Secret(ways) => {
                ways.iter().any(|(way, key)| *way == algorithm && hmac::verify(key, message, signature).is_ok())
            }
        }
    }
}

/// A member that is text where it stands; anything else in its place is a fault.
fn text<'t>(jwk: Value<'t>, name: &str) -> Result<Option<std::borrow::Cow<'t, str>>, KeyFault> {
    jwk.member(name).map(|value| value.text().ok_or(KeyFault::Malformed)).transpose()
}

fn bytes(jwk: Value<'_>, name: &str) -> Result<Vec<u8>, KeyFault> {
    let text = text(jwk, name)?.ok_or(KeyFault::Malformed)?;
    base64url::decode(text.as_bytes()).ok_or(KeyFault::Malformed)
}

/// RFC 7517 sections 4.2 and 4.3.
fn is_for_verifying(jwk: Value<'_>) -> Result<(), KeyFault> {
    if text(jwk, "use")?.is_some_and(|purpose| purpose != "sig") {
        return Err(KeyFault::OtherPurpose);
    }
    match jwk.member("key_ops") {
        None => Ok(()),
        Some(operations) if operations.elements().any(|one| one.text().as_deref() == Some("verify")) => Ok(()),
        Some(_) => Err(KeyFault::OtherPurpose),
    }
}

fn rsa(jwk: Value<'_>, only: Option<Algorithm>) -> Result<Material, KeyFault> {
    const WAYS: [(Algorithm, &RsaParameters); 6] = [
        (Algorithm::Rs256, &signature::RSA_PKCS1_2048_8192_SHA256),
        (Algorithm::Rs384, &signature::RSA_PKCS1_2048_8192_SHA384),
        (Algorithm::Rs512, &signature::RSA_PKCS1_2048_8192_SHA512),
        (Algorithm::Ps256, &signature::RSA_PSS_2048_8192_SHA256),
        (Algorithm::Ps384, &signature::RSA_PSS_2048_8192_SHA384),
        (Algorithm::Ps512, &signature::RSA_PSS_2048_8192_SHA512),
    ];
    let (modulus, exponent) = (bytes(jwk, "n")?, bytes(jwk, "e")?);
    // Some write a zero in front of each number, as certificates do.
    let (modulus, exponent) = (without_zeros(&modulus), without_zeros(&exponent));
    let bits = modulus.len() * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros() as usize);
    let is_exponent_sound = exponent.last().is_some_and(|byte| byte % 2 == 1) && exponent != [1] && exponent.len() <= 4;
    if !MODULUS_BITS.contains(&bits) || !is_exponent_sound || roca::is_weak(modulus) {
        return Err(KeyFault::Weak);
    }
    let components = RsaPublicKeyComponents { n: modulus, e: exponent };
    let ways = WAYS.iter().filter(|(algorithm, _)| only.is_none_or(|only| only == *algorithm));
    let parsed = ways.map(|(algorithm, parameters)| Ok((*algorithm, components.to_parsed_public_key(parameters)?)));
    let parsed: Result<Box<[_]>, aws_lc_rs::error::KeyRejected> = parsed.collect();
    parsed.map(Material::Rsa).map_err(|_| KeyFault::Malformed)
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

fn elliptic(jwk: Value<'_>) -> Result<Material, KeyFault> {
    let curve = text(jwk, "crv")?.ok_or(KeyFault::Malformed)?;
    let (algorithm, parameters, length): (_, &'static EcdsaVerificationAlgorithm, _) = match &*curve {
        "P-256" => (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED, 32),
        "P-384" => (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED, 48),
        "P-521" => (Algorithm::Es512, &signature::ECDSA_P521_SHA512_FIXED, 66),
        _ => return Err(KeyFault::UnknownKind),
    };
    // RFC 7518 section 6.2.1.2: the full size of a coordinate, zeros in front included.
    let mut point = vec![4];
    for coordinate in ["x", "y"] {
        let value = bytes(jwk, coordinate)?;
        if value.len() != length {
            return Err(KeyFault::Malformed);
        }
        point.extend_from_slice(&value);
    }
    public(algorithm, parameters, &point)
}

fn edwards(jwk: Value<'_>) -> Result<Material, KeyFault> {
    if text(jwk, "crv")?.as_deref() != Some("Ed25519") {
        return Err(KeyFault::UnknownKind);
    }
    let point = bytes(jwk, "x")?;
    if point.len() != 32 {
        return Err(KeyFault::Malformed);
    }
    public(Algorithm::EdDsa, &signature::ED25519, &point)
}

/// A point that is on its curve.
fn public(algorithm: Algorithm, parameters: &'static dyn VerificationAlgorithm, point: &[u8]) -> Result<Material, KeyFault> {
    let key = ParsedPublicKey::new(parameters, point).map_err(|_| KeyFault::Malformed)?;
    Ok(Material::Curve(algorithm, key))
}

fn secret(jwk: Value<'_>, only: Option<Algorithm>) -> Result<Material, KeyFault> {
    let ways = [
        (Algorithm::Hs256, hmac::HMAC_SHA256, digest::SHA256_OUTPUT_LEN),
        (Algorithm::Hs384, hmac::HMAC_SHA384, digest::SHA384_OUTPUT_LEN),
        (Algorithm::Hs512, hmac::HMAC_SHA512, digest::SHA512_OUTPUT_LEN),
    ];
    let secret = bytes(jwk, "k")?;
    if secret.len() > SECRET_BYTES_MAX {
        return Err(KeyFault::Weak);
    }
    // RFC 7518 section 3.2: as long as the hash, at least.
    let ways = ways.iter().filter(|(algorithm, _, length)| secret.len() >= *length && only.is_none_or(|only| only == *algorithm));
    let keys: Box<[_]> = ways.map(|(algorithm, hash, _)| (*algorithm, hmac::Key::new(*hash, &secret))).collect();
    let has_way = |only: Algorithm| matches!(only, Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512);
    match (keys.is_empty(), only) {
        (false, _) => Ok(Material::Secret(keys)),
        (true, Some(only)) if !has_way(only) => Err(KeyFault::OtherPurpose),
        (true, _) => Err(KeyFault::Weak),
    }
}
