//! The tests of Project Wycheproof for signatures and keys: what others have got wrong. Where we differ from what they
//! say stands here, with the reason.

use tidegate_access::{Jws, KeySet, KeySetOrigin, TOKEN_BYTES_MAX};

/// By kind and number, and why the result is another one.
const OTHERWISE: &[(&str, u32, &str)] = &[
    ("signature", 346, "the key says PS256, the token PS384"),
    ("signature", 350, "as 346"),
    ("signature", 347, "the key is for `ES521`, which no standard knows"),
    ("signature", 351, "as 347"),
    ("signature", 367, "this token is letter by letter that of 357, which is good"),
    ("signature", 370, "as 367"),
    ("signature", 372, "a character that base64url does not have"),
    ("signature", 373, "as 372"),
    ("key", 4, "two keys of one name are both the issuer's; the token is tried with each"),
];

#[test]
fn results_are_those_of_wycheproof() {
    let (mut keys, mut kind, mut seen) = (None, String::new(), 0);
    let mut wrong = Vec::new();
    for line in include_str!("wycheproof.txt").lines().filter(|line| !line.starts_with('#')) {
        if let Some(set) = line.strip_prefix("keys ") {
            let (of, document) = set.split_once(' ').expect("a kind and a set");
            kind = of.to_owned();
            // Secrets among public keys are what an address must not give away.
            let is_mixed = document.contains("\"oct\"") && ["\"RSA\"", "\"EC\""].iter().any(|kind| document.contains(kind));
            let origin = if is_mixed { KeySetOrigin::Address } else { KeySetOrigin::File };
            keys = KeySet::parse(document.as_bytes(), origin).ok();
            continue;
        }
        let [number, result, token] = line.splitn(3, ' ').collect::<Vec<_>>().try_into().expect("three columns");
        let token: String = serde_json::from_str(token).expect("a string of JSON");
        let is_taken = keys
            .as_ref()
            .is_some_and(|keys| Jws::parse(token.as_bytes(), TOKEN_BYTES_MAX).and_then(|jws| jws.verify(keys)).is_ok());
        let number: u32 = number.parse().expect("a number");
        let is_otherwise = OTHERWISE.iter().any(|(of, other, _)| *of == kind && *other == number);
        if (is_taken != (result == "valid")) != is_otherwise {
            wrong.push(format!("{kind} {number}: {result}, and is {}", if is_taken { "taken" } else { "refused" }));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen, 426);
}
