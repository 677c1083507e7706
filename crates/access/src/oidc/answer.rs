//! What a token endpoint answers (RFC 6749 sections 5.1 and 5.2).

use crate::json::Value;
use thiserror::Error;

/// Of a code of an error, which goes into the log.
const CODE_BYTES_MAX: usize = 100;
/// Longer tokens fit into no cookie.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAnswer {
    pub id_token: Option<Box<str>>,
    pub access_token: Box<str>,
    pub refresh_token: Option<Box<str>>,
    /// In seconds from when it was made.
    pub expires_in: Option<u64>,
}

/// Why an answer gives no tokens.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenAnswerFault {
    /// The grant is over: used, revoked, of somebody else.
    #[error("the provider says `invalid_grant`")]
    InvalidGrant,
    #[error("the provider says `{0}`")]
    Refused(String),
    #[error("what the provider sends is no answer with tokens")]
    Unreadable,
    /// How to use others is known nowhere here.
    #[error("the provider gives tokens of the type `{0}`, and only `Bearer` can be used (`token_type`)")]
    OtherType(String),
    /// A status such as 503: it may be otherwise in a moment.
    #[error("the provider answers with status {0}")]
    Status(u16),
}

impl TokenAnswer {
    pub fn read(status: u16, body: &[u8]) -> Result<TokenAnswer, TokenAnswerFault> {
        let object = Value::parse_object(body).ok();
        if status != 200 {
            let error = object.and_then(|object| object.member("error")).and_then(Value::text);
            return Err(match error.as_deref() {
                Some("invalid_grant") if status < 500 => TokenAnswerFault::InvalidGrant,
                Some(error) if status < 500 => TokenAnswerFault::Refused(shown(error)),
                Some(_) | None => TokenAnswerFault::Status(status),
            });
        }
        let object = object.ok_or(TokenAnswerFault::Unreadable)?;
        let text = |name: &str| match object.member(name).filter(|value| value.raw() != "null") {
            None => Ok(None),
            Some(value) => {
                let text: Option<Box<str>> = value.text().filter(|text| is_token(text)).map(Into::into);
                text.map(Some).ok_or(TokenAnswerFault::Unreadable)
            }
        };
        let access_token = text("access_token")?.ok_or(TokenAnswerFault::Unreadable)?;
        // RFC 6749 section 5.1 has it in each answer, in letters of any size.
        let kind = text("token_type")?.unwrap_or_default();
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(TokenAnswerFault::OtherType(shown(&kind)));
        }
        let seconds = object.member("expires_in").and_then(|value| match value.text() {
            // Some providers write it as text.
            Some(text) => text.parse().ok(),
            None => value.number(),
        });
        Ok(TokenAnswer {
            id_token: text("id_token")?,
            access_token,
            refresh_token: text("refresh_token")?,
            expires_in: seconds.filter(|seconds| *seconds >= 0.0).map(|seconds| seconds as u64),
        })
    }
}

/// As it goes into the log.
fn shown(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(CODE_BYTES_MAX).collect()
}

/// RFC 6749 appendix A: what can stand in a header field.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::{TokenAnswer, TokenAnswerFault};

    #[test]
    fn tokens_are_read_and_refusals_told_apart() {
        let read = TokenAnswer::read(
            200,
            br#"{"access_token":"a","token_type":"bEARER","id_token":"i","refresh_token":null,"expires_in":"300","x":1}"#,
        );
        let expected =
            TokenAnswer { id_token: Some("i".into()), access_token: "a".into(), refresh_token: None, expires_in: Some(300) };
        assert_eq!(read, Ok(expected));
        let check = |status: u16, body: &str, expected: TokenAnswerFault| {
            assert_eq!(TokenAnswer::read(status, body.as_bytes()), Err(expected), "{status} {body}");
        };
        check(400, r#"{"error":"invalid_grant"}"#, TokenAnswerFault::InvalidGrant);
        check(401, r#"{"error":"invalid_client"}"#, TokenAnswerFault::Refused("invalid_client".into()));
        check(400, "{\"error\":\"a\\nb\"}", TokenAnswerFault::Refused("ab".into()));
        check(400, "<html>", TokenAnswerFault::Status(400));
        check(500, r#"{"error":"invalid_grant"}"#, TokenAnswerFault::Status(500));
        check(302, "", TokenAnswerFault::Status(302));
        check(200, "<html>", TokenAnswerFault::Unreadable);
        check(200, "{}", TokenAnswerFault::Unreadable);
        check(200, r#"{"access_token":"a\r\nSet-Cookie: b"}"#, TokenAnswerFault::Unreadable);
        check(200, r#"{"access_token":"a","token_type":"Bearer","refresh_token":7}"#, TokenAnswerFault::Unreadable);
        check(200, r#"{"access_token":"a"}"#, TokenAnswerFault::OtherType(String::new()));
        check(200, r#"{"access_token":"a","token_type":"DPoP"}"#, TokenAnswerFault::OtherType("DPoP".into()));
        check(200, r#"{"access_token":"a","token_type":7}"#, TokenAnswerFault::Unreadable);
        check(200, &format!("{{\"access_token\":\"{}\"}}", "a".repeat(20_000)), TokenAnswerFault::Unreadable);
    }
}
