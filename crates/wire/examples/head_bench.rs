//! Prints the nanoseconds per request head for typical clients: `cargo run --release -p tidegate-wire --example
//! head_bench`. A quick look while changing the parser; the figures that count come from the whole proxy under load.

use std::hint::black_box;
use std::time::Instant;
use tidegate_wire::chunked::Peer;
use tidegate_wire::http1::{Parsed, parse_request, request_framing};
use tidegate_wire::{BodyDecoder, BodyFraming, HeadLimits, RequestHead};

const ROUNDS: u32 = 1_000_000;
const SAMPLES: u32 = 5;

const CURL: &str = "GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n\r\n";

const FIVE_FIELDS: &str = "GET /api/v2/items?page=3&sort=name HTTP/1.1\r\nHost: www.example.com\r\n\
    User-Agent: load-generator/1.4 (linux; x86_64)\r\nAccept: application/json, text/plain\r\n\
    Accept-Encoding: gzip, br\r\nX-Client-Version: 2026.11\r\n\r\n";

const BROWSER: &str = "GET /assets/app.3f2a91.js HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\"\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36\r\n\
    Accept: */*\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: no-cors\r\nReferer: https://www.example.com/shop/cart\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Cookie: session=4b5f7f0e8f2d4f6a9d1f3c2b; theme=dark; consent=1\r\n\r\n";

fn main() {
    for (name, text) in [("curl", CURL), ("five fields", FIVE_FIELDS), ("browser", BROWSER)] {
        let limits = HeadLimits::default();
        let mut head = RequestHead::default();
        let nanoseconds = best_of_samples(|| {
            let parsed = parse_request(black_box(text.as_bytes()), &limits, &mut head);
            assert_eq!(parsed, Ok(Parsed::Complete { consumed: text.len() }));
            black_box(request_framing(&head)).is_ok()
        });
        println!("{name:12} {:4} bytes, {:2} fields: {nanoseconds:6.1} ns", text.len(), head.fields.list.len());
    }
    let chunk = format!("800\r\n{}\r\n0\r\n\r\n", "x".repeat(0x800));
    let mut buffer = chunk.clone().into_bytes();
    let nanoseconds = best_of_samples(|| {
        let decoded =
            BodyDecoder::new(BodyFraming::Chunked, Peer::Client, &HeadLimits::default()).decode_in_place(black_box(&mut buffer));
        decoded.is_ok_and(|decoded| decoded.finished)
    });
    println!("one chunk    {:4} bytes           : {nanoseconds:6.1} ns", chunk.len());
}

/// The fastest sample is the one that other programs disturbed least.
fn best_of_samples(mut once: impl FnMut() -> bool) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            assert!(once());
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS));
    }
    best
}
