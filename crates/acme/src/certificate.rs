//! What a stored certificate says of itself: names, dates, serial number, and whether its key is the one beside it.
//! Nobody is trusted here: the chain came from a CA over HTTPS, or from storage that only we write.

use crate::subject::Subject;
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use std::fmt;
use tidegate_certs::CertificateDescription;
use tidegate_certs::facts::public_key_info;
use zeroize::Zeroizing;

/// A chain has three certificates or four; what is longer is no chain.
const CHAIN_MAX: usize = 16;

/// Chain and key in one PEM text, the leaf first and the key last: one value, so that storage cannot tear the pair
/// apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle(pub Zeroizing<String>);

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What is known of a certificate by reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// When the first certificate of the chain ends, which may be one of the CA's own.
    pub chain_not_after: Timestamp,
    /// Hexadecimal, lower case.
    pub serial: String,
    /// How the CA names it in renewal information (RFC 9773 section 4.1), its two parts joined by a dot.
    pub renewal_id: Option<String>,
    pub der: CertificateDer<'static>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// What is in the way of reading it.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("its private key is missing")]
    NoKey,
    /// The key is not the certificate's.
    #[error("its private key belongs to another certificate")]
    OtherKey,
    /// The certificate is good, but for other names.
    #[error("it is for {0}")]
    OtherNames(String),
}

impl Bundle {
    /// As a CA hands out the chain, and the key of the order.
    pub fn join(chain_pem: &str, key_pem: &str) -> Bundle {
        let mut text = Zeroizing::new(String::with_capacity(chain_pem.len() + key_pem.len() + 2));
        text.push_str(chain_pem.trim());
        text.push('\n');
        text.push_str(key_pem.trim());
        text.push('\n');
        Bundle(text)
    }

    /// Reads it whole; what comes back is a pair that fits and is for this name.
    pub fn leaf_for(&self, subject: &Subject) -> Result<Leaf, CertificateFault> {
        let chain = CertificateDer::pem_slice_iter(self.0.as_bytes()).take(CHAIN_MAX).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| CertificateFault::Unreadable(format!("the PEM text is damaged ({error})")))?;
        let Some(der) = chain.first().cloned() else {
            return Err(CertificateFault::Unreadable("there is no certificate in it".into()));
        };
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.0.as_bytes()).map_err(|_| CertificateFault::NoKey)?;
        let key = KeyPair::try_from(&key).map_err(|_| CertificateFault::NoKey)?;
        let mut leaf = read(&der, subject)?;
        if public_key_info(&der).as_deref() != Some(&*key.subject_public_key_info()) {
            return Err(CertificateFault::OtherKey);
        }
        let ends = chain.iter().filter_map(|der| Some(CertificateDescription::read(der).ok()?.not_after));
        leaf.chain_not_after = ends.min().unwrap_or(leaf.not_after);
        Ok(leaf)
    }
}

fn read(der: &CertificateDer<'static>, subject: &Subject) -> Result<Leaf, CertificateFault> {
    let read = CertificateDescription::read(der).map_err(CertificateFault::Unreadable)?;
    let names: Vec<String> = read.names.iter().map(ToString::to_string).collect();
    if !names.contains(&subject.to_string()) {
        let listed = names.into_iter().take(3).collect::<Vec<_>>().join(", ");
        return Err(CertificateFault::OtherNames(if listed.is_empty() { "no name at all".into() } else { listed }));
    }
    Ok(Leaf {
        not_before: read.not_before,
        not_after: read.not_after,
        chain_not_after: read.not_after,
        serial: read.serial,
        renewal_id: read.renewal_id,
        der: der.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Bundle, CertificateFault};
    use crate::subject::Subject;
    use rcgen::{CertificateParams, KeyPair};

    #[test]
    fn a_pair_that_fits_is_read_and_any_other_is_named() {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["a.example".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        let (key, other) = (key.serialize_pem(), KeyPair::generate().unwrap().serialize_pem());
        let check = |chain: &str, key: &str, name: &str, expected: Option<CertificateFault>| {
            let result = Bundle::join(chain, key).leaf_for(&Subject::parse(name).unwrap());
            assert_eq!(result.err(), expected, "{name}");
        };
        check(&certificate, &key, "a.example", None);
        check(&certificate, &other, "a.example", Some(CertificateFault::OtherKey));
        check(&certificate, "", "a.example", Some(CertificateFault::NoKey));
        check(&certificate, &key, "b.example", Some(CertificateFault::OtherNames("a.example".into())));
        check("", &key, "a.example", Some(CertificateFault::Unreadable("there is no certificate in it".into())));
        let torn = Bundle::join(&certificate[..certificate.len() / 2], &key);
        assert!(matches!(torn.leaf_for(&Subject::parse("a.example").unwrap()), Err(CertificateFault::Unreadable(_))));
    }
}
