//! Keys of certificates, and the request that a CA signs. A new key for every certificate: one that leaks is worth a
//! few weeks.

use crate::cause::{Blame, Cause};
use crate::subject::Subject;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize,
    SanType,
};
use tidegate_model::AcmeKeyType;
use zeroize::Zeroizing;

/// PKCS#8 PEM. RSA takes a second of a core, so it is made beside the runtime.
pub async fn generate(kind: AcmeKeyType) -> Result<Zeroizing<String>, Cause> {
    let generated = match kind {
        AcmeKeyType::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        AcmeKeyType::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
        AcmeKeyType::Rsa2048 => rsa(RsaKeySize::_2048).await?,
        AcmeKeyType::Rsa4096 => rsa(RsaKeySize::_4096).await?,
    };
    let key = generated.map_err(|error| failed(&error.to_string()))?;
    Ok(Zeroizing::new(key.serialize_pem()))
}

/// The certificate signing request, DER.
pub fn signing_request(subject: &Subject, key_pem: &str) -> Result<Vec<u8>, Cause> {
    let failed = |error: rcgen::Error| failed(&error.to_string());
    let key = KeyPair::from_pem(key_pem).map_err(failed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = match subject {
        Subject::Ip(ip) => SanType::IpAddress(*ip),
        Subject::Host(_) | Subject::Wildcard(_) => SanType::DnsName(subject.to_string().try_into().map_err(failed)?),
    };
    params.subject_alt_names = vec![name];
    Ok(params.serialize_request(&key).map_err(failed)?.der().to_vec())
}

async fn rsa(size: RsaKeySize) -> Result<Result<KeyPair, rcgen::Error>, Cause> {
    let made = tokio::task::spawn_blocking(move || KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)).await;
    made.map_err(|_| failed("making it was broken off"))
}

fn failed(problem: &str) -> Cause {
    Cause::new(
        Blame::Preflight,
        format!("the key of the certificate cannot be made: {problem}"),
        "choose another `key-type` in `acme`",
    )
}
