//! What a provider says of itself (OpenID Connect Discovery 1.0): where people log in and where tokens are had. Read as
//! the word of somebody who may have been exchanged: it has to say that it is who was asked, and names no place that is
//! less protected than the issuer is.

use crate::json::{JsonFault, Value};
use thiserror::Error;

/// Of an address.
const URL_BYTES_MAX: usize = 2000;
/// Of what is repeated in a message.
const SHOWN_BYTES_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub authorization_endpoint: Box<str>,
    pub token_endpoint: Box<str>,
    pub keys: Box<str>,
    pub end_session_endpoint: Option<Box<str>>,
    pub userinfo_endpoint: Option<Box<str>>,
    /// The token endpoint takes the client's secret in the form alone.
    pub takes_secret_in_form: bool,
    /// Answers of the provider have `iss` (RFC 9207), so that one without it is of somebody else.
    pub says_issuer: bool,
}

/// Why a document cannot be used. The words continue "the document …".
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MetadataFault {
    #[error("{0}")]
    Json(JsonFault),
    #[error("says that its issuer is `{0}`, and has to be the issuer that was asked, to the letter")]
    OtherIssuer(String),
    #[error("has no `{0}` that can be used: an `https://` address is needed, unless the issuer has none itself")]
    Endpoint(&'static str),
}

impl From<JsonFault> for MetadataFault {
    fn from(fault: JsonFault) -> MetadataFault {
        MetadataFault::Json(fault)
    }
}

/// Where an issuer's document is.
pub fn discovery_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

impl Metadata {
    pub fn parse(document: &[u8], issuer: &str) -> Result<Metadata, MetadataFault> {
        let document = Value::parse_object(document)?;
        let said = document.member("issuer").and_then(Value::text).unwrap_or_default();
        if said != issuer {
            let shown: String = said.chars().filter(|letter| !letter.is_control()).take(SHOWN_BYTES_MAX).collect();
            return Err(MetadataFault::OtherIssuer(shown));
        }
        let optional = |name: &'static str| match document.member(name).filter(|value| value.raw() != "null") {
            None => Ok(None),
            Some(value) => match value.text() {
                Some(url) if is_usable(&url, issuer) => Ok(Some(url.into())),
                Some(_) | None => Err(MetadataFault::Endpoint(name)),
            },
        };
        let endpoint = |name: &'static str| optional(name)?.ok_or(MetadataFault::Endpoint(name));
        let methods = document.member("token_endpoint_auth_methods_supported");
        let has_method =
            |wanted: &str| methods.is_some_and(|methods| methods.elements().any(|one| one.text().as_deref() == Some(wanted)));
        let says_issuer = document.member("authorization_response_iss_parameter_supported");
        Ok(Metadata {
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            keys: endpoint("jwks_uri")?,
            end_session_endpoint: optional("end_session_endpoint")?,
            userinfo_endpoint: optional("userinfo_endpoint")?,
            takes_secret_in_form: has_method("client_secret_post") && !has_method("client_secret_basic"),
            says_issuer: says_issuer.is_some_and(|value| value.raw() == "true"),
        })
    }
}

fn is_usable(url: &str, issuer: &str) -> bool {
    let is_safe = url.starts_with("https://") || (url.starts_with("http://") && issuer.starts_with("http://"));
    let is_written_so = url.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'#'));
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    is_safe && is_written_so && url.len() <= URL_BYTES_MAX && !authority.is_empty() && !authority.contains('@')
}

#[cfg(test)]
mod tests {
    use super::{Metadata, MetadataFault, discovery_url};
    use crate::json::JsonFault;

    const ISSUER: &str = "https://idp.example.com/realms/a";

    fn document(change: &str) -> String {
        let base = r#"{"issuer":"https://idp.example.com/realms/a","authorization_endpoint":"https://idp.example.com/auth",
            "token_endpoint":"https://idp.example.com/token","jwks_uri":"https://idp.example.com/keys"CHANGE}"#;
        base.replace("CHANGE", change)
    }

    #[test]
    fn a_document_says_where_to_go() {
        let read = Metadata::parse(document("").as_bytes(), ISSUER).expect("a document");
        assert_eq!(&*read.token_endpoint, "https://idp.example.com/token");
        assert_eq!((read.end_session_endpoint, read.takes_secret_in_form, read.says_issuer), (None, false, false));
        let more = r#","end_session_endpoint":"https://idp.example.com/end","token_endpoint_auth_methods_supported":
            ["client_secret_post","private_key_jwt"],"authorization_response_iss_parameter_supported":true"#;
        let read = Metadata::parse(document(more).as_bytes(), ISSUER).expect("a document");
        assert_eq!(read.end_session_endpoint.as_deref(), Some("https://idp.example.com/end"));
        assert!(read.takes_secret_in_form && read.says_issuer);
        assert_eq!(discovery_url("https://a.example/"), "https://a.example/.well-known/openid-configuration");
        assert_eq!(discovery_url(ISSUER), format!("{ISSUER}/.well-known/openid-configuration"));
    }

    #[test]
    fn documents_of_others_and_of_less_protected_places_are_refused() {
        let check = |text: String, issuer: &str, expected: MetadataFault| {
            assert_eq!(Metadata::parse(text.as_bytes(), issuer), Err(expected), "{text}");
        };
        check("<html>".into(), ISSUER, MetadataFault::Json(JsonFault::Malformed));
        check("[]".into(), ISSUER, MetadataFault::Json(JsonFault::NotAnObject));
        check(document(""), "https://idp.example.com/realms/b", MetadataFault::OtherIssuer(ISSUER.into()));
        check(document(""), "https://idp.example.com/realms/a/", MetadataFault::OtherIssuer(ISSUER.into()));
        check("{}".into(), ISSUER, MetadataFault::OtherIssuer(String::new()));
        for wrong in ["http://idp.example.com/token", "ftp://a", "https://", "https://user@idp.example.com/", "https://a/ b", "a"]
        {
            let text = document("").replace("https://idp.example.com/token", wrong);
            check(text, ISSUER, MetadataFault::Endpoint("token_endpoint"));
        }
        check(document(",\"end_session_endpoint\":7"), ISSUER, MetadataFault::Endpoint("end_session_endpoint"));
    }
}
