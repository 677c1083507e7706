//! Private keys in the forms in which other programs keep them, made into PKCS#8: PEM of three kinds, bare DER, and
//! JSON Web Keys (RFC 7517).

use crate::AccountKey;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;
use tidegate_certs::to_pem;
use zeroize::Zeroizing;

const CURVES: [&EcdsaSigningAlgorithm; 3] =
    [&ECDSA_P256_SHA256_FIXED_SIGNING, &ECDSA_P384_SHA384_FIXED_SIGNING, &ECDSA_P521_SHA512_FIXED_SIGNING];

/// `None` for a kind of key that no certificate here has.
pub fn to_pkcs8_pem(pem: &[u8]) -> Option<Zeroizing<String>> {
    let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
    let pkcs8 = match &der {
        PrivateKeyDer::Pkcs1(der) => rsa_to_pkcs8(rsa::KeyPair::from_der(der.secret_pkcs1_der()).ok()?)?,
        PrivateKeyDer::Sec1(der) => ecdsa_to_pkcs8(CURVES.into_iter().find_map(|curve| sec1(curve, der.secret_sec1_der()))?)?,
        PrivateKeyDer::Pkcs8(der) => {
            let der = der.secret_pkcs8_der();
            let is_known = rsa::KeyPair::from_pkcs8(der).is_ok()
                || CURVES.iter().any(|curve| EcdsaKeyPair::from_pkcs8(curve, der).is_ok())
                || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).is_ok();
            is_known.then(|| Zeroizing::new(der.to_vec()))?
        }
        _ => return None,
    };
    Some(Zeroizing::new(to_pem("PRIVATE KEY", &pkcs8)))
}

/// A key of an account as PEM.
pub fn account_key_of_pem(pem: &[u8]) -> Option<AccountKey> {
    match PrivateKeyDer::from_pem_slice(pem).ok()? {
        PrivateKeyDer::Pkcs1(_) => Some(AccountKey::Other("RSA")),
        PrivateKeyDer::Sec1(der) => account_key_of_der(der.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(der) => account_key_of_der(der.secret_pkcs8_der()),
        _ => None,
    }
}

/// A key of an account as DER of any of the three kinds.
pub fn account_key_of_der(der: &[u8]) -> Option<AccountKey> {
    let ecdsa = sec1(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
        .or_else(|| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok());
    if let Some(pair) = ecdsa {
        return ecdsa_to_pkcs8(pair).map(AccountKey::EcdsaP256);
    }
    if rsa::KeyPair::from_der(der).is_ok() || rsa::KeyPair::from_pkcs8(der).is_ok() {
        return Some(AccountKey::Other("RSA"));
    }
    let other_curve =
        |curve: &'static EcdsaSigningAlgorithm| sec1(curve, der).is_some() || EcdsaKeyPair::from_pkcs8(curve, der).is_ok();
    CURVES.into_iter().any(other_curve).then_some(AccountKey::Other("ECDSA on another curve than P-256"))
}

/// A key of an account as certbot writes it.
pub fn account_key_of_jwk(json: &[u8]) -> Option<AccountKey> {
    let jwk: Value = serde_json::from_slice(json).ok()?;
    let text = |name: &str| jwk.get(name).and_then(Value::as_str);
    let part = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok().map(Zeroizing::new);
    match (text("kty")?, text("crv")) {
        ("RSA", _) => Some(AccountKey::Other("RSA")),
        ("EC", Some("P-256")) => {
            let (x, y, d) = (part("x")?, part("y")?, part("d")?);
            // The uncompressed point of SEC 1 section 2.3.3.
            let point: Vec<u8> = std::iter::once(4).chain(x.iter().copied()).chain(y.iter().copied()).collect();
            let pair = EcdsaKeyPair::from_private_key_and_public_key(&ECDSA_P256_SHA256_FIXED_SIGNING, &d, &point).ok()?;
            ecdsa_to_pkcs8(pair).map(AccountKey::EcdsaP256)
        }
        ("EC", _) => Some(AccountKey::Other("ECDSA on another curve than P-256")),
        ("OKP", _) => Some(AccountKey::Other("Ed25519")),
        _ => None,
    }
}

fn sec1(curve: &'static EcdsaSigningAlgorithm, der: &[u8]) -> Option<EcdsaKeyPair> {
    EcdsaKeyPair::from_private_key_der(curve, der).ok()
}

fn ecdsa_to_pkcs8(pair: EcdsaKeyPair) -> Option<Zeroizing<Vec<u8>>> {
    pair.to_pkcs8v1().ok().map(|document| Zeroizing::new(document.as_ref().to_vec()))
}

fn rsa_to_pkcs8(pair: rsa::KeyPair) -> Option<Zeroizing<Vec<u8>>> {
    let document: Pkcs8V1Der<'static> = pair.as_der().ok()?;
    Some(Zeroizing::new(document.as_ref().to_vec()))
}
