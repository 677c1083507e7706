//! Hellos of real clients, with fingerprints that another program made of the same bytes, and lists that are published
//! with theirs.

use super::{Offer, ends, ja4, list, push_hash, sorted};

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref());
    digest
}

const CHROMIUM: &[u8] = include_bytes!("hellos/chromium.bin");

#[test]
fn clients_are_told_apart() {
    let check = |hello: &[u8], expected: &str| {
        assert_eq!(ja4(hello, &mut Vec::new(), sha256).as_deref(), Some(expected));
        for end in 0..hello.len() {
            assert_eq!(ja4(&hello[..end], &mut Vec::new(), sha256), None, "cut at {end}");
        }
        // The same in two records.
        let (first, second) = hello[5..].split_at(100);
        let record = |content: &[u8]| [&[22, 3, 1], &(content.len() as u16).to_be_bytes()[..], content].concat();
        assert_eq!(ja4(&[record(first), record(second)].concat(), &mut Vec::new(), sha256).as_deref(), Some(expected));
    };
    check(include_bytes!("hellos/openssl.bin"), "t13d311000_e8f1e7e78f70_1f22a2ca17c4");
    check(include_bytes!("hellos/openssl_tls12.bin"), "t12i280600_d943125447b4_e7e480e5a997");
    check(include_bytes!("hellos/curl.bin"), "t13d3112h2_e8f1e7e78f70_b26ce05bbdd6");
    check(CHROMIUM, "t13d1517h2_8daaf6152771_cb7bf5808d99");
}

#[test]
fn published_lists_have_their_published_hashes() {
    let check = |lists: &str, expected: &str| {
        let mut text = String::new();
        push_hash(&mut text, lists, sha256);
        assert_eq!(text, expected, "of {lists}");
    };
    check("002f,0035,009c,009d,1301,1302,1303,c013,c014,c02b,c02c,c02f,c030,cca8,cca9", "8daaf6152771");
    check(
        "0005,000a,000b,000d,0012,0015,0017,001b,0023,002b,002d,0033,4469,ff01_0403,0804,0401,0503,0805,0501,0806,0601",
        "e5627efa2ab1",
    );
    check(
        "0005,000a,000b,000d,0012,0017,001b,0023,002b,002d,0033,44cd,fe0d,ff01_0403,0804,0401,0503,0805,0501,0806,0601",
        "d8a2da3f94cd",
    );
    check("00ff,1301,1302,1303,c02b,c02c,c02f,c030,cca8,cca9", "61a7ad8aa9b6");
    check("", "000000000000");
}

#[test]
fn what_means_nothing_does_not_count() {
    let Ok(offer) = Offer::read(&CHROMIUM[9..]) else { panic!("a hello") };
    assert_eq!(list(sorted(&offer.ciphers)), "002f,0035,009c,009d,1301,1302,1303,c013,c014,c02b,c02c,c02f,c030,cca8,cca9");
    assert_eq!(offer.version(), "13");
}

#[test]
fn a_protocol_is_named_by_its_ends() {
    let check = |protocol: &[u8], expected: &str| {
        assert_eq!(String::from_iter(ends(protocol)), expected, "{}", protocol.escape_ascii());
    };
    check(b"h2", "h2");
    check(b"http/1.1", "h1");
    check(b"x", "xx");
    check(b"", "00");
    check(&[0xab], "ab");
    check(&[0x30, 0xab], "3b");
    check(&[0x30, 0x31, 0xab, 0xcd], "3d");
    check(&[0x0a, 0x0a], "0a");
}

#[test]
fn a_hello_without_extensions_has_a_name_as_well() {
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let message = [&[1, 0, 0, body.len() as u8][..], &body].concat();
    let record = [&[22, 3, 1, 0, message.len() as u8][..], &message].concat();
    let seen = ja4(&record, &mut Vec::new(), sha256).expect("a hello");
    assert_eq!(seen, format!("t12i010000_{}_000000000000", &seen[11..23]));
    assert_eq!(ja4(b"GET / HTTP/1.1\r\n\r\n", &mut Vec::new(), sha256), None);
}
