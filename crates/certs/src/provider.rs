//! The cryptography that every TLS configuration here is built with: aws-lc-rs, always passed explicitly, in our order
//! of preference. Nothing else in the program may build a rustls configuration from the process default.

use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite as suites, kx_group};
use std::sync::{Arc, OnceLock};
use tidegate_model::CipherName;

/// The provider with the default order of cipher suites, made once.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(build(default_cipher_suites(cpu_has_aes())))).clone()
}

/// The provider with exactly these cipher suites in this order; the default order when there are none.
pub fn provider_with(ciphers: &[CipherName]) -> Arc<CryptoProvider> {
    if ciphers.is_empty() {
        return provider();
    }
    let mut chosen: Vec<SupportedCipherSuite> = Vec::with_capacity(ciphers.len());
    for cipher in ciphers {
        let suite = suite_of(*cipher);
        if !chosen.contains(&suite) {
            chosen.push(suite);
        }
    }
    Arc::new(build(chosen))
}

pub(crate) fn suite_of(cipher: CipherName) -> SupportedCipherSuite {
    match cipher {
        CipherName::Tls13Aes128GcmSha256 => suites::TLS13_AES_128_GCM_SHA256,
        CipherName::Tls13Aes256GcmSha384 => suites::TLS13_AES_256_GCM_SHA384,
        CipherName::Tls13Chacha20Poly1305Sha256 => suites::TLS13_CHACHA20_POLY1305_SHA256,
        CipherName::EcdheEcdsaAes128GcmSha256 => suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherName::EcdheEcdsaAes256GcmSha384 => suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherName::EcdheEcdsaChacha20Poly1305Sha256 => suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        CipherName::EcdheRsaAes128GcmSha256 => suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        CipherName::EcdheRsaAes256GcmSha384 => suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        CipherName::EcdheRsaChacha20Poly1305Sha256 => suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    }
}

fn build(cipher_suites: Vec<SupportedCipherSuite>) -> CryptoProvider {
    CryptoProvider {
        cipher_suites,
        // The hybrid first: what is recorded today must not be readable once large quantum computers exist.
        kx_groups: vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    }
}

/// AES first where the CPU computes it, ChaCha20 first where AES would be a table look-up in software. AES-256 comes
/// after AES-128: it takes 14 rounds instead of 10, against an attacker who could search 128 bits and does not exist.
fn default_cipher_suites(cpu_has_aes: bool) -> Vec<SupportedCipherSuite> {
    let aes_128 = [
        suites::TLS13_AES_128_GCM_SHA256,
        suites::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        suites::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ];
    let aes_256 = [
        suites::TLS13_AES_256_GCM_SHA384,
        suites::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        suites::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ];
    let chacha = [
        suites::TLS13_CHACHA20_POLY1305_SHA256,
        suites::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        suites::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    let in_order = if cpu_has_aes { [aes_128, aes_256, chacha] } else { [chacha, aes_128, aes_256] };
    in_order.concat()
}

/// AES and the carry-less multiplication that GCM needs, in hardware.
fn cpu_has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

#[cfg(test)]
mod tests {
    use super::{default_cipher_suites, provider, provider_with};
    use rustls::{CipherSuite, NamedGroup};
    use tidegate_model::CipherName;

    #[test]
    fn the_first_cipher_follows_the_cpu() {
        assert_eq!(default_cipher_suites(true)[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(default_cipher_suites(false)[0].suite(), CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
        assert_eq!(default_cipher_suites(true).len(), 9);
    }

    #[test]
    fn the_hybrid_key_exchange_comes_first() {
        assert_eq!(provider().kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    }

    #[test]
    fn written_ciphers_are_used_in_their_order_and_once() {
        let written = [
            CipherName::Tls13Chacha20Poly1305Sha256,
            CipherName::EcdheRsaAes256GcmSha384,
            CipherName::Tls13Chacha20Poly1305Sha256,
        ];
        let seen: Vec<_> = provider_with(&written).cipher_suites.iter().map(rustls::SupportedCipherSuite::suite).collect();
        assert_eq!(seen, [CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384]);
    }
}
