//! What a provider says of somebody beside the ID token (OpenID Connect Core section 5.3): claims that are too long for
//! tokens, or that it puts into none. Only what the ID token does not say itself is taken from it, and nothing that
//! says what a token is.

use crate::claims::Claims;
use crate::json::Value;
use thiserror::Error;

/// Bytes of claims that fit into cookies, with all else that a session has.
const CLAIMS_BYTES_MAX: usize = 16 * 1024;
/// Of tokens and log-ins, about which this answer has no say.
const OF_TOKENS: [&str; 14] =
    ["iss", "aud", "exp", "nbf", "iat", "jti", "azp", "nonce", "sid", "at_hash", "c_hash", "acr", "amr", "auth_time"];

/// Why an answer about somebody cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum UserInfoFault {
    #[error("the provider answers with status {0} when it is asked about somebody")]
    Status(u16),
    #[error("what the provider says of somebody is signed or encrypted; have it send JSON (`userinfo_signed_response_alg`)")]
    Signed,
    #[error("what the provider says of somebody is no JSON object with claims")]
    Unreadable,
    /// Section 5.3.2: of whom else it is must never be used.
    #[error("what the provider says is of somebody else than the ID token (`sub`)")]
    OtherSubject,
    #[error("what the provider says of somebody has more than {CLAIMS_BYTES_MAX} bytes that are not in the ID token")]
    TooLong,
}

/// Claims that an answer adds to those of an ID token, as an object.
pub fn user_info(of_token: &Claims, (status, kind): (u16, &[u8]), body: &[u8]) -> Result<Box<str>, UserInfoFault> {
    if status != 200 {
        return Err(UserInfoFault::Status(status));
    }
    let is_signed = kind.get(..15).is_some_and(|start| start.eq_ignore_ascii_case(b"application/jwt"));
    if is_signed {
        return Err(UserInfoFault::Signed);
    }
    let object = Value::parse_object(body).map_err(|_| UserInfoFault::Unreadable)?;
    let subject = |value: Option<Value<'_>>| value.and_then(Value::text).map(std::borrow::Cow::into_owned);
    match subject(object.member("sub")) {
        None => return Err(UserInfoFault::Unreadable),
        said if said != subject(of_token.claim("sub")) => return Err(UserInfoFault::OtherSubject),
        Some(_) => {}
    }
    let more = missing_of(of_token, object);
    if more.len() > CLAIMS_BYTES_MAX {
        return Err(UserInfoFault::TooLong);
    }
    Ok(more)
}

/// What of an object an ID token does not say, as an object.
pub(crate) fn missing_of(of_token: &Claims, object: Value<'_>) -> Box<str> {
    let mut more = String::from("{");
    for (name, value) in object.members() {
        if OF_TOKENS.contains(&&*name) || value.raw() == "null" || of_token.has(&name) {
            continue;
        }
        if more.len() > 1 {
            more.push(',');
        }
        write_text(&name, &mut more);
        more.push(':');
        more.push_str(value.raw());
    }
    if more.len() == 1 {
        return Box::default();
    }
    more.push('}');
    more.into()
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            _ => out.push(letter),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{CLAIMS_BYTES_MAX, UserInfoFault, missing_of, user_info};
    use crate::claims::Claims;
    use crate::json::Value;

    fn token() -> Claims {
        Claims::of_text(r#"{"iss":"https://a","aud":"me","sub":"alice","exp":1800000300,"email":"a@b"}"#).expect("claims")
    }

    #[test]
    fn what_the_token_says_counts_and_what_it_does_not_say_is_added() {
        let check = |body: &str, expected: Result<&str, UserInfoFault>| {
            let found = user_info(&token(), (200, b"application/json; charset=utf-8"), body.as_bytes());
            assert_eq!(found.as_deref().map_err(|fault| *fault), expected, "{body}");
        };
        check(r#"{"sub":"alice"}"#, Ok(""));
        check(r#"{"sub":"alice","email":"root@b","groups":["staff"]}"#, Ok(r#"{"groups":["staff"]}"#));
        check(r#"{"groups":["a","b"],"sub":"alice","name":"A","x":null}"#, Ok(r#"{"groups":["a","b"],"name":"A"}"#));
        check(r#"{"sub":"al\u0069ce","a\"b\u0001":1}"#, Ok("{\"a\\\"b\\u0001\":1}"));
        // What a token is, it says itself.
        check(r#"{"sub":"alice","exp":4000000000,"aud":"you","nbf":1,"sid":"s","iss":"b","acr":"high"}"#, Ok(""));
        check(r#"{"sub":"bob","groups":["staff"]}"#, Err(UserInfoFault::OtherSubject));
        check(r#"{"sub":"Alice"}"#, Err(UserInfoFault::OtherSubject));
        for unreadable in ["", "<html>", "[]", "{}", r#"{"sub":7}"#, r#"{"sub":"alice","sub":"alice"}"#, r#"{"sub":["alice"]}"#] {
            check(unreadable, Err(UserInfoFault::Unreadable));
        }
        let long = format!(r#"{{"sub":"alice","a":"{}"}}"#, "a".repeat(CLAIMS_BYTES_MAX));
        check(&long, Err(UserInfoFault::TooLong));
        let body = br#"{"sub":"alice"}"#;
        assert_eq!(user_info(&token(), (503, b""), body), Err(UserInfoFault::Status(503)));
        assert_eq!(user_info(&token(), (200, b"application/JWT"), body), Err(UserInfoFault::Signed));
    }

    #[test]
    fn claims_of_before_give_way_to_those_of_a_new_token() {
        let before = Value::parse_object(br#"{"email":"old@b","groups":["staff"]}"#).expect("an object");
        assert_eq!(&*missing_of(&token(), before), r#"{"groups":["staff"]}"#);
    }
}
