//! The certificates of a run: an authority of its own and one certificate for `localhost`, both ECDSA P-256.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::net::Error;

/// The files that each participant finds in its folder.
pub const FILES: [&str; 4] = ["ca.pem", "cert.pem", "key.pem", "combined.pem"];

pub fn write(folder: &Path) -> Result<(), Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "tidegate-lab");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    leaf.distinguished_name.push(DnType::CommonName, "localhost");
    let certificate = leaf.signed_by(&key, &authority)?.pem();
    let key = key.serialize_pem();
    let texts = [authority.pem(), certificate.clone(), key.clone(), format!("{certificate}{key}")];
    for (name, text) in FILES.iter().zip(texts) {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_what_each_peer_needs() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(read("cert.pem").contains("BEGIN CERTIFICATE"));
        assert!(read("key.pem").contains("PRIVATE KEY"));
        assert_eq!(read("combined.pem"), read("cert.pem") + &read("key.pem"));
        assert_ne!(read("ca.pem"), read("cert.pem"));
    }
}
