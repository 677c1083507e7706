//! Hashes that spread: not for secrets, and not for tables whose keys an attacker chooses.

/// The finaliser of SplitMix64: every input bit reaches every output bit.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// FNV-1a, then mixed: keys are short and the result only has to spread.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    let folded =
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mix(folded)
}

/// A number strictly between 0 and 1, of 53 of the bits.
pub(crate) fn fraction(bits: u64) -> f64 {
    ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Weighted rendezvous hashing: the server with the highest score for a key gets it, so a server that leaves moves only
/// its own keys.
pub(crate) fn rendezvous_score(identity_hash: u64, weight: u64, key_hash: u64) -> f64 {
    weight as f64 / -fraction(mix(identity_hash ^ mix(key_hash))).ln()
}
