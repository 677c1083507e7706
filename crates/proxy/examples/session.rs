//! What a request with a session costs: opened for the first time (decrypted, its claims looked through), and known
//! from before. `cargo run --profile dev-release -p tidegate-proxy --example session`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
use tidegate_access::oidc::{Purpose, Realm, SessionKeys, join_chunks, split_chunks};
use tidegate_proxy::auth::oidc::OpenedSessions;

const ROUNDS: u32 = 20_000;

/// As it lies in a cookie: an ID token with that many groups, and a refresh token.
fn session(groups: usize) -> Vec<u8> {
    let groups: Vec<String> = (0..groups).map(|number| format!("\"/group/{number:04}\"")).collect();
    let claims = format!(
        "{{\"iss\":\"https://idp.example.com/realms/shop\",\"aud\":\"tidegate\",\"sub\":\"3a1f7c62\",\"sid\":\"77c2\",\"exp\":4000000000,\
         \"email\":\"alice@example.com\",\"groups\":[{}]}}",
        groups.join(",")
    );
    let mut bytes = vec![2];
    bytes.extend_from_slice(&[7; 16]);
    for number in [1_800_000_000_u64, 4_000_000_000, 0] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    for part in ["{\"alg\":\"RS256\",\"kid\":\"abcdefgh\"}", &claims, &"s".repeat(256), "", &"r".repeat(600), ""] {
        bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

fn main() {
    let realm = Realm { provider: &[9; 16], host: b"app.example.com" };
    for groups in [5, 50, 300] {
        let keys = Arc::new(SessionKeys::first([1; 32]));
        let sealed = keys.seal(Purpose::Session, realm, session(groups), 1_800_000_000, [3; 12]);
        let chunks = split_chunks(&sealed).expect("it fits");
        let join = || join_chunks(|number| chunks.get(number).map(String::as_bytes)).expect("whole");
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            let opened = OpenedSessions::default().open(&keys, realm, join());
            black_box(opened.expect("a session"));
        }
        let first = begin.elapsed() / ROUNDS;
        let mut sessions = OpenedSessions::default();
        let begin = Instant::now();
        for _ in 0..ROUNDS {
            black_box(sessions.open(&keys, realm, join()).expect("a session"));
        }
        println!("{} bytes in {} cookies: first {first:?}, known {:?}", sealed.len(), chunks.len(), begin.elapsed() / ROUNDS);
    }
}
