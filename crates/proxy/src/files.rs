//! `files`: answers that are files. Which file answers a request, and which bytes of it, is decided in the crate of
//! that name; here they are read and sent, through a codec where `compress` says so, and the folder is opened again
//! when another one has taken its place.

mod folder;

pub use self::folder::Folder;
use crate::coded::Coded;
use crate::exchange::BodyLength;
use crate::failure::{ClientFault, Failure};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use arc_swap::Guard;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;
use tidegate_files::{Answer, Ask, FileAnswer, Method as FileMethod, Page, Piece, Refused};
use tidegate_middleware::Refusal;
use tidegate_middleware::errors::begin_answer;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, FilePart, Sock, rt};
use tidegate_upstream::fault::Progress;
use tidegate_wire::head::{HeaderId, Method};

/// Shorter bodies are read, and go out with their head in one call or two.
const KERNEL_BYTES_LEAST: u64 = 32 << 10;
/// What one answer may send before the others of its worker have their turn.
const TURN_BYTES: u64 = 1 << 20;

impl<S: Sock> Request<'_, S> {
    /// Answers with a file of the folder, or says why not.
    pub(crate) async fn serve_file(&mut self, route: &CompiledRoute, folder: &Folder) -> Result<(), Failure> {
        let answer = self.find_file(folder);
        self.send_file_answer(route, folder, answer).await
    }

    /// What was found in a folder, to the client.
    pub(crate) async fn send_file_answer(
        &mut self,
        route: &CompiledRoute,
        folder: &Folder,
        answer: Answer,
    ) -> Result<(), Failure> {
        match answer {
            Answer::File(file) => self.send_file(route, file).await,
            Answer::Page(page) => self.send_page(route, page).await,
            Answer::Folder(listing) => {
                let open = Guard::into_inner(folder.current(self.record.started));
                match rt::beside(move || open.root.list(&listing)).await {
                    Ok(page) => self.send_page(route, page).await,
                    Err(refused) => self.refuse_file(refused).await,
                }
            }
            Answer::Redirect { location } => {
                self.begin_response(301, &[("location", location.into())]);
                self.run_response_steps(route);
                self.send_whole(b"").await
            }
            Answer::NotModified { headers } => {
                self.begin_response(304, &headers);
                self.run_response_steps(route);
                self.choose_coding(route, None);
                self.send_whole(b"").await
            }
            Answer::Refused(refused) => self.refuse_file(refused).await,
        }
    }

    async fn refuse_file(&mut self, refused: Refused) -> Result<(), Failure> {
        self.answer_refusal_with(refusal(refused), &refused_headers(refused)).await
    }

    pub(crate) fn find_file(&self, folder: &Folder) -> Answer {
        let fields = &self.head.fields;
        // None of these fields is sent twice by anybody who means well, but for those that are lists.
        let value = |name: &'static [u8]| fields.all_named(name).next();
        let list = |name: &'static [u8]| one_list(fields.all_named(name));
        let (accept_encoding, accept) = (one_list(fields.all(HeaderId::AcceptEncoding)), list(b"accept"));
        let (if_match, if_none_match) = (list(b"if-match"), list(b"if-none-match"));
        let ask = Ask {
            method: match self.head.method {
                Method::Get => FileMethod::Get,
                Method::Head => FileMethod::Head,
                _ => FileMethod::Other,
            },
            path: self.head.path(),
            request_path: self.record.path.of(&self.head.fields.bytes),
            query: self.head.query(),
            if_match: if_match.as_deref(),
            if_none_match: if_none_match.as_deref(),
            if_modified_since: value(b"if-modified-since"),
            if_unmodified_since: value(b"if-unmodified-since"),
            if_range: value(b"if-range"),
            range: value(b"range"),
            accept_encoding: accept_encoding.as_deref(),
            accept: accept.as_deref(),
        };
        folder.current(self.record.started).root.answer(&ask, SystemTime::now())
    }

    fn begin_response(&mut self, status: u16, headers: &[(&'static str, Cow<'static, str>)]) {
        begin_answer(status, &mut self.response);
        for (name, value) in headers {
            self.response.fields.push(name.as_bytes(), value.as_bytes());
        }
        self.record.status = status;
    }

    async fn send_page(&mut self, route: &CompiledRoute, page: Page) -> Result<(), Failure> {
        self.begin_response(page.status, &page.headers);
        self.run_response_steps(route);
        if self.head.method == Method::Head {
            self.push_content_length(page.content_length);
            // For `Vary`: there is no body that could be compressed.
            self.choose_coding(route, Some(page.content_length));
        }
        let coded = self.code_whole(route, &page.body);
        self.send_whole(coded.as_deref().unwrap_or(&page.body)).await
    }

    async fn send_file(&mut self, route: &CompiledRoute, file: FileAnswer) -> Result<(), Failure> {
        let FileAnswer { status, headers, file, pieces, content_length } = file;
        self.begin_response(status, &headers);
        self.run_response_steps(route);
        let mut body = FileBody { file, pieces: pieces.into_iter(), current: None, must_be_read: false };
        if let Some(coded) = self.begin_coding(route, Some(content_length)) {
            self.complete_response();
            self.consume_small_body();
            return self.send_coded_file(coded, body).await;
        }
        self.push_content_length(content_length);
        self.complete_response();
        self.consume_small_body();
        let mut left = if self.head.method == Method::Head { 0 } else { content_length };
        let mut head = None;
        if left >= KERNEL_BYTES_LEAST
            && let Some(responder) = self.responder.bare()
        {
            head = responder.begin_file(&mut self.response).map_err(gone)?;
        } else {
            let length = if left == 0 { BodyLength::None } else { BodyLength::Known };
            let first = body.next()?;
            left -= first.as_ref().map_or(0, |piece| piece.len() as u64);
            self.responder.send_head(&mut self.response, length, first, left == 0).await.map_err(gone)?;
        }
        let mut turn = 0;
        while left > 0 {
            let sent = match self.send_from_file(&mut head, &mut body).await? {
                Some(sent) => sent,
                None => self.send_next_piece(&mut head, &mut body, left).await?,
            };
            left -= sent;
            turn += sent;
            if turn > TURN_BYTES {
                turn = 0;
                self.connection.account_bytes();
                rt::yield_now().await;
            }
        }
        Ok(())
    }

    /// Has the kernel send what it can: bytes that nobody has to frame or to encrypt are not read at all. None: the
    /// next piece has to be.
    async fn send_from_file(&mut self, head: &mut Option<Buf>, body: &mut FileBody) -> Result<Option<u64>, Failure> {
        let Some(responder) = self.responder.bare() else { return Ok(None) };
        let Some((offset, length)) = body.range() else { return Ok(None) };
        let part = FilePart { file: &body.file, offset, length: length.min(TURN_BYTES) as usize };
        match responder.send_file(head, part).await {
            Ok(0) => Err(shrunk()),
            Ok(sent) => {
                body.advance(sent);
                Ok(Some(sent))
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Failure::Client(ClientFault::Gone)),
            // The file's fault, its file system's or the client's: reading and sending one after the other tells which,
            // and does without it.
            Err(_) => {
                body.must_be_read = true;
                Ok(None)
            }
        }
    }

    async fn send_next_piece(&mut self, head: &mut Option<Buf>, body: &mut FileBody, left: u64) -> Result<u64, Failure> {
        if let Some(head) = head.take() {
            self.responder.send_head_alone(head).await.map_err(gone)?;
        }
        let Some(piece) = body.next()? else { return Err(shrunk()) };
        let length = piece.len() as u64;
        self.responder.send_body(piece, length == left).await.map_err(gone)?;
        Ok(length)
    }

    async fn send_coded_file(&mut self, mut coded: Coded, mut body: FileBody) -> Result<(), Failure> {
        while let Some(piece) = body.next()? {
            self.code_piece(&mut coded, &piece).await?;
        }
        self.finish_coded(coded, None).await
    }

    fn push_content_length(&mut self, length: u64) {
        let mut digits = itoa::Buffer::new();
        self.response.fields.push(b"content-length", digits.format(length).as_bytes());
    }
}

/// Several lines of one name are one list (RFC 9110 section 5.3); nearly always there is one, and nothing is copied.
fn one_list<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, [u8]>> {
    let mut list = Cow::Borrowed(lines.next()?);
    for line in lines {
        let list = list.to_mut();
        list.extend_from_slice(b", ");
        list.extend_from_slice(line);
    }
    Some(list)
}

/// The bytes of an answer, a buffer at a time.
struct FileBody {
    file: File,
    pieces: std::vec::IntoIter<Piece>,
    current: Option<Part>,
    /// Whether the file's file system cannot send it by itself.
    must_be_read: bool,
}

/// What is left of a piece.
enum Part {
    Bytes { bytes: Vec<u8>, sent: usize },
    Range { offset: u64, left: u64 },
}

impl FileBody {
    /// Offset and length of what the kernel may send next by itself.
    fn range(&mut self) -> Option<(u64, u64)> {
        if self.must_be_read {
            return None;
        }
        match part(&mut self.current, &mut self.pieces)? {
            Part::Range { offset, left } => Some((*offset, *left)),
            Part::Bytes { .. } => None,
        }
    }

    /// So much of the range was sent.
    fn advance(&mut self, count: u64) {
        if let Some(Part::Range { offset, left }) = &mut self.current {
            *offset += count;
            *left -= count;
            if *left == 0 {
                self.current = None;
            }
        }
    }

    /// As much as one buffer holds; `None` at the end.
    fn next(&mut self) -> Result<Option<Buf>, Failure> {
        let Some(part) = part(&mut self.current, &mut self.pieces) else { return Ok(None) };
        let mut piece = Buf::take();
        let is_over = match part {
            Part::Bytes { bytes, sent } => {
                let rest = &bytes[*sent..];
                let count = rest.len().min(tidegate_transport::buffer::CAPACITY);
                piece.extend(&rest[..count]);
                *sent += count;
                *sent == bytes.len()
            }
            Part::Range { offset, left } => {
                let room = piece.spare_for_read();
                let wanted = (room.len() as u64).min(*left) as usize;
                let count = self.file.read_at(&mut room[..wanted], *offset).map_err(|_| shrunk())?;
                if count == 0 {
                    return Err(shrunk());
                }
                piece.grow(count);
                *offset += count as u64;
                *left -= count as u64;
                *left == 0
            }
        };
        if is_over {
            self.current = None;
        }
        Ok(Some(piece))
    }
}

fn gone(_: io::Error) -> Failure {
    Failure::Client(ClientFault::Gone)
}

/// The part that is to be sent next; `None` at the end.
fn part<'a>(current: &'a mut Option<Part>, pieces: &mut std::vec::IntoIter<Piece>) -> Option<&'a mut Part> {
    if current.is_none() {
        *current = Some(match pieces.next()? {
            Piece::Bytes(bytes) => Part::Bytes { bytes, sent: 0 },
            Piece::Range { offset, length } => Part::Range { offset, left: length },
        });
    }
    current.as_mut()
}

/// The file became shorter, or its disk fails, while it is sent: the client must see that its body was cut.
fn shrunk() -> Failure {
    Failure::upstream(UpstreamError::BodyCut, Progress::Answering)
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::NotFound => Refusal::NoFile,
        Refused::Forbidden => Refusal::FileForbidden,
        Refused::MethodNotAllowed => Refusal::FileMethod,
        Refused::BadPath => Refusal::FilePath,
        Refused::RangeNotSatisfiable { .. } => Refusal::FileRange,
        Refused::PreconditionFailed => Refusal::FilePrecondition,
        Refused::Unreadable { os_error } => {
            let error = io::Error::from_raw_os_error(os_error);
            tracing::error!(%error, "a file cannot be read");
            Refusal::FileUnreadable
        }
    }
}

fn refused_headers(refused: Refused) -> Vec<(&'static str, Cow<'static, str>)> {
    match refused {
        Refused::MethodNotAllowed => vec![("allow", "GET, HEAD".into())],
        other => other.headers(),
    }
}
