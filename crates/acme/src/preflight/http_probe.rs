//! One request of HTTP/1.1 as a CA sends it for `http-01`: to an address, with the name as `Host`. It reads a status
//! and a short body, no more.

use crate::cause::one_line;
use crate::preflight::verdict::ProbeAnswer;
use crate::subject::Subject;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Head and body of what we would answer have a tenth of this.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// `text`: what we answer for the token, and nobody else can.
pub async fn ask(at: SocketAddr, subject: &Subject, token: &str, text: &str) -> ProbeAnswer {
    match exchange(at, subject, token).await {
        Ok(bytes) => read(&bytes, text),
        Err(error) => ProbeAnswer::None(error.to_string()),
    }
}

async fn exchange(at: SocketAddr, subject: &Subject, token: &str) -> io::Result<Vec<u8>> {
    let host = match subject {
        Subject::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
        Subject::Ip(IpAddr::V4(_)) | Subject::Host(_) | Subject::Wildcard(_) => subject.to_string(),
    };
    let mut stream = TcpStream::connect(at).await?;
    let request = format!(
        "GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tidegate-preflight\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::with_capacity(1024);
    let mut chunk = [0; 1024];
    while bytes.len() < ANSWER_BYTES_MAX {
        match stream.read(&mut chunk).await {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            // Who resets after an answer has answered.
            Err(error) if bytes.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(bytes)
}

fn read(bytes: &[u8], text: &str) -> ProbeAnswer {
    let answer = String::from_utf8_lossy(bytes);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let mut lines = head.lines();
    let status_line = lines.next().unwrap_or_default();
    let Some(status) = status_line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse::<u16>().ok()) else {
        return if bytes.is_empty() {
            ProbeAnswer::None("the connection was closed without an answer".into())
        } else {
            ProbeAnswer::Another("it does not speak HTTP".into())
        };
    };
    if status == 200 && body.contains(text) {
        return ProbeAnswer::Ours;
    }
    let field = |name: &str| {
        head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| one_line(value.trim()))
        })
    };
    match field("location") {
        Some(location) if (300..400).contains(&status) => ProbeAnswer::Elsewhere(location),
        Some(_) | None => {
            let from = field("server").map_or_else(String::new, |server| format!(" from {server}"));
            ProbeAnswer::Another(format!("status {status}{from}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::preflight::verdict::ProbeAnswer;

    #[test]
    fn answers_are_told_apart() {
        fn check(answer: &str, expected: ProbeAnswer) {
            assert_eq!(read(answer.as_bytes(), "the-nonce"), expected, "{answer:?}");
        }
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe-nonce", ProbeAnswer::Ours);
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nthe-nonce\r\n0\r\n\r\n", ProbeAnswer::Ours);
        check("HTTP/1.1 404 Not Found\r\nServer: nginx\r\n\r\nthe-nonce", ProbeAnswer::Another("status 404 from nginx".into()));
        check("HTTP/1.0 200 OK\r\n\r\nhello", ProbeAnswer::Another("status 200".into()));
        check("HTTP/1.1 301 Moved\r\nLocation: https://x/\r\n\r\n", ProbeAnswer::Elsewhere("https://x/".into()));
        check("SSH-2.0-OpenSSH\r\n", ProbeAnswer::Another("it does not speak HTTP".into()));
        check("HTTP/1.", ProbeAnswer::Another("it does not speak HTTP".into()));
        check("", ProbeAnswer::None("the connection was closed without an answer".into()));
    }
}
