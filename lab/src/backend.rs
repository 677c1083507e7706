//! The upstream of every measurement: an HTTP/1.1 keep-alive responder that does as little as it can.
//! Answers are built once; a request costs one read, one write and a scan of its head. It is not a web server: it knows four paths.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use memchr::{memchr, memmem};
use tokio::net::TcpStream;

use crate::content::Page;
use crate::net::{self, Error};

/// Also the longest request head that is accepted.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;

/// Serves until the process is stopped.
pub fn serve(address: SocketAddr) -> Result<(), Error> {
    net::runtime()?.block_on(async {
        let listener = net::listen(address)?;
        let answers = Rc::new(Answers::new());
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            let answers = Rc::clone(&answers);
            // An upstream connection that fails is the proxy's to notice; the generator counts what it sees of it.
            tokio::task::spawn_local(async move { serve_connection(socket, &answers).await.ok() });
        }
    })
}

struct Answers {
    pages: [Vec<u8>; 4],
    not_found: Vec<u8>,
    bad_request: Vec<u8>,
}

impl Answers {
    fn new() -> Answers {
        // A fixed date is enough: what matters is that the proxies find one, as they do with a real application.
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let build = |status: &str, content_type: &str, body: &[u8]| {
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
            [head.as_bytes(), body].concat()
        };
        Answers {
            pages: Page::ALL.map(|page| build("200 OK", page.content_type(), &page.body())),
            not_found: build("404 Not Found", "text/plain", b"no such page\n"),
            bad_request: build("400 Bad Request", "text/plain", b"not understood\n"),
        }
    }

    fn to(&self, page: Option<Page>) -> &[u8] {
        page.map_or(&self.not_found, |page| &self.pages[page as usize])
    }
}

async fn serve_connection(mut socket: TcpStream, answers: &Answers) -> io::Result<()> {
    let mut buffer = vec![0; RECEIVE_BUFFER_BYTES];
    let mut filled = 0;
    let mut body_bytes_to_discard = 0;
    loop {
        let mut used = 0;
        while used < filled {
            let discarded = body_bytes_to_discard.min((filled - used) as u64);
            body_bytes_to_discard -= discarded;
            used += discarded as usize;
            match parse_request(&buffer[used..filled]) {
                Parsed::Incomplete => break,
                Parsed::Malformed => return write(&mut socket, &answers.bad_request).await,
                Parsed::Request(request) => {
                    used += request.head_bytes;
                    body_bytes_to_discard = request.body_bytes;
                    write(&mut socket, answers.to(request.page)).await?;
                    if request.close {
                        return Ok(());
                    }
                }
            }
        }
        buffer.copy_within(used..filled, 0);
        filled -= used;
        if filled == buffer.len() {
            return write(&mut socket, &answers.bad_request).await;
        }
        let count = poll_fn(|cx| net::poll_read(&mut socket, cx, &mut buffer[filled..])).await?;
        if count == 0 {
            return Ok(());
        }
        filled += count;
    }
}

async fn write(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    poll_fn(|cx| net::poll_write_all(socket, cx, bytes, &mut written)).await
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Incomplete,
    Malformed,
    Request(Request),
}

#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Up to and including the empty line.
    head_bytes: usize,
    /// `None` is a path that is not served.
    page: Option<Page>,
    body_bytes: u64,
    /// The peer wants the connection closed after the answer.
    close: bool,
}

fn parse_request(bytes: &[u8]) -> Parsed {
    let Some(head_end) = memmem::find(bytes, b"\r\n\r\n") else { return Parsed::Incomplete };
    let head = &bytes[..head_end + 2];
    let mut lines = head.split_inclusive(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r\n").unwrap_or(line));
    let request_line = lines.next().unwrap_or_default();
    let mut words = request_line.split(|&byte| byte == b' ');
    let (Some(_method), Some(path), Some(version), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Parsed::Malformed;
    };
    let mut request =
        Request { head_bytes: head_end + 4, page: Page::from_path(path), body_bytes: 0, close: version != b"HTTP/1.1" };
    for line in lines {
        let Some(colon) = memchr(b':', line) else { return Parsed::Malformed };
        let value = line[colon + 1..].trim_ascii();
        match line[..colon].len() {
            10 if line[..colon].eq_ignore_ascii_case(b"connection") => request.close |= value.eq_ignore_ascii_case(b"close"),
            14 if line[..colon].eq_ignore_ascii_case(b"content-length") => {
                let Some(length) = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()) else {
                    return Parsed::Malformed;
                };
                request.body_bytes = length;
            }
            // The generator sends no chunked body; whoever does gets told instead of a hang.
            17 if line[..colon].eq_ignore_ascii_case(b"transfer-encoding") => return Parsed::Malformed,
            _ => {}
        }
    }
    Parsed::Request(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Parsed) {
        assert_eq!(parse_request(bytes.as_bytes()), expected, "{bytes:?}");
    }

    fn request(head_bytes: usize, page: Option<Page>, body_bytes: u64, close: bool) -> Parsed {
        Parsed::Request(Request { head_bytes, page, body_bytes, close })
    }

    #[test]
    fn requests_are_understood() {
        check("GET /11b HTTP/1.1\r\nHost: a\r\n\r\n", request(30, Some(Page::Hello11B), 0, false));
        check("GET /100k HTTP/1.1\r\n\r\nGET /2k", request(22, Some(Page::Html100K), 0, false));
        check("GET /x HTTP/1.1\r\nconnection: Close\r\n\r\n", request(38, None, 0, true));
        check("GET /2k HTTP/1.0\r\n\r\n", request(20, Some(Page::Html2K), 0, true));
        check("POST /2k HTTP/1.1\r\ncontent-length: 12\r\n\r\nabc", request(41, Some(Page::Html2K), 12, false));
        check("GET /2k HTTP/1.1\r\nHost: a\r\n", Parsed::Incomplete);
        check("", Parsed::Incomplete);
        check("GET /2k\r\n\r\n", Parsed::Malformed);
        check("GET /2k HTTP/1.1\r\nno colon\r\n\r\n", Parsed::Malformed);
        check("POST /2k HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", Parsed::Malformed);
        check("POST /2k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Parsed::Malformed);
    }

    /// Sends `sent` in one piece, closes the sending side, and returns all that came back.
    fn exchange(sent: &'static str) -> String {
        use std::io::{Read, Write};
        net::runtime().unwrap().block_on(async {
            let listener = net::listen("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            let client = std::thread::spawn(move || {
                let mut socket = std::net::TcpStream::connect(address).unwrap();
                socket.write_all(sent.as_bytes()).unwrap();
                socket.shutdown(std::net::Shutdown::Write).unwrap();
                let mut received = String::new();
                socket.read_to_string(&mut received).unwrap();
                received
            });
            let (socket, _) = listener.accept().await.unwrap();
            serve_connection(socket, &Answers::new()).await.unwrap();
            client.join().unwrap()
        })
    }

    #[test]
    fn pipelined_requests_and_discarded_bodies_are_answered_in_order() {
        let received = exchange(
            "POST /11b HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET /2k H\
             GET /2k HTTP/1.1\r\n\r\n\
             GET /none HTTP/1.1\r\nConnection: close\r\n\r\n\
             GET /11b HTTP/1.1\r\n\r\n",
        );
        let statuses: Vec<_> = received.match_indices("HTTP/1.1 ").map(|(at, _)| &received[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["200", "200", "404"]);
        assert_eq!(received.matches("hello world").count(), 1);
        assert!(received.contains(std::str::from_utf8(&Page::Html2K.body()).unwrap()));
    }
}
