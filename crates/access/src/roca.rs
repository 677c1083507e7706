//! Keys of RSA that a widely sold chip has made so that they can be factored (ROCA, CVE-2017-15361). Their moduli are
//! powers of 65537 for each of many small primes, which one of another make is by chance only once in 2^27 and more.

/// The odd primes of the fingerprint that the finders have published, up to 167; of 2 nothing can be told.
const PRIMES: [u32; 38] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127,
    131, 137, 139, 149, 151, 157, 163, 167,
];

/// Of a modulus in big-endian bytes.
pub fn is_weak(modulus: &[u8]) -> bool {
    PRIMES.iter().all(|prime| {
        let rest = modulus.iter().fold(0, |rest, byte| (rest * 256 + u32::from(*byte)) % prime);
        is_power(65_537 % prime, rest, *prime)
    })
}

/// Whether `wanted` is a power of `base` modulo a prime.
fn is_power(base: u32, wanted: u32, prime: u32) -> bool {
    let mut power = 1;
    for _ in 0..prime {
        if power == wanted {
            return true;
        }
        power = power * base % prime;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{PRIMES, is_power, is_weak};

    #[test]
    fn powers_are_found() {
        let check = |base: u32, wanted: u32, prime: u32, expected: bool| {
            assert_eq!(is_power(base, wanted, prime), expected, "{base} {wanted} {prime}");
        };
        check(2, 4, 7, true);
        check(2, 3, 7, false);
        check(3, 5, 7, true);
        check(1, 1, 3, true);
        check(1, 2, 3, false);
        check(5, 0, 11, false);
    }

    #[test]
    fn only_what_fits_all_primes_is_weak() {
        // 65537 itself is a power of itself for each of them, and no multiple of one ever is.
        assert!(is_weak(&[1, 0, 1]));
        for prime in PRIMES {
            assert!(!is_weak(&(65_537 * prime).to_be_bytes()), "{prime}");
        }
        assert!(!is_weak(&[0xff; 256]));
    }
}
