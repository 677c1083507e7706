//! Certificates of clients: what a site asks for in the handshake, and what can be said of them in templates and
//! conditions.

use crate::pem::Pem;

/// `client-auth ca="clients-ca.pem" mode="require"` in the `tls` of a site.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientAuth {
    /// The authorities that are trusted to say who clients are. At least one, unless nobody is verified.
    pub ca: Vec<Pem>,
    /// Revocation lists, in PEM or DER. With one, every authority needs one.
    pub crls: Vec<Pem>,
    pub mode: ClientAuthMode,
    /// How upstreams are told of the certificate; `None`: not at all.
    pub forward: Option<ClientCertificateForm>,
}

/// The fields that upstreams are told of a client's certificate in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientCertificateForm {
    /// `Client-Cert` and `Client-Cert-Chain`.
    Rfc9440,
    /// `X-Forwarded-Client-Cert`
    Xfcc,
    /// `ssl-client-verify`, `ssl-client-subject-dn`, `ssl-client-issuer-dn` and `ssl-client-cert`, those of
    /// ingress-nginx: the only one that speaks of certificates which were not verified, and of clients without any.
    Nginx,
}

impl ClientCertificateForm {
    pub const NAMES: &'static [(&'static str, ClientCertificateForm)] = &[
        ("rfc9440", ClientCertificateForm::Rfc9440),
        ("xfcc", ClientCertificateForm::Xfcc),
        ("nginx", ClientCertificateForm::Nginx),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ClientCertificateForm::Rfc9440 => "rfc9440",
            ClientCertificateForm::Xfcc => "xfcc",
            ClientCertificateForm::Nginx => "nginx",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAuthMode {
    /// Without a good certificate there is no connection.
    Require,
    /// Who shows none gets a connection all the same; a bad one is refused.
    Request,
    /// Who shows none, or a bad one, gets a connection all the same. A bad one is as none everywhere but where it is
    /// said what is wrong with it.
    Unverified,
}

impl ClientAuthMode {
    pub const NAMES: &'static [(&'static str, ClientAuthMode)] =
        &[("require", ClientAuthMode::Require), ("request", ClientAuthMode::Request), ("unverified", ClientAuthMode::Unverified)];

    pub fn as_str(self) -> &'static str {
        match self {
            ClientAuthMode::Require => "require",
            ClientAuthMode::Request => "request",
            ClientAuthMode::Unverified => "unverified",
        }
    }
}

/// What a route demands of a client whose certificate was asked for in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientAuthDemand {
    Require,
    /// Nothing, in a site that requires one.
    Off,
}

impl ClientAuthDemand {
    pub fn as_str(self) -> &'static str {
        match self {
            ClientAuthDemand::Require => "require",
            ClientAuthDemand::Off => "off",
        }
    }
}

/// What a template can say of the certificate that a client has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientCertificateField {
    /// As in RFC 4514.
    Subject,
    Issuer,
    /// Hexadecimal, in upper case.
    Serial,
    /// The subject alternative names, with commas between.
    San,
    /// SHA-256, hexadecimal, in lower case.
    Fingerprint,
    /// As in RFC 3339, in UTC.
    NotAfter,
    /// `yes` or `no`: whether there was a good one.
    Verified,
}

/// What a condition can be about. Of several names one has to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientCertificatePart {
    Subject,
    San,
    Fingerprint,
}

impl ClientCertificatePart {
    /// As `match` has them.
    pub const NAMES: &'static [(&'static str, ClientCertificatePart)] = &[
        ("client-subject", ClientCertificatePart::Subject),
        ("client-san", ClientCertificatePart::San),
        ("client-fingerprint", ClientCertificatePart::Fingerprint),
    ];

    pub fn name(self) -> &'static str {
        match self {
            ClientCertificatePart::Subject => "client-subject",
            ClientCertificatePart::San => "client-san",
            ClientCertificatePart::Fingerprint => "client-fingerprint",
        }
    }
}
