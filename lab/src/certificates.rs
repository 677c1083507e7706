//! The certificates of a run: an authority of its own and one certificate for `localhost`, both ECDSA P-256; and
//! thousands of others, where those are what is measured.

use std::path::{Path, PathBuf};

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

/// `1.pem`, `2.pem`, … in a folder: each the certificate of [`name_of`] its number, that of an intermediate authority,
/// and the key.
pub fn write_many(folder: &Path, count: u32) -> Result<(), Error> {
    std::fs::create_dir_all(folder)?;
    let authority = |name: &str| -> Result<CertificateParams, Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, name);
        Ok(authority)
    };
    let root = CertifiedIssuer::self_signed(authority("tidegate-lab, of many")?, KeyPair::generate()?)?;
    let intermediate = CertifiedIssuer::signed_by(authority("tidegate-lab, of many, 1")?, KeyPair::generate()?, &root)?;
    std::fs::write(authority_of(folder), root.pem())?;
    let chain = intermediate.pem();
    for number in 1..=count {
        let key = KeyPair::generate()?;
        let name = name_of(number);
        let mut leaf = CertificateParams::new(vec![name.clone()])?;
        leaf.distinguished_name.push(DnType::CommonName, name);
        let certificate = leaf.signed_by(&key, &intermediate)?.pem();
        std::fs::write(folder.join(format!("{number}.pem")), format!("{certificate}{chain}{}", key.serialize_pem()))?;
    }
    Ok(())
}

pub fn name_of(number: u32) -> String {
    format!("site-{number}.test")
}

/// Who has signed those of [`write_many`].
pub fn authority_of(folder: &Path) -> PathBuf {
    folder.join("authority")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_have_a_file_each() {
        let folder = tempfile::tempdir().unwrap();
        write_many(folder.path(), 2).unwrap();
        for (file, certificates, keys) in [("authority", 1, 0), ("1.pem", 2, 1), ("2.pem", 2, 1)] {
            let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
            assert_eq!(text.matches("BEGIN CERTIFICATE").count(), certificates, "{file}");
            assert_eq!(text.matches("BEGIN PRIVATE KEY").count(), keys, "{file}");
        }
        assert!(!folder.path().join("3.pem").exists());
    }

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
