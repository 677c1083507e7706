//! What is to be said of an object: what of it cannot be used, or is used otherwise than it reads.

use std::fmt;
use tidegate_cluster::{Key, Kind};

/// Which object is meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectReference {
    pub kind: Kind,
    pub key: Key,
}

impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// As `spec.rules[0].http.paths[1]`.
    pub field: String,
    pub code: FindingCode,
    pub severity: Severity,
    /// One sentence without a full stop: what is wrong, and what to do.
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Served, but otherwise than it reads.
    Warning,
    /// Something that it asks for is not served.
    Error,
}

/// What kind of finding it is, by the word that is the reason of an Event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingCode {
    HostInvalid,
    /// Somebody else serves the host: an older namespace, or the file.
    HostTaken,
    /// A certificate is for a host that no rule is for.
    TlsHostUnused,
    PathInvalid,
    /// A star stands for itself.
    PathWithStar,
    /// A percent code stands for its letters.
    PathWithCode,
    /// An older object has this path of the host.
    PathTaken,
    /// An older object has what no path takes.
    DefaultBackendTaken,
    /// An older object has the share of a path.
    CanaryTaken,
    /// A share is wanted of what no other object has.
    CanaryAlone,
    /// Neither a Service nor a resource is named.
    BackendInvalid,
    ResourceRefused,
    ServiceMissing,
    PortMissing,
    ExternalNameRefused,
    /// TLS is spoken with servers whose certificates nobody looks at.
    ServersNotVerified,
    SecretMissing,
    /// No pair of a certificate and its key is in it.
    SecretInvalid,
    /// The API server does not give it.
    SecretUnavailable,
    /// Neither a Secret is named, nor is there a default certificate.
    CertificateMissing,
    /// An older object has the certificate of the host.
    CertificateTaken,
    /// The certificate does not name the host.
    CertificateForOthers,
    /// No annotation is called so.
    AnnotationUnknown,
    /// A value that cannot be used is left out.
    AnnotationInvalid,
    /// Everything is served without what it asks for.
    AnnotationNotTaken,
    /// Nothing is served without what it asks for.
    ProtectionUnavailable,
    DefaultClassTwice,
    /// Nothing that it says is known.
    ConfigMapMissing,
    /// The API server does not give it.
    ConfigMapUnavailable,
    /// No key is called so.
    SettingUnknown,
    /// A value that cannot be used is left out.
    SettingInvalid,
    /// Everything is served without what it asks for, or as somebody else says it.
    SettingNotTaken,
    /// A port of a TCP service that cannot be served.
    PortRefused,
    /// More is to be said than is told.
    MoreFindings,
}

impl FindingCode {
    pub fn as_str(self) -> &'static str {
        match self {
            FindingCode::HostInvalid => "HostInvalid",
            FindingCode::HostTaken => "HostTaken",
            FindingCode::TlsHostUnused => "TlsHostUnused",
            FindingCode::PathInvalid => "PathInvalid",
            FindingCode::PathWithStar => "PathWithStar",
            FindingCode::PathWithCode => "PathWithCode",
            FindingCode::PathTaken => "PathTaken",
            FindingCode::DefaultBackendTaken => "DefaultBackendTaken",
            FindingCode::CanaryTaken => "CanaryTaken",
            FindingCode::CanaryAlone => "CanaryAlone",
            FindingCode::BackendInvalid => "BackendInvalid",
            FindingCode::ResourceRefused => "ResourceRefused",
            FindingCode::ServiceMissing => "ServiceMissing",
            FindingCode::PortMissing => "PortMissing",
            FindingCode::ExternalNameRefused => "ExternalNameRefused",
            FindingCode::ServersNotVerified => "ServersNotVerified",
            FindingCode::SecretMissing => "SecretMissing",
            FindingCode::SecretInvalid => "SecretInvalid",
            FindingCode::SecretUnavailable => "SecretUnavailable",
            FindingCode::CertificateMissing => "CertificateMissing",
            FindingCode::CertificateTaken => "CertificateTaken",
            FindingCode::CertificateForOthers => "CertificateForOthers",
            FindingCode::AnnotationUnknown => "AnnotationUnknown",
            FindingCode::AnnotationInvalid => "AnnotationInvalid",
            FindingCode::AnnotationNotTaken => "AnnotationNotTaken",
            FindingCode::ProtectionUnavailable => "ProtectionUnavailable",
            FindingCode::DefaultClassTwice => "DefaultClassTwice",
            FindingCode::ConfigMapMissing => "ConfigMapMissing",
            FindingCode::ConfigMapUnavailable => "ConfigMapUnavailable",
            FindingCode::SettingUnknown => "SettingUnknown",
            FindingCode::SettingInvalid => "SettingInvalid",
            FindingCode::SettingNotTaken => "SettingNotTaken",
            FindingCode::PortRefused => "PortRefused",
            FindingCode::MoreFindings => "MoreFindings",
        }
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
