//! Whether what a token says is what a route wants of it.

use crate::claims::Claims;
use crate::json::Value;
use tidegate_model::{ClaimRequirement, ClaimTest};

pub fn is_met(requirement: &ClaimRequirement, claims: &Claims) -> bool {
    let Some(value) = claims.claim(&requirement.claim) else { return false };
    match &requirement.test {
        ClaimTest::Present => value.raw() != "null",
        ClaimTest::Equals(wanted) => is_equal(value, wanted),
        ClaimTest::OneOf(wanted) => wanted.iter().any(|wanted| is_equal(value, wanted)),
        ClaimTest::Contains(wanted) if value.is_list() => value.elements().any(|one| is_equal(one, wanted)),
        // Scopes are words with spaces between them (RFC 6749 section 3.3).
        ClaimTest::Contains(wanted) => {
            value.text().is_some_and(|text| text.split(' ').any(|word| !word.is_empty() && word == wanted))
        }
    }
}

/// Text by its bytes; numbers and truth as they are written.
fn is_equal(value: Value<'_>, wanted: &str) -> bool {
    match value.text() {
        Some(text) => text == wanted,
        None => !value.is_object() && !value.is_list() && value.raw() != "null" && value.raw() == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::is_met;
    use crate::claims::Claims;
    use tidegate_model::{ClaimRequirement, ClaimTest};

    #[test]
    fn claims_are_compared_by_what_they_are() {
        let text = r#"{"sub":"alice","scope":"read write:all","n":5,"ok":true,"nil":null,"roles":["a","b",7],
            "realm_access":{"roles":["admin"]},"https://example.com/roles":["x"],"empty":"","o":{"a":1}}"#;
        let claims = Claims::read(text.into(), None).expect("claims");
        let check = |claim: &str, test: ClaimTest, expected: bool| {
            let requirement = ClaimRequirement { claim: claim.into(), test };
            assert_eq!(is_met(&requirement, &claims), expected, "{requirement:?}");
        };
        let equals = |text: &str| ClaimTest::Equals(text.into());
        let contains = |text: &str| ClaimTest::Contains(text.into());
        let one_of = |texts: &[&str]| ClaimTest::OneOf(texts.iter().map(|text| (*text).to_owned()).collect());
        check("sub", ClaimTest::Present, true);
        check("nil", ClaimTest::Present, false);
        check("missing", ClaimTest::Present, false);
        check("sub", equals("alice"), true);
        check("sub", equals("Alice"), false);
        check("n", equals("5"), true);
        check("n", equals("5.0"), false);
        check("ok", equals("true"), true);
        check("nil", equals("null"), false);
        check("o", equals("{\"a\":1}"), false);
        check("empty", equals(""), true);
        check("missing", equals(""), false);
        check("sub", one_of(&["bob", "alice"]), true);
        check("sub", one_of(&["bob"]), false);
        check("scope", contains("read"), true);
        check("scope", contains("write"), false);
        check("scope", contains("write:all"), true);
        check("scope", contains("read write:all"), false);
        check("empty", contains(""), false);
        check("roles", contains("b"), true);
        check("roles", contains("7"), true);
        check("roles", contains("ab"), false);
        check("roles", equals("a"), false);
        check("realm_access.roles", contains("admin"), true);
        check("realm_access.groups", contains("admin"), false);
        check("https://example.com/roles", contains("x"), true);
    }
}
