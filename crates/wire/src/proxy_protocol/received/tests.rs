//! Headers as senders write them, and what is refused of those that nobody should write.

use super::{HeaderFault, RECEIVED_BYTES_MAX, Reading, Said, read};
use crate::proxy_protocol::checksum::crc32c;
use crate::proxy_protocol::{HeaderVersion, SIGNATURE, encode};
use std::net::SocketAddr;

fn said(source: &str, destination: &str) -> Said {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address of the test");
    Said::Addresses { source: address(source), destination: address(destination) }
}

/// The whole input is read, followed by bytes of the connection or not; and every shorter piece asks for more.
fn check(input: &[u8], expected: Said) {
    let whole = Ok(Reading::Whole { said: expected, consumed: input.len() });
    assert_eq!(read(input), whole, "{:?}", String::from_utf8_lossy(input));
    assert_eq!(read(&[input, b"GET / HTTP/1.1\r\n"].concat()), whole);
    for cut in 0..input.len() {
        assert_eq!(read(&input[..cut]), Ok(Reading::NeedMore), "cut at {cut} of {:?}", String::from_utf8_lossy(input));
    }
}

fn refuse(input: &[u8], expected: HeaderFault) {
    assert_eq!(read(input), Err(expected), "{:?}", String::from_utf8_lossy(input));
}

#[test]
fn lines_of_version_1() {
    check(b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n", said("192.0.2.1:1234", "198.51.100.2:443"));
    check(b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", said("[2001:db8::1]:65535", "[::1]:0"));
    check(b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:c000:202 1 2\r\n", said("192.0.2.1:1", "192.0.2.2:2"));
    check(b"PROXY UNKNOWN\r\n", Said::Nothing);
    check(b"PROXY UNKNOWN ffff::1 whatever  else\r\n", Said::Nothing);
    check(
        b"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        said("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
    );
}

#[test]
fn lines_that_are_not_as_they_have_to_be() {
    for line in [
        &b"PROXY \r\n"[..],
        b"PROXY TCP4\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1234\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443 \r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443 1\r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.2 1234 443\r\n",
        b"PROXY TCP4\t192.0.2.1 198.51.100.2 1234 443\r\n",
        b"PROXY TCP4 192.0.2.01 198.51.100.2 1234 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 01234 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 +1 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 65536 443\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 -1 443\r\n",
        b"PROXY TCP4 192.0.2.256 198.51.100.2 1 443\r\n",
        b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.2 1 443\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY TCP6 [::1] ::1 1 2\r\n",
        b"PROXY tcp4 192.0.2.1 198.51.100.2 1234 443\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.2 1234 443\r\n",
        b"PROXY UNKNOWNS\r\n",
        b"PROXY UNKNOWN \rb\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\r\n",
        b"PROXY \xff\xfe\r\n",
    ] {
        refuse(line, HeaderFault::BadLine);
    }
    refuse(&[&b"PROXY UNKNOWN "[..], &[b'a'; 93]].concat(), HeaderFault::TooLong);
    check(&[&b"PROXY UNKNOWN "[..], &[b'a'; 91], b"\r\n"].concat(), Said::Nothing);
}

#[test]
fn what_begins_in_another_way_is_no_header() {
    for input in
        [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"proxy ", b"PROXZ", b"PROXY\t", b"\r\n\r\n\0\r\nQUIT\r", b"\r\nG", b"\0"]
    {
        refuse(input, HeaderFault::Missing);
    }
}

/// A header of version 2 behind the signature: command, family, and what follows the length.
fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).expect("short").to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, block].concat()
}

const V4: &[u8] = b"\xc0\0\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb";

fn with(addresses: &[u8], extensions: &[u8]) -> Vec<u8> {
    [addresses, extensions].concat()
}

#[test]
fn headers_of_version_2() {
    let v4 = said("192.0.2.1:258", "198.51.100.2:443");
    check(&binary(0x21, 0x11, V4), v4);
    check(&binary(0x21, 0x11, &with(V4, b"\x04\0\0\x02\0\x01a\xee\0\x02bc")), v4);
    let v6 = b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\x02\x01\0\x01\0\x02";
    check(&binary(0x21, 0x21, v6), said("[2001:db8::1]:1", "192.0.2.1:2"));
    check(&binary(0x21, 0x31, &[b'/'; 216]), Said::Nothing);
    check(&binary(0x21, 0x31, &with(&[0; 216], b"\x04\0\0")), Said::Nothing);
    check(&binary(0x21, 0x00, b""), Said::Nothing);
    check(&binary(0x21, 0x00, b"anything"), Said::Nothing);
    check(&binary(0x20, 0x00, b""), Said::Nothing);
    check(&binary(0x20, 0x11, V4), Said::Nothing);
    check(&binary(0x20, 0xff, b"anything"), Said::Nothing);
    let padding = RECEIVED_BYTES_MAX - 16 - 12 - 3;
    let longest = with(V4, &[&[4, (padding >> 8) as u8, padding as u8][..], &vec![0; padding]].concat());
    check(&binary(0x21, 0x11, &longest), v4);
}

#[test]
fn headers_of_version_2_that_are_not_as_they_have_to_be() {
    refuse(&binary(0x11, 0x11, V4), HeaderFault::BadVersion);
    refuse(&binary(0x31, 0x11, V4), HeaderFault::BadVersion);
    refuse(&binary(0x22, 0x11, V4), HeaderFault::BadCommand);
    for family in [0x01, 0x10, 0x12, 0x13, 0x22, 0x32, 0x41, 0xff] {
        refuse(&binary(0x21, family, &[0; 216]), HeaderFault::BadFamily);
    }
    refuse(&binary(0x21, 0x11, &V4[..11]), HeaderFault::TooShort);
    refuse(&binary(0x21, 0x21, &[0; 35]), HeaderFault::TooShort);
    refuse(&binary(0x21, 0x31, &[0; 215]), HeaderFault::TooShort);
    for extensions in [&b"\x04"[..], b"\x04\0", b"\x04\0\x01", b"\x04\0\0\x04", b"\x04\x01\0a", b"\x03\0\x03abc"] {
        refuse(&binary(0x21, 0x11, &with(V4, extensions)), HeaderFault::BadExtension);
    }
    // Said as soon as it can be, before the rest was sent.
    let announced = [&SIGNATURE[..], b"\x21\x11\x10\0"].concat();
    refuse(&announced, HeaderFault::TooLong);
    refuse(&[&SIGNATURE[..], b"\x99"].concat(), HeaderFault::BadVersion);
}

#[test]
fn a_checksum_has_to_fit() {
    let unsummed = binary(0x21, 0x11, &with(V4, b"\x02\0\x01a\x03\0\x04\0\0\0\0\x04\0\x02\0\0"));
    let sum = crc32c([&unsummed, b"", b""]);
    let place = 16 + 12 + 4 + 3;
    let summed = |sum: u32| {
        let mut header = unsummed.clone();
        header[place..place + 4].copy_from_slice(&sum.to_be_bytes());
        header
    };
    check(&summed(sum), said("192.0.2.1:258", "198.51.100.2:443"));
    refuse(&summed(sum ^ 1), HeaderFault::BadChecksum);
    let mut changed = summed(sum);
    changed[16] ^= 1;
    refuse(&changed, HeaderFault::BadChecksum);
}

#[test]
fn what_is_written_is_read() {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address of the test");
    for (source, destination) in [
        ("192.0.2.1:1", "198.51.100.2:65535"),
        ("[2001:db8::1]:0", "[2001:db8:0:1::2]:443"),
        ("192.0.2.1:1", "[2001:db8::1]:2"),
        ("[2001:db8::1]:2", "192.0.2.1:1"),
    ] {
        for version in [HeaderVersion::V1, HeaderVersion::V2] {
            check(encode(version, address(source), address(destination)).as_bytes(), said(source, destination));
        }
    }
}
