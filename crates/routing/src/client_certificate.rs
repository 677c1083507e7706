//! What a client's certificate says, as a text of conditions and templates.

use tidegate_model::ClientCertificateField;
use tidegate_wire::ClientCertificate;

/// What a template says of a client's certificate; nothing without one, but that there is none.
pub fn client_certificate_text(certificate: Option<&ClientCertificate>, field: ClientCertificateField) -> &str {
    let Some(certificate) = certificate else {
        return if field == ClientCertificateField::Verified { "no" } else { "" };
    };
    let facts = || certificate.facts();
    match field {
        ClientCertificateField::Verified => "yes",
        ClientCertificateField::Fingerprint => certificate.fingerprint(),
        ClientCertificateField::Subject => facts().map_or("", |facts| &facts.subject),
        ClientCertificateField::Issuer => facts().map_or("", |facts| &facts.issuer),
        ClientCertificateField::Serial => facts().map_or("", |facts| &facts.serial),
        ClientCertificateField::San => facts().map_or("", |facts| &facts.names_joined),
        ClientCertificateField::NotAfter => facts().map_or("", |facts| &facts.not_after),
    }
}
