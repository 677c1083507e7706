//! What went wrong with a TLS connection, in words for people who have to mend it. The library's own words are those of
//! its source code for much of it.

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};
use std::io;

/// Why a connection failed, where it was TLS that failed.
pub fn tls_fault(error: &io::Error) -> Option<&Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
}

/// Whether the peer has ended the connection with an alert: the cause is with it, or with what it was shown.
pub fn is_alert_of_peer(error: &io::Error) -> bool {
    matches!(tls_fault(error), Some(Error::AlertReceived(_)))
}

/// Any failure of a connection in words: TLS's if it was TLS that failed, else the system's.
pub fn connection_words(error: &io::Error) -> String {
    tls_fault(error).map_or_else(|| error.to_string(), tls_words)
}

/// A failure of TLS as the end of a sentence about the peer.
pub fn tls_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(fault) => format!("its certificate is not taken: {}", certificate_words(fault)),
        Error::AlertReceived(alert) => alert_words(*alert),
        Error::InvalidMessage(_) => "what it sends is no TLS".to_owned(),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } | Error::PeerMisbehaved(_) => {
            "it breaks the rules of TLS".to_owned()
        }
        Error::PeerIncompatible(PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon) => {
            "it knows none of the signatures of our certificate".to_owned()
        }
        Error::PeerIncompatible(_) => "no version, cipher or key exchange is in common with it".to_owned(),
        Error::NoApplicationProtocol => "no protocol is in common with it (ALPN)".to_owned(),
        Error::NoCertificatesPresented => "it shows no certificate".to_owned(),
        Error::DecryptError => "what it sends cannot be decrypted".to_owned(),
        Error::PeerSentOversizedRecord => "it sends a record that is larger than TLS has them".to_owned(),
        Error::UnsupportedNameType => "it has a name of a kind that TLS cannot ask for".to_owned(),
        Error::General(text) => text.clone(),
        // The library's list is open.
        _ => "TLS failed on this side".to_owned(),
    }
}

/// Why a certificate is not taken.
pub fn certificate_words(fault: &CertificateError) -> String {
    let words = match fault {
        CertificateError::UnknownIssuer => "nobody who is trusted has signed it",
        CertificateError::BadSignature => "its signature is not that of the authority that it names",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired, or this machine's clock is wrong",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its time has not come, or this machine's clock is wrong"
        }
        CertificateError::Revoked => "it is revoked",
        CertificateError::UnknownRevocationStatus => "whether it is revoked is not known",
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "the list that says whether it is revoked is out of date"
        }
        CertificateError::NotValidForName => "it is for another name",
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            // Names come as `DnsName("a.example")`.
            let plain: Vec<_> = presented.iter().map(|name| name.split('"').nth(1).unwrap_or(name)).collect();
            return match plain.as_slice() {
                [] => format!("it is not valid for {expected}, nor for any name"),
                names => format!("it is not valid for {expected}, but for {}", names.join(", ")),
            };
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => "it is not made for this purpose",
        CertificateError::UnhandledCriticalExtension => "it has a critical extension that is not known here",
        CertificateError::BadEncoding => "it cannot be read",
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "it is an authority's (CA:TRUE) and no server's; a file with this very certificate as `ca=` trusts it"
        }
        CertificateError::Other(other) if other.to_string() == "UnsupportedCertVersion" => "it is of an old version (X.509 v1)",
        // The library's list is open.
        _ => "it breaks a rule of certificates",
    };
    words.to_owned()
}

/// An alert by its name in RFC 8446, and what it means where that has to be mended.
fn alert_words(alert: AlertDescription) -> String {
    let (name, meaning) = match alert {
        AlertDescription::CertificateRequired => ("certificate_required", "it asks for a client certificate, and is shown none"),
        AlertDescription::UnknownCA => ("unknown_ca", "it trusts nobody who has signed our certificate"),
        AlertDescription::BadCertificate => ("bad_certificate", "it does not take our certificate"),
        AlertDescription::CertificateExpired => ("certificate_expired", "our certificate is past its time"),
        AlertDescription::CertificateRevoked => ("certificate_revoked", "our certificate is revoked"),
        AlertDescription::CertificateUnknown => ("certificate_unknown", "it does not take our certificate"),
        AlertDescription::UnsupportedCertificate => ("unsupported_certificate", "it does not take certificates like ours"),
        AlertDescription::AccessDenied => ("access_denied", "it lets us not in"),
        AlertDescription::UnrecognisedName => ("unrecognized_name", "it has nothing under the name that was asked for"),
        AlertDescription::HandshakeFailure => {
            ("handshake_failure", "nothing is in common, or it has no certificate for the name")
        }
        AlertDescription::ProtocolVersion => ("protocol_version", "it speaks neither TLS 1.2 nor 1.3"),
        AlertDescription::NoApplicationProtocol => ("no_application_protocol", "no protocol is in common with it"),
        AlertDescription::InternalError => ("internal_error", "something is wrong on its side"),
        AlertDescription::DecodeError => ("decode_error", "it could not read what was sent"),
        AlertDescription::DecryptError => ("decrypt_error", "it could not verify what was sent"),
        AlertDescription::IllegalParameter => ("illegal_parameter", "it does not take what was sent"),
        AlertDescription::InsufficientSecurity => ("insufficient_security", "it asks for stronger ciphers"),
        AlertDescription::CloseNotify => ("close_notify", "it has ended the connection"),
        AlertDescription::UserCanceled => ("user_canceled", "it has given up"),
        other => return format!("it ended the connection with alert {}", u8::from(other)),
    };
    format!("{meaning} (alert {name})")
}

#[cfg(test)]
mod tests {
    use super::{connection_words, is_alert_of_peer, tls_words};
    use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerMisbehaved};
    use std::io;
    use std::sync::Arc;

    #[test]
    fn no_word_is_one_of_the_source_code() {
        let other = |text: &str| CertificateError::Other(OtherError(Arc::new(io::Error::other(text.to_owned()))));
        let check = |error: Error, expected: &str| {
            let words = tls_words(&error);
            assert_eq!(words, expected);
            assert!(!words.contains("Error") && !words.contains("::") && !words.contains('{'), "{words}");
        };
        let of_certificate = |fault| Error::InvalidCertificate(fault);
        check(
            of_certificate(CertificateError::UnknownIssuer),
            "its certificate is not taken: nobody who is trusted has signed it",
        );
        check(
            of_certificate(other("CaUsedAsEndEntity")),
            "its certificate is not taken: it is an authority's (CA:TRUE) and no server's; a file with this very certificate as \
             `ca=` trusts it",
        );
        check(of_certificate(other("TrailingData(Whatever)")), "its certificate is not taken: it breaks a rule of certificates");
        check(
            Error::AlertReceived(AlertDescription::CertificateRequired),
            "it asks for a client certificate, and is shown none (alert certificate_required)",
        );
        check(Error::AlertReceived(AlertDescription::from(200)), "it ended the connection with alert 200");
        check(Error::PeerMisbehaved(PeerMisbehaved::ServerNameMustContainOneHostName), "it breaks the rules of TLS");
    }

    #[test]
    fn what_is_no_fault_of_tls_has_the_words_of_the_system() {
        let plain = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(connection_words(&plain), "connection refused");
        assert!(!is_alert_of_peer(&plain));
        let alert = io::Error::new(io::ErrorKind::InvalidData, Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(is_alert_of_peer(&alert));
        assert_eq!(connection_words(&alert), "it trusts nobody who has signed our certificate (alert unknown_ca)");
    }
}
