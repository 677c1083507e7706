//! How certificates are obtained by ACME (RFC 8555): from whom, as whom, and how names are shown to be ours.
//! Who asks and when is in the crate `acme`; who publishes records of DNS, in `dns-records`; where results are kept is
//! [`Storage`](crate::Storage).

use crate::address::HostPattern;
use crate::process::Secret;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What `acme` says, the process's own and what a site changes of it taken together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acme {
    /// In order; the next is asked when the one before cannot help. At least one.
    pub authorities: Vec<AcmeAuthority>,
    /// Where a CA writes to about the account.
    pub email: Option<String>,
    /// In order of preference; empty stands for all that can be answered: `tls-alpn-01`, `http-01`, and `dns-01` with a
    /// provider.
    pub challenges: Vec<AcmeChallenge>,
    pub dns: Option<AcmeDns>,
    /// A profile of the CA, as `shortlived` is one of Let's Encrypt's.
    pub profile: Option<String>,
    pub key_type: AcmeKeyType,
    /// The port of ours at which connections to port 80 arrive; another than 80 behind a gateway that maps ports.
    pub http_port: u16,
    /// The port that the CA's requests for 443 arrive at here.
    pub https_port: u16,
    /// Whether is looked, before each order, at what would make it fail.
    pub preflight: bool,
    /// Wildcards of which one certificate stands for all names below that sites have, as `*.example.com`. For sites
    /// that say nothing of ACME themselves.
    pub wildcards: Vec<String>,
}

impl Default for Acme {
    fn default() -> Self {
        Acme {
            authorities: vec![AcmeAuthority::preset("letsencrypt").expect("the preset exists")],
            email: None,
            challenges: Vec::new(),
            dns: None,
            profile: None,
            key_type: AcmeKeyType::EcdsaP256,
            http_port: 80,
            https_port: 443,
            preflight: true,
            wildcards: Vec::new(),
        }
    }
}

/// What one `acme` says; what is `None`, or empty, stays as it is elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AcmeChanges {
    pub authorities: Vec<AcmeAuthority>,
    pub email: Option<String>,
    pub challenges: Vec<AcmeChallenge>,
    pub dns: Option<AcmeDns>,
    pub profile: Option<String>,
    pub key_type: Option<AcmeKeyType>,
    pub http_port: Option<u16>,
    pub https_port: Option<u16>,
    pub preflight: Option<bool>,
    pub wildcards: Vec<String>,
}

impl Acme {
    pub fn changed_by(&self, changes: &AcmeChanges) -> Acme {
        let list_or =
            |list: &[AcmeChallenge], other: &[AcmeChallenge]| if list.is_empty() { other.to_vec() } else { list.to_vec() };
        Acme {
            authorities: if changes.authorities.is_empty() { self.authorities.clone() } else { changes.authorities.clone() },
            email: changes.email.clone().or_else(|| self.email.clone()),
            challenges: list_or(&changes.challenges, &self.challenges),
            dns: changes.dns.clone().or_else(|| self.dns.clone()),
            profile: changes.profile.clone().or_else(|| self.profile.clone()),
            key_type: changes.key_type.unwrap_or(self.key_type),
            http_port: changes.http_port.unwrap_or(self.http_port),
            https_port: changes.https_port.unwrap_or(self.https_port),
            preflight: changes.preflight.unwrap_or(self.preflight),
            wildcards: if changes.wildcards.is_empty() { self.wildcards.clone() } else { changes.wildcards.clone() },
        }
    }

    /// The wildcard whose certificate a host has as well.
    pub fn wildcard_of(&self, host: &HostPattern) -> Option<&str> {
        let parent = match host {
            // One label, as certificates have it (RFC 6125 section 6.4.3).
            HostPattern::Exact(name) => name.split_once('.')?.1,
            // Of names below at any depth there is none that covers more than those of one label.
            HostPattern::Wildcard(parent) | HostPattern::DeepWildcard(parent) => parent,
            HostPattern::Any | HostPattern::Ip(_) | HostPattern::Socket(_) => return None,
        };
        self.wildcards.iter().map(String::as_str).find(|wildcard| wildcard.strip_prefix("*.") == Some(parent))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeAuthority {
    /// As it stands in the file: a preset, or the URL.
    pub name: String,
    pub directory: String,
    /// Where orders are tried that will probably fail, since those cost nothing there.
    pub staging: Option<String>,
    pub external_account: Option<AcmeExternalAccount>,
    /// Trusted for its HTTPS instead of the system's roots; PEM.
    pub root: Option<PathBuf>,
}

impl AcmeAuthority {
    /// Name, directory, staging directory.
    pub const PRESETS: &'static [(&'static str, &'static str, Option<&'static str>)] = &[
        (
            "letsencrypt",
            "https://acme-v02.api.letsencrypt.org/directory",
            Some("https://acme-staging-v02.api.letsencrypt.org/directory"),
        ),
        ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory", None),
        ("zerossl", "https://acme.zerossl.com/v2/DV90", None),
        ("google", "https://dv.acme-v02.api.pki.goog/directory", Some("https://dv.acme-v02.test-api.pki.goog/directory")),
        ("sslcom", "https://acme.ssl.com/sslcom-dv-ecc", None),
        ("actalis", "https://acme-api.actalis.com/acme/directory", None),
    ];

    pub fn preset(name: &str) -> Option<AcmeAuthority> {
        let (name, directory, staging) = Self::PRESETS.iter().find(|(known, ..)| *known == name)?;
        Some(AcmeAuthority {
            name: (*name).into(),
            directory: (*directory).into(),
            staging: staging.map(Into::into),
            external_account: None,
            root: None,
        })
    }
}

/// External account binding (RFC 8555 section 7.3.4).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeExternalAccount {
    pub key_id: String,
    /// base64url, as CAs hand it out.
    pub hmac_key: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AcmeChallenge {
    /// In the handshake itself, on port 443 (RFC 8737).
    TlsAlpn01,
    /// A file on port 80.
    Http01,
    /// A record of DNS; the only one for wildcards.
    Dns01,
}

impl AcmeChallenge {
    pub const NAMES: &'static [(&'static str, AcmeChallenge)] =
        &[("tls-alpn-01", AcmeChallenge::TlsAlpn01), ("http-01", AcmeChallenge::Http01), ("dns-01", AcmeChallenge::Dns01)];

    pub fn as_str(self) -> &'static str {
        match self {
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::Dns01 => "dns-01",
        }
    }
}

impl fmt::Display for AcmeChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AcmeKeyType {
    EcdsaP256,
    EcdsaP384,
    Rsa2048,
    Rsa4096,
}

impl AcmeKeyType {
    pub const NAMES: &'static [(&'static str, AcmeKeyType)] = &[
        ("ecdsa-p256", AcmeKeyType::EcdsaP256),
        ("ecdsa-p384", AcmeKeyType::EcdsaP384),
        ("rsa-2048", AcmeKeyType::Rsa2048),
        ("rsa-4096", AcmeKeyType::Rsa4096),
    ];
}

/// Who publishes the records of `dns-01`, and how long they take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AcmeDns {
    pub provider: DnsProvider,
    /// How long is waited until every authoritative server has the record.
    pub propagation: Duration,
    /// Asked instead of those of `/etc/resolv.conf` for the zone of a name and its servers.
    pub resolver: Option<SocketAddr>,
}

impl AcmeDns {
    pub const PROPAGATION: Duration = Duration::from_secs(120);
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DnsProvider {
    /// A program of the user's: `command present NAME VALUE`, `command cleanup NAME VALUE`.
    Exec {
        command: PathBuf,
    },
    /// A service of the user's, told with POST.
    Webhook {
        url: String,
        token: Option<Secret>,
    },
    /// Dynamic updates with TSIG.
    Rfc2136(Rfc2136),
    Cloudflare {
        token: Secret,
        api: Option<String>,
    },
    Route53 {
        access_key: String,
        secret_key: Secret,
        session_token: Option<Secret>,
        zone: Option<String>,
        api: Option<String>,
    },
    DigitalOcean {
        token: Secret,
        api: Option<String>,
    },
    /// The DNS of Hetzner Cloud's console.
    Hetzner {
        token: Secret,
        api: Option<String>,
    },
}

impl DnsProvider {
    /// The word that names the kind in the configuration.
    pub fn kind(&self) -> &'static str {
        match self {
            DnsProvider::Exec { .. } => "exec",
            DnsProvider::Webhook { .. } => "webhook",
            DnsProvider::Rfc2136(_) => "rfc2136",
            DnsProvider::Cloudflare { .. } => "cloudflare",
            DnsProvider::Route53 { .. } => "route53",
            DnsProvider::DigitalOcean { .. } => "digitalocean",
            DnsProvider::Hetzner { .. } => "hetzner",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rfc2136 {
    pub server: SocketAddr,
    pub key: Option<TsigKey>,
    /// The zone that is updated; `None` looks it up.
    pub zone: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TsigKey {
    pub name: String,
    pub algorithm: TsigAlgorithm,
    /// base64, as `tsig-keygen` writes it.
    pub secret: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TsigAlgorithm {
    HmacSha256,
    HmacSha384,
    HmacSha512,
}

impl TsigAlgorithm {
    pub const NAMES: &'static [(&'static str, TsigAlgorithm)] = &[
        ("hmac-sha256", TsigAlgorithm::HmacSha256),
        ("hmac-sha384", TsigAlgorithm::HmacSha384),
        ("hmac-sha512", TsigAlgorithm::HmacSha512),
    ];
}

/// Certificates for names that nobody wrote, obtained at the first handshake that asks for one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnDemand {
    /// Asked with `?domain=NAME`; any answer but 2xx refuses the name.
    pub ask: String,
    /// New names in an hour, over all sites.
    pub names_per_hour: u32,
    /// How long a handshake waits for its certificate.
    pub wait: Duration,
}

impl OnDemand {
    pub const NAMES_PER_HOUR: u32 = 60;
    pub const WAIT: Duration = Duration::from_secs(20);
}
