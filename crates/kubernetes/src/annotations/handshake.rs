//! Which ciphers handshakes of a host may come to, by their names in OpenSSL.

use super::Annotations;
use crate::manner::Manner;
use tidegate_model::CipherName;

/// Ciphers of TLS 1.3, which nginx does not switch off.
const ALWAYS: [CipherName; 3] =
    [CipherName::Tls13Aes128GcmSha256, CipherName::Tls13Aes256GcmSha384, CipherName::Tls13Chacha20Poly1305Sha256];

const NAMES: [(&str, CipherName); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherName::EcdheEcdsaAes128GcmSha256),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherName::EcdheEcdsaAes256GcmSha384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherName::EcdheEcdsaChacha20Poly1305Sha256),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherName::EcdheRsaAes128GcmSha256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherName::EcdheRsaAes256GcmSha384),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherName::EcdheRsaChacha20Poly1305Sha256),
];

pub(super) fn read(annotations: &mut Annotations<'_>, manner: &mut Manner) {
    let Some(written) = annotations.text("ssl-ciphers") else { return };
    let named = |word: &str| NAMES.iter().find(|(name, _)| *name == word).map(|(_, cipher)| *cipher);
    let mut ciphers: Vec<CipherName> = Vec::new();
    for cipher in written.split([':', ',', ' ']).filter_map(named) {
        if !ciphers.contains(&cipher) {
            ciphers.push(cipher);
        }
    }
    if ciphers.is_empty() {
        annotations
            .leave_out("ssl-ciphers", "none of these is a cipher that is safe, by its name in OpenSSL; there are the usual ones");
    } else {
        manner.ciphers = ALWAYS.into_iter().chain(ciphers).collect();
    }
}
