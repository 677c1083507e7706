//! What `htpasswd` writes unless told otherwise: MD5 in Apache's thousand rounds (`$apr1$`), and SHA-1 without a salt
//! (`{SHA}`). Whoever has such a hash finds most passwords in minutes; they are taken because files of them are there.

use super::{HashFault, Kind};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use md5::{Digest, Md5};

pub(super) const APR1: &str = "$apr1$";
pub(super) const SHA: &str = "{SHA}";
pub(super) const APR1_NAME: &str = "MD5 (apr1)";
pub(super) const SHA_NAME: &str = "SHA-1 without a salt ({SHA})";

/// Apache looks at no more.
const SALT_BYTES_MAX: usize = 8;
const ROUNDS: usize = 1000;
const OUTPUT_CHARS: usize = 22;
/// In the order of the values; not that of base64.
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `$apr1$salt$output`; `rest` is what follows the mark.
pub(super) fn check_apr1(rest: &str) -> Result<Kind, HashFault> {
    let is_of_alphabet = |part: &str| part.bytes().all(|byte| ALPHABET.contains(&byte));
    let is_whole = rest.split_once('$').is_some_and(|(salt, output)| {
        salt.len() <= SALT_BYTES_MAX && is_of_alphabet(salt) && output.len() == OUTPUT_CHARS && is_of_alphabet(output)
    });
    if is_whole { Ok(Kind::Apr1) } else { Err(HashFault::Malformed(APR1_NAME)) }
}

/// `text` was checked before.
pub(super) fn fits_apr1(text: &str, password: &[u8]) -> bool {
    let Some((salt, output)) = text.strip_prefix(APR1).and_then(|rest| rest.split_once('$')) else { return false };
    verify_slices_are_equal(&apr1(password, salt.as_bytes()), output.as_bytes()).is_ok()
}

/// `{SHA}` and the hash in base64, which begins behind the mark.
pub(super) fn check_sha(encoded: &str) -> Result<Kind, HashFault> {
    match BASE64_STANDARD.decode(encoded) {
        Ok(output) if output.len() == SHA1_OUTPUT_LEN => Ok(Kind::Sha),
        _ => Err(HashFault::Malformed("SHA-1 ({SHA})")),
    }
}

pub(super) fn fits_sha(text: &str, password: &[u8]) -> bool {
    let Some(Ok(output)) = text.strip_prefix(SHA).map(|encoded| BASE64_STANDARD.decode(encoded)) else { return false };
    verify_slices_are_equal(digest(&SHA1_FOR_LEGACY_USE_ONLY, password).as_ref(), &output).is_ok()
}

/// The last part of the hash, as Apache's `apr_md5_encode` makes it.
fn apr1(password: &[u8], salt: &[u8]) -> [u8; OUTPUT_CHARS] {
    let of =
        |parts: &[&[u8]]| -> [u8; 16] { parts.iter().fold(Md5::new(), |md5, part| md5.chain_update(part)).finalize().into() };
    let inner = of(&[password, salt, password]);
    let mut md5 = Md5::new().chain_update(password).chain_update(APR1).chain_update(salt);
    for part in password.chunks(inner.len()) {
        md5.update(&inner[..part.len()]);
    }
    // A slip of the first author's that every implementation repeats: a zero, or the first byte, for each bit.
    let mut length = password.len();
    while length > 0 {
        md5.update(if length & 1 == 1 { &[0][..] } else { &password[..1] });
        length >>= 1;
    }
    let mut state: [u8; 16] = md5.finalize().into();
    for round in 0..ROUNDS {
        let (first, last): (&[u8], &[u8]) = if round % 2 == 1 { (password, &state) } else { (&state, password) };
        let salted = if round % 3 == 0 { &[][..] } else { salt };
        let repeated = if round % 7 == 0 { &[][..] } else { password };
        state = of(&[first, salted, repeated, last]);
    }
    in_letters(&state)
}

/// Three bytes each make four letters, the lowest bits first; the last byte makes two.
fn in_letters(state: &[u8; 16]) -> [u8; OUTPUT_CHARS] {
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut letters = [0; OUTPUT_CHARS];
    let (of_three, of_last) = letters.split_at_mut(20);
    for (letters, [high, middle, low]) in of_three.chunks_mut(4).zip(ORDER) {
        let bits = u32::from(state[high]) << 16 | u32::from(state[middle]) << 8 | u32::from(state[low]);
        write_bits(letters, bits);
    }
    write_bits(of_last, u32::from(state[11]));
    letters
}

fn write_bits(letters: &mut [u8], bits: u32) {
    for (position, letter) in letters.iter_mut().enumerate() {
        *letter = ALPHABET[(bits >> (6 * position)) as usize & 63];
    }
}
