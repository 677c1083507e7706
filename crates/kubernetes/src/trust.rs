//! A Secret as what servers and clients are verified by, and as a certificate that is shown. As a Secret is now: what
//! it had before may be what is to be trusted no longer.

use crate::secret::{CERTIFICATE, KnownPair, PRIVATE_KEY};
use std::path::Path;
use tidegate_certs::trust::roots_of;
use tidegate_certs::{ClientTrust, LoadedCertificate};
use tidegate_cluster::{Key, Secret, SecretBytes};
use tidegate_model::{ClientAuth, ClientAuthMode, HeldPem, Pem};

/// Names of values, as ingress-nginx has them.
const AUTHORITY: &str = "ca.crt";
const REVOKED: &str = "ca.crl";

/// Of servers. One of both is there at least.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerTrust {
    pub ca: Option<Pem>,
    pub client_certificate: Option<(Pem, Pem)>,
}

impl ServerTrust {
    /// `None`: nobody can tell so far.
    pub fn of(known: &KnownPair, key: &Key) -> Option<Result<ServerTrust, String>> {
        let read = |secret: &Secret| ServerTrust::read(secret).map_err(|problem| unusable(key, &problem));
        Some(known.held(key)?.and_then(read))
    }

    fn read(secret: &Secret) -> Result<ServerTrust, String> {
        let ca = value(secret, AUTHORITY).map(held);
        if let Some(ca) = &ca {
            roots_of(ca).map_err(|error| format!("of `{AUTHORITY}`, {}", error.message()))?;
        }
        let client_certificate = match (value(secret, CERTIFICATE), value(secret, PRIVATE_KEY)) {
            (Some(certificate), Some(key)) => {
                let pair = ((Path::new(CERTIFICATE), certificate), (Path::new(PRIVATE_KEY), key));
                LoadedCertificate::from_pem(pair.0, Some(pair.1)).map_err(|error| error.message())?;
                Some((held(certificate), held(key)))
            }
            (None, None) => None,
            (Some(_), None) => return Err(format!("it has a `{CERTIFICATE}` and no `{PRIVATE_KEY}`")),
            (None, Some(_)) => return Err(format!("it has a `{PRIVATE_KEY}` and no `{CERTIFICATE}`")),
        };
        if ca.is_none() && client_certificate.is_none() {
            return Err(format!("it has no `{AUTHORITY}`, and no `{CERTIFICATE}` with its `{PRIVATE_KEY}`"));
        }
        Ok(ServerTrust { ca, client_certificate })
    }
}

/// Whose certificates of clients are good ones.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientAuthority {
    pub ca: Pem,
    pub crl: Option<Pem>,
}

impl ClientAuthority {
    /// `None`: nobody can tell so far.
    pub fn of(known: &KnownPair, key: &Key) -> Option<Result<ClientAuthority, String>> {
        let read = |secret: &Secret| ClientAuthority::read(secret).map_err(|problem| unusable(key, &problem));
        Some(known.held(key)?.and_then(read))
    }

    fn read(secret: &Secret) -> Result<ClientAuthority, String> {
        let ca = value(secret, AUTHORITY).map(held).ok_or_else(|| format!("it has no `{AUTHORITY}`"))?;
        // A list that is there and empty is broken, and not one that nobody is on.
        let crl = secret.data.get(REVOKED).map(|crl| held(crl.reveal()));
        let settings = ClientAuth {
            ca: vec![ca.clone()],
            crls: crl.iter().cloned().collect(),
            mode: ClientAuthMode::Request,
            forward: None,
        };
        match ClientTrust::fault(&settings) {
            Some(fault) => Err(fault.message()),
            None => Ok(ClientAuthority { ca, crl }),
        }
    }
}

fn value<'s>(secret: &'s Secret, name: &str) -> Option<&'s [u8]> {
    secret.data.get(name).map(SecretBytes::reveal).filter(|value| !value.is_empty())
}

fn held(pem: &[u8]) -> Pem {
    Pem::Held(HeldPem::new(pem))
}

fn unusable(key: &Key, problem: &str) -> String {
    format!("the Secret `{key}` cannot be used: {problem}")
}
