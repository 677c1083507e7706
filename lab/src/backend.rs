//! The upstream of every measurement: an HTTP/1.1 keep-alive responder that does as little as it can.
//! Answers are built once; a request costs one read, one write and a scan of its head. It is not a web server: it knows
//! a handful of paths. Beside the pages of `content` it serves `/echo`, `/delay/MILLISECONDS` and `/chunked/PAGE`.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use memchr::{memchr, memmem};
use tokio::net::TcpStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::content::Page;
use crate::net::{self, Error};

/// Also the longest request head that is accepted.
const RECEIVE_BUFFER_BYTES: usize = 16 * 1024;
/// The longest body that `/echo` gives back; it is held in memory.
const ECHO_BYTES_MAX: u64 = 1024 * 1024;
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Small enough that every page but the smallest has several.
const CHUNK_BYTES: usize = 700;

/// Serves on `threads` threads, each with a listener of its own, until the process is stopped; with a time to leave,
/// for so long after SIGTERM.
pub fn serve(address: SocketAddr, threads: usize, leave_after: Option<Duration>) -> Result<(), Error> {
    for _ in 1..threads.max(1) {
        std::thread::spawn(move || serve_on_this_thread(address, None).map_err(|error| eprintln!("{address}: {error}")));
    }
    serve_on_this_thread(address, leave_after)
}

fn serve_on_this_thread(address: SocketAddr, leave_after: Option<Duration>) -> Result<(), Error> {
    net::runtime()?.block_on(async {
        tokio::select! {
            outcome = take_connections(address) => outcome,
            outcome = leave(leave_after) => outcome,
        }
    })
}

/// Until it is to be over. Without a time SIGTERM ends the process as it does others.
async fn leave(after: Option<Duration>) -> Result<(), Error> {
    let Some(after) = after else { return std::future::pending().await };
    signal(SignalKind::terminate())?.recv().await;
    tokio::time::sleep(after).await;
    Ok(())
}

async fn take_connections(address: SocketAddr) -> Result<(), Error> {
    let listener = net::listen(address)?;
    let answers = Rc::new(Answers::new());
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let answers = Rc::clone(&answers);
        // An upstream connection that fails is the proxy's to notice; the generator counts what it sees of it.
        tokio::task::spawn_local(async move { serve_connection(socket, &answers).await.ok() });
    }
}

struct Answers {
    pages: [Vec<u8>; Page::ALL.len()],
    chunked: [Vec<u8>; Page::ALL.len()],
    not_found: Vec<u8>,
    bad_request: Vec<u8>,
    length_required: Vec<u8>,
    too_large: Vec<u8>,
    /// Everything but the length.
    echo_head: String,
}

impl Answers {
    fn new() -> Answers {
        // A fixed date is enough: what matters is that the proxies find one, as they do with a real application.
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let head =
            |status: &str, content_type: &str| format!("HTTP/1.1 {status}\r\nDate: {date}\r\nContent-Type: {content_type}\r\n");
        let build = |status: &str, content_type: &str, body: &[u8]| {
            let head = format!("{}Content-Length: {}\r\n\r\n", head(status, content_type), body.len());
            [head.as_bytes(), body].concat()
        };
        let build_chunked = |page: Page| {
            let mut answer = format!("{}Transfer-Encoding: chunked\r\n\r\n", head("200 OK", page.content_type())).into_bytes();
            for chunk in page.body().chunks(CHUNK_BYTES) {
                answer.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                answer.extend_from_slice(chunk);
                answer.extend_from_slice(b"\r\n");
            }
            answer.extend_from_slice(b"0\r\n\r\n");
            answer
        };
        let plain = |status: &str, text: &str| build(status, "text/plain", text.as_bytes());
        Answers {
            pages: Page::ALL.map(|page| build("200 OK", page.content_type(), &page.body())),
            chunked: Page::ALL.map(build_chunked),
            not_found: plain("404 Not Found", "no such page\n"),
            bad_request: plain("400 Bad Request", "not understood\n"),
            length_required: plain("411 Length Required", "send a Content-Length\n"),
            too_large: plain("413 Content Too Large", "at most a mebibyte\n"),
            echo_head: head("200 OK", "application/octet-stream"),
        }
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
                Parsed::LengthRequired => return write(&mut socket, &answers.length_required).await,
                Parsed::Request(request) if request.wanted == Wanted::Echo => {
                    used += request.head_bytes;
                    if request.body_bytes > ECHO_BYTES_MAX {
                        return write(&mut socket, &answers.too_large).await;
                    }
                    used += echo(&mut socket, answers, &buffer[used..filled], request.body_bytes as usize).await?;
                    if request.close {
                        return Ok(());
                    }
                }
                Parsed::Request(request) => {
                    used += request.head_bytes;
                    body_bytes_to_discard = request.body_bytes;
                    answer(&mut socket, answers, request.wanted).await?;
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

async fn answer(socket: &mut TcpStream, answers: &Answers, wanted: Wanted) -> io::Result<()> {
    match wanted {
        Wanted::Page(page) => write(socket, &answers.pages[page as usize]).await,
        Wanted::Chunked(page) => write(socket, &answers.chunked[page as usize]).await,
        Wanted::Delay(delay) => {
            tokio::time::sleep(delay).await;
            write(socket, &answers.pages[Page::Hello11B as usize]).await
        }
        Wanted::Echo | Wanted::Nothing => write(socket, &answers.not_found).await,
    }
}

/// Gives the request's body back, whose beginning is `received`; returns how much of `received` belonged to it.
async fn echo(socket: &mut TcpStream, answers: &Answers, received: &[u8], body_bytes: usize) -> io::Result<usize> {
    let used = received.len().min(body_bytes);
    let mut answer = format!("{}Content-Length: {body_bytes}\r\n\r\n", answers.echo_head).into_bytes();
    let mut filled = answer.len() + used;
    answer.extend_from_slice(&received[..used]);
    answer.resize(filled + body_bytes - used, 0);
    while filled < answer.len() {
        let count = poll_fn(|cx| net::poll_read(socket, cx, &mut answer[filled..])).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
    }
    write(socket, &answer).await?;
    Ok(used)
}

async fn write(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    poll_fn(|cx| net::poll_write_all(socket, cx, bytes, &mut written)).await
}

#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    Incomplete,
    Malformed,
    /// A chunked body; the generator sends none, and whoever does gets told instead of a hang.
    LengthRequired,
    Request(Request),
}

#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Up to and including the empty line.
    head_bytes: usize,
    wanted: Wanted,
    body_bytes: u64,
    /// The peer wants the connection closed after the answer.
    close: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Page(Page),
    Chunked(Page),
    Delay(Duration),
    Echo,
    /// A path that is not served.
    Nothing,
}

impl Wanted {
    fn from_path(path: &[u8]) -> Wanted {
        if let Some(page) = Page::from_path(path) {
            return Wanted::Page(page);
        }
        if path == b"/echo" {
            return Wanted::Echo;
        }
        if let Some(page) = path.strip_prefix(b"/chunked").and_then(Page::from_path) {
            return Wanted::Chunked(page);
        }
        let delay = path.strip_prefix(b"/delay/").and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        match delay.map(Duration::from_millis) {
            Some(delay) if delay <= DELAY_MAX => Wanted::Delay(delay),
            Some(_) | None => Wanted::Nothing,
        }
    }
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
    let wanted = Wanted::from_path(path);
    let mut request = Request { head_bytes: head_end + 4, wanted, body_bytes: 0, close: version != b"HTTP/1.1" };
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
            17 if line[..colon].eq_ignore_ascii_case(b"transfer-encoding") => return Parsed::LengthRequired,
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

    fn request(head_bytes: usize, wanted: Wanted, body_bytes: u64, close: bool) -> Parsed {
        Parsed::Request(Request { head_bytes, wanted, body_bytes, close })
    }

    #[test]
    fn requests_are_understood() {
        let page_2k = Wanted::Page(Page::Html2K);
        check("GET /11b HTTP/1.1\r\nHost: a\r\n\r\n", request(30, Wanted::Page(Page::Hello11B), 0, false));
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", request(27, Wanted::Page(Page::Root), 0, false));
        check("GET /100k HTTP/1.1\r\n\r\nGET /2k", request(22, Wanted::Page(Page::Html100K), 0, false));
        check("GET /x HTTP/1.1\r\nconnection: Close\r\n\r\n", request(38, Wanted::Nothing, 0, true));
        check("GET /2k HTTP/1.0\r\n\r\n", request(20, page_2k, 0, true));
        check("POST /2k HTTP/1.1\r\ncontent-length: 12\r\n\r\nabc", request(41, page_2k, 12, false));
        check("GET /delay/50 HTTP/1.1\r\n\r\n", request(26, Wanted::Delay(Duration::from_millis(50)), 0, false));
        check("GET /delay/999999 HTTP/1.1\r\n\r\n", request(30, Wanted::Nothing, 0, false));
        check("GET /chunked/2k HTTP/1.1\r\n\r\n", request(28, Wanted::Chunked(Page::Html2K), 0, false));
        check("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n\r\n", request(42, Wanted::Echo, 3, false));
        check("GET /2k HTTP/1.1\r\nHost: a\r\n", Parsed::Incomplete);
        check("", Parsed::Incomplete);
        check("GET /2k\r\n\r\n", Parsed::Malformed);
        check("GET /2k HTTP/1.1\r\nno colon\r\n\r\n", Parsed::Malformed);
        check("POST /2k HTTP/1.1\r\nContent-Length: 1x\r\n\r\n", Parsed::Malformed);
        check("POST /2k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", Parsed::LengthRequired);
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
             POST /echo HTTP/1.1\r\nContent-Length: 6\r\n\r\nechoed\
             GET /chunked/11b HTTP/1.1\r\n\r\n\
             GET /none HTTP/1.1\r\nConnection: close\r\n\r\n\
             GET /11b HTTP/1.1\r\n\r\n",
        );
        let statuses: Vec<_> = received.match_indices("HTTP/1.1 ").map(|(at, _)| &received[at + 9..at + 12]).collect();
        assert_eq!(statuses, ["200", "200", "200", "200", "404"]);
        assert_eq!(received.matches("hello world").count(), 2);
        assert!(received.contains("\r\n\r\nechoed") && received.contains("b\r\nhello world\r\n0\r\n\r\n"));
        assert!(received.contains(std::str::from_utf8(&Page::Html2K.body()).unwrap()));
    }

    #[test]
    fn an_echo_that_is_too_large_is_refused() {
        assert!(exchange("POST /echo HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n").starts_with("HTTP/1.1 413 "));
    }
}
