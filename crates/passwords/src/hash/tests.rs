//! Hashes of other programs, what is refused and how, and the bounds.

use super::{HashFault, PasswordHash};

/// Of `secret`, as `htpasswd -B`, `argon2` and `openssl passwd` write them.
const SHA_512: &str = "$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1";
const SHA_512_ROUNDS: &str =
    "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/";
const SHA_256: &str = "$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA";

/// The first two stand in Apache's documentation, the others are of `openssl passwd -apr1`: of every length that the
/// algorithm treats in its own way.
const APR1_OF_OTHERS: &[(&str, &str)] = &[
    ("$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/", "myPassword"),
    ("$apr1$qHDFfhPC$nITSVHgYbDAK1Y0acGRnY0", "myPassword"),
    ("$apr1$saltsalt$a8ml/vK5HEjiZ5oypDWA7/", ""),
    ("$apr1$a$lsAcX0kKaMIVmrCtUuk5b0", ""),
    ("$apr1$xx/.Z9$AdD8t6ecjByNc9wRxVkWA1", ""),
    ("$apr1$saltsalt$OEnK0QmmvoDzFw9W2yFYT/", "a"),
    ("$apr1$a$drFGR/9p/sjZ9/qPTUuIf/", "a"),
    ("$apr1$xx/.Z9$G6rsbYMNWqP7vaYxO0pR/0", "a"),
    ("$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0", "secret"),
    ("$apr1$a$PtM1vJaZieHDFk40mKMu6/", "secret"),
    ("$apr1$xx/.Z9$VfOo982/wH6uTqx/vu0Pt/", "secret"),
    ("$apr1$saltsalt$noZiBycUL1t9WTQEO7/nr1", "0123456789abcdef"),
    ("$apr1$a$khwFEGycQESUBHFR0UD/c.", "0123456789abcdef"),
    ("$apr1$xx/.Z9$39zWReWrg1YgTbIzp8iaj1", "0123456789abcdef"),
    ("$apr1$saltsalt$zEghXWGhM0psocYwTG.hX1", "0123456789abcdefg"),
    ("$apr1$a$zNcJqxMW4ckd4C2f.ntE9.", "0123456789abcdefg"),
    ("$apr1$xx/.Z9$kIEnRcNK3ASe8EKA7SyKx.", "0123456789abcdefg"),
    ("$apr1$saltsalt$W4AkmgEtR/T/bofW912MX0", "Ä ö:"),
    ("$apr1$xx/.Z9$Fuwyhy/Ral.JRvKmcLEHg0", "Ä ö:"),
    ("$apr1$a$fOcOhRqALTYKWAftyuQso1", "Ä ö:"),
];
/// Of forty times `long`.
const APR1_OF_LONG: &str = "$apr1$longlong$NZs1v5dDPJyuP.nzXCS/c/";

#[test]
fn passwords_fit_the_hashes_that_other_programs_made_of_them() {
    let check = |text: &str, password: &str| {
        let hash = PasswordHash::parse(text).expect("a hash that is taken");
        assert_eq!(hash.verify(password.as_bytes()), Ok(true), "{text}");
        assert_eq!(hash.verify(b"Secret"), Ok(false), "{text}");
        assert_eq!(hash.verify(b""), Ok(false), "{text}");
        assert_eq!(hash.reveal(), text);
    };
    check(SHA_512, "secret");
    check(SHA_512_ROUNDS, "secret");
    check(SHA_256, "secret");
    // The vectors of the algorithms' own test suites.
    check("$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U");
    check("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "U*U");
    check("$2b$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK", "U*U*");
    check("$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iekCn0Y3spW+sCcFanM2xBT63UP2sghkUoHLIUpWRS8", "password");
    check("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "password");
}

#[test]
fn passwords_fit_what_htpasswd_writes() {
    let check = |text: &str, password: &str, weakness: &str| {
        let hash = PasswordHash::parse(text).expect("a hash that is taken");
        assert_eq!(hash.verify(password.as_bytes()), Ok(true), "{text}");
        assert_eq!(hash.verify(format!("{password}0").as_bytes()), Ok(false), "{text}");
        assert_eq!(hash.verify(b"other"), Ok(false), "{text}");
        assert_eq!((hash.reveal(), hash.weakness()), (text, Some(weakness)));
    };
    let (apr1, sha) = ("MD5 (apr1)", "SHA-1 without a salt ({SHA})");
    for (text, password) in APR1_OF_OTHERS {
        check(text, password, apr1);
    }
    check(APR1_OF_LONG, &"long".repeat(40), apr1);
    check("{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=", "myPassword", sha);
    check("{SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "", sha);
    assert_eq!(PasswordHash::parse(SHA_256).expect("a hash that is taken").weakness(), None);
}

#[test]
fn what_is_weak_or_unknown_is_refused_by_name() {
    let check = |text: &str, expected: HashFault| assert_eq!(PasswordHash::parse(text), Err(expected), "{text}");
    check("", HashFault::Empty);
    check("secret", HashFault::PlainText);
    check("rqXexS6ZhobKA", HashFault::PlainText);
    check("{PLAIN}secret", HashFault::PlainText);
    check("{SSHA}abcd", HashFault::TooWeak("SHA-1 ({SSHA})"));
    check("$1$saltsalt$LrttParrLPdxvgutaSXWJ0", HashFault::TooWeak("MD5-crypt ($1$)"));
    check("$2x$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", HashFault::TooWeak("bcrypt of a faulty version (2x)"));
    check("$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7", HashFault::Unknown("yescrypt"));
    check("$", HashFault::PlainText);
    check("$$", HashFault::PlainText);
}

#[test]
fn a_hash_is_whole_or_none() {
    let check = |text: &str, kind: &'static str| assert_eq!(PasswordHash::parse(text), Err(HashFault::Malformed(kind)), "{text}");
    check("$2y$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOe", "bcrypt");
    check("$2y$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "bcrypt");
    check("$2y$", "bcrypt");
    check("$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ", "Argon2");
    check("$argon2id$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "Argon2");
    check("$argon2id$v=20$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4", "Argon2");
    check("$argon2id$", "Argon2");
    check("$6$saltsalt", "SHA-crypt");
    check("$apr1$saltsalt$LrttParrLPdxvgutaSXWJ", "MD5 (apr1)");
    check("$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0$", "MD5 (apr1)");
    check("$apr1$saltsalts$LrttParrLPdxvgutaSXWJ0", "MD5 (apr1)");
    check("$apr1$salt+$LrttParrLPdxvgutaSXWJ0", "MD5 (apr1)");
    check("$apr1$", "MD5 (apr1)");
    check("{SHA}", "SHA-1 ({SHA})");
    check("{sha}5en6G6MezRroT3XKqkdPOmY/BfQ=", "SHA-1 ({SHA})");
    check("{SHA}5en6G6MezRroT3XKqkdPOmY/Bf==", "SHA-1 ({SHA})");
    check("{SHA}secret", "SHA-1 ({SHA})");
    check(&SHA_512[..SHA_512.len() - 1], "SHA-crypt");
    check(&format!("{SHA_512}$more"), "SHA-crypt");
    check(&format!("$6${}$", "a".repeat(600)), "password");
}

#[test]
fn what_a_hash_may_cost_is_bounded() {
    let check = |text: &str, expected: HashFault, said: &str| {
        let fault = PasswordHash::parse(text).expect_err("too costly");
        assert_eq!(fault, expected);
        assert_eq!(fault.to_string(), said);
    };
    let bcrypt = |cost: u32| format!("$2y${cost:02}$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW");
    assert!(PasswordHash::parse(&bcrypt(15)).is_ok());
    check(&bcrypt(31), HashFault::BcryptCost(31), "the bcrypt hash has a cost of 31, and the limit is 15");
    let argon2 = |memory: u32, passes: u32| {
        format!("$argon2id$v=19$m={memory},t={passes},p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4")
    };
    assert!(PasswordHash::parse(&argon2(256 << 10, 4)).is_ok());
    check(
        &argon2(4 << 20, 1),
        HashFault::Argon2Memory { memory_kib: 4 << 20 },
        "the Argon2 hash asks for 4096 MiB of memory, and the limit is 256 MiB",
    );
    check(
        &argon2(256 << 10, 5),
        HashFault::Argon2Work { memory_kib: 256 << 10, passes: 5 },
        "the Argon2 hash asks for 5 passes over 256 MiB, and the limit is 1024 MiB over all passes",
    );
    let rounds = |rounds: &str| SHA_512_ROUNDS.replace("rounds=1000", &format!("rounds={rounds}"));
    check(
        &rounds("999999999"),
        HashFault::ShaCryptRounds(999_999_999),
        "the SHA-crypt hash asks for 999999999 rounds; 1000 to 1000000 may be asked for",
    );
    check(
        &rounds("10"),
        HashFault::ShaCryptRounds(10),
        "the SHA-crypt hash asks for 10 rounds; 1000 to 1000000 may be asked for",
    );
}

#[test]
fn a_hash_is_not_printed() {
    let printed = format!("{:?}", PasswordHash::parse(SHA_256).expect("a hash that is taken"));
    assert!(!printed.contains("saltsalt"), "{printed}");
}
