//! One GET on a connection of its own, for engines and agents that are asked over a unix socket or over TCP in plain
//! text. Bodies have a bound, whole or line by line. What was asked for and what it means, the sources know.

use bytes::Bytes;
use http::header::HOST;
use http::{HeaderMap, Request, StatusCode};
use tidegate_outbound::{Answer, BodyFault, HEAD_BYTES_MAX, LineBuffer, ask};
use tokio::io::{AsyncRead, AsyncWrite};

/// Of a whole answer: ten thousand containers or instances with all that is told of each.
pub const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Of one line of a stream.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Of the body of an answer that is no 200: the reason is in the first words.
const REASON_BYTES_MAX: usize = 64 << 10;

/// The head of an answer, and the body on its way.
pub struct Answered(Answer);

/// `Err` completes a sentence: "the engine …".
pub async fn get<S>(stream: S, host: &str, target: &str, headers: &[(&str, &str)]) -> Result<Answered, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut request = Request::get(target).header(HOST, host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Bytes::new()).map_err(|error| format!("cannot be asked: {error}"))?;
    let answered = ask(stream, request, HEAD_BYTES_MAX).await;
    answered.map(Answered).map_err(|error| format!("does not answer as HTTP servers do: {error}"))
}

impl Answered {
    pub fn status(&self) -> StatusCode {
        self.0.head.status
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.0.head.headers
    }

    /// The whole body, at most [`ANSWER_BYTES_MAX`].
    pub async fn whole(self) -> Result<Bytes, String> {
        self.0.whole(ANSWER_BYTES_MAX).await.map_err(|fault| match fault {
            BodyFault::TooLarge => "answers with more than 16 MiB".into(),
            BodyFault::Broken(error) => format!("breaks off its answer: {error}"),
        })
    }

    /// Why it was refused, in the words of the answer: the text, or `message` of an object.
    pub async fn reason(self) -> String {
        let Ok(bytes) = self.0.whole(REASON_BYTES_MAX).await else { return String::new() };
        let of_object = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
        let message = of_object.and_then(|object| object.get("message")?.as_str().map(str::to_owned));
        message.unwrap_or_else(|| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    pub fn lines(self) -> Lines {
        Lines { answer: self.0, buffer: LineBuffer::new(LINE_BYTES_MAX) }
    }
}

/// A body that goes on, line by line.
pub struct Lines {
    answer: Answer,
    buffer: LineBuffer,
}

impl Lines {
    /// The next line that is not empty, `None` at the end. Nothing is lost when this is dropped half way.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let too_long = |_| "sends a line of more than 1 MiB".to_owned();
            if let Some(line) = self.buffer.take_line().map_err(too_long)? {
                return Ok(Some(line));
            }
            let piece = self.answer.piece().await.map_err(|error| format!("breaks off its stream: {error}"))?;
            match piece {
                None => return Ok(None),
                Some(data) => self.buffer.push(&data),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answered, LINE_BYTES_MAX, get};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Answers with these pieces, and closes.
    async fn answered(pieces: Vec<Vec<u8>>) -> Answered {
        let (ours, mut theirs) = duplex(1 << 16);
        tokio::spawn(async move {
            let mut head = vec![0; 4096];
            let _ = theirs.read(&mut head).await;
            for piece in pieces {
                if theirs.write_all(&piece).await.is_err() {
                    return;
                }
            }
        });
        get(ours, "a", "/b", &[("x-c", "d")]).await.expect("an answer")
    }

    fn run<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn lines_come_as_they_end() {
        let check = |body: &[&[u8]], expected: &[&str], end: &str| {
            let mut pieces = vec![b"HTTP/1.1 200 OK\r\n\r\n".to_vec()];
            pieces.extend(body.iter().map(|piece| piece.to_vec()));
            run(async {
                let mut lines = answered(pieces).await.lines();
                let mut seen = Vec::new();
                let ended = loop {
                    match lines.next().await {
                        Ok(Some(line)) => seen.push(String::from_utf8_lossy(&line).trim().to_owned()),
                        Ok(None) => break String::new(),
                        Err(message) => break message,
                    }
                };
                assert_eq!(seen, expected);
                assert_eq!(ended, end);
            });
        };
        check(&[b"one\ntwo\r\n\n", b"thr", b"ee\nno end"], &["one", "two", "three"], "");
        check(&[b"one\n", &vec![b'a'; LINE_BYTES_MAX + 1]], &["one"], "sends a line of more than 1 MiB");
    }

    #[test]
    fn reasons_are_the_words_of_the_answer() {
        let check = |body: &str, expected: &str| {
            let answer = format!("HTTP/1.1 404 Not Found\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            assert_eq!(run(async { answered(vec![answer.into_bytes()]).await.reason().await }), expected);
        };
        check(r#"{"message":"page not found"}"#, "page not found");
        check("ACL not found\n", "ACL not found");
        check("{}", "{}");
        check("", "");
    }

    #[test]
    fn an_answer_has_a_bound() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 16777217\r\n\r\n".to_vec();
        let pieces = std::iter::once(head).chain(std::iter::repeat_n(vec![b'a'; 1 << 16], 257)).collect();
        let whole = run(async { answered(pieces).await.whole().await });
        assert_eq!(whole, Err("answers with more than 16 MiB".into()));
    }
}
