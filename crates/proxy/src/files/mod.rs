//! `files`: answers that are files. Which file answers a request, and which bytes of it, is decided in the crate of
//! that name; here they are read and sent, through a codec where `compress` says so.

mod folder;
mod send_folder;

pub use self::folder::Folder;
pub use self::send_folder::SendFolder;

use crate::answering::{answer_refusal, answer_refusal_with};
use crate::coded::{Coded, begin_coding, choose_coding, code_piece, finish_coded, send_whole_coded};
use crate::failure::{Failure, body_cut};
use crate::mounted::lacks_slash;
use crate::surroundings::Surroundings;
use arc_swap::Guard;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::SystemTime;
use tidegate_exchange::{BodyLength, ClientFault, Exchange, TURN_BYTES};
use tidegate_files::{Answer, Ask, FileAnswer, Method as FileMethod, Page, Piece, Refused};
use tidegate_middleware::errors::begin_answer;
use tidegate_middleware::{CompiledStep, Refusal};
use tidegate_transport::{Buf, FilePart, Sock, rt};
use tidegate_wire::head::{HeaderId, Method};

/// Shorter bodies are read, and go out with their head in one call or two.
const KERNEL_BYTES_LEAST: u64 = 32 << 10;

/// Answers with a file of the folder, or says why not.
pub(crate) async fn serve_file<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    folder: &Folder,
) -> Result<(), Failure> {
    if exchange.is_extended_connect() {
        return Box::pin(answer_refusal(exchange, around, Refusal::NotWebSocket)).await;
    }
    let steps = around.route.map_or(&[][..], |route| &*route.steps);
    let answer = find_file(exchange, steps, folder);
    send_file_answer(exchange, around, folder, answer).await
}

/// What was found in a folder, to the client.
pub(crate) async fn send_file_answer<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    folder: &Folder,
    answer: Answer,
) -> Result<(), Failure> {
    match answer {
        Answer::File(file) => send_file(exchange, around, file).await,
        Answer::Page(page) => send_page(exchange, around, page).await,
        Answer::Folder(listing) => {
            let open = Guard::into_inner(folder.current(exchange.record.started));
            match rt::beside(move || open.root.list(&listing)).await {
                Ok(Ok(page)) => send_page(exchange, around, page).await,
                Ok(Err(refused)) => refuse_file(exchange, around, refused).await,
                Err(_) => answer_refusal(exchange, around, Refusal::NoThread).await,
            }
        }
        Answer::Redirect { location } => {
            begin_response(exchange, 301, &[("location", location.into())]);
            around.run_response_steps(exchange);
            around.send_whole(exchange, b"").await
        }
        Answer::NotModified { headers } => {
            begin_response(exchange, 304, &headers);
            around.run_response_steps(exchange);
            choose_coding(exchange, around, None);
            around.send_whole(exchange, b"").await
        }
        Answer::Refused(refused) => refuse_file(exchange, around, refused).await,
    }
}

pub(crate) async fn refuse_file<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    refused: Refused,
) -> Result<(), Failure> {
    answer_refusal_with(exchange, around, refusal(refused), &refused_headers(refused)).await
}

/// `steps` are those of the route that have made the path.
pub(crate) fn find_file<S: Sock>(exchange: &Exchange<'_, S>, steps: &[CompiledStep], folder: &Folder) -> Answer {
    let path = exchange.head.path();
    // The folder itself, as its own path without a slash would be.
    let path = if lacks_slash(exchange, steps) { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    with_ask(exchange, path, |ask| folder.current(exchange.record.started).root.answer(ask, SystemTime::now()))
}

/// What the request asks of the file at `path`.
pub(crate) fn with_ask<S: Sock>(exchange: &Exchange<'_, S>, path: &[u8], answer: impl FnOnce(&Ask<'_>) -> Answer) -> Answer {
    let fields = &exchange.head.fields;
    // None of these fields is sent twice by anybody who means well, but for those that are lists.
    let value = |name: &'static [u8]| fields.all_named(name).next();
    let list = |name: &'static [u8]| one_list(fields.all_named(name));
    let (accept_encoding, accept) = (one_list(fields.all(HeaderId::AcceptEncoding)), list(b"accept"));
    let (if_match, if_none_match) = (list(b"if-match"), list(b"if-none-match"));
    let ask = Ask {
        method: match exchange.head.method {
            Method::Get => FileMethod::Get,
            Method::Head => FileMethod::Head,
            _ => FileMethod::Other,
        },
        path,
        request_path: exchange.record.path.of(&exchange.head.fields.bytes),
        query: exchange.head.query(),
        if_match: if_match.as_deref(),
        if_none_match: if_none_match.as_deref(),
        if_modified_since: value(b"if-modified-since"),
        if_unmodified_since: value(b"if-unmodified-since"),
        if_range: value(b"if-range"),
        range: value(b"range"),
        accept_encoding: accept_encoding.as_deref(),
        accept: accept.as_deref(),
    };
    answer(&ask)
}

fn begin_response<S: Sock>(exchange: &mut Exchange<'_, S>, status: u16, headers: &[(&'static str, Cow<'static, str>)]) {
    begin_answer(status, &mut exchange.response);
    for (name, value) in headers {
        exchange.response.fields.push(name.as_bytes(), value.as_bytes());
    }
    exchange.record.status = status;
}

async fn send_page<S: Sock>(exchange: &mut Exchange<'_, S>, around: Surroundings<'_, S>, page: Page) -> Result<(), Failure> {
    begin_response(exchange, page.status, &page.headers);
    around.run_response_steps(exchange);
    if exchange.head.method == Method::Head {
        exchange.push_content_length(page.content_length);
        // For `Vary`: there is no body that could be compressed.
        choose_coding(exchange, around, Some(page.content_length));
    }
    send_whole_coded(exchange, around, &page.body).await
}

async fn send_file<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    file: FileAnswer,
) -> Result<(), Failure> {
    begin_response(exchange, file.status, &file.headers);
    send_opened(exchange, around, file).await
}

/// Sends a file whose answer has begun with its head.
pub(crate) async fn send_opened<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    around: Surroundings<'_, S>,
    file: FileAnswer,
) -> Result<(), Failure> {
    let FileAnswer { status: _, headers: _, file, pieces, content_length } = file;
    around.run_response_steps(exchange);
    let mut body = FileBody { file, pieces: pieces.into_iter(), current: None, must_be_read: false };
    if let Some(coded) = begin_coding(exchange, around, Some(content_length)) {
        exchange.complete_response(&around.connection.worker.date);
        exchange.consume_small_body(around.connection.is_draining());
        return send_coded_file(exchange, coded, body).await;
    }
    exchange.push_content_length(content_length);
    exchange.complete_response(&around.connection.worker.date);
    exchange.consume_small_body(around.connection.is_draining());
    let mut left = if exchange.head.method == Method::Head { 0 } else { content_length };
    let mut head = None;
    if left >= KERNEL_BYTES_LEAST
        && let Some(responder) = exchange.responder.bare()
    {
        head = responder.begin_file(&mut exchange.response).map_err(gone)?;
    } else {
        let length = if left == 0 { BodyLength::None } else { BodyLength::Known };
        let first = body.next()?;
        left -= first.as_ref().map_or(0, |piece| piece.len() as u64);
        exchange.responder.send_head(&mut exchange.response, length, first, left == 0).await.map_err(gone)?;
    }
    let mut turn = 0;
    while left > 0 {
        let sent = match send_from_file(exchange, &mut head, &mut body).await? {
            Some(sent) => sent,
            None => send_next_piece(exchange, &mut head, &mut body, left).await?,
        };
        left -= sent;
        turn += sent;
        if turn > TURN_BYTES as u64 {
            turn = 0;
            around.connection.account_bytes();
            rt::yield_now().await;
        }
    }
    Ok(())
}

/// Has the kernel send what it can: bytes that nobody has to frame or to encrypt are not read at all. None: the
/// next piece has to be.
async fn send_from_file<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    head: &mut Option<Buf>,
    body: &mut FileBody,
) -> Result<Option<u64>, Failure> {
    let Some(responder) = exchange.responder.bare() else { return Ok(None) };
    let Some((offset, length)) = body.range() else { return Ok(None) };
    let part = FilePart { file: &body.file, offset, length: length.min(TURN_BYTES as u64) as usize };
    match responder.send_file(head, part).await {
        Ok(0) => Err(body_cut()),
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

async fn send_next_piece<S: Sock>(
    exchange: &mut Exchange<'_, S>,
    head: &mut Option<Buf>,
    body: &mut FileBody,
    left: u64,
) -> Result<u64, Failure> {
    if let Some(head) = head.take() {
        exchange.responder.send_head_alone(head).await.map_err(gone)?;
    }
    let Some(piece) = body.next()? else { return Err(body_cut()) };
    let length = piece.len() as u64;
    exchange.responder.send_body(piece, length == left).await.map_err(gone)?;
    Ok(length)
}

async fn send_coded_file<S: Sock>(exchange: &mut Exchange<'_, S>, mut coded: Coded, mut body: FileBody) -> Result<(), Failure> {
    while let Some(piece) = body.next()? {
        code_piece(exchange, &mut coded, &piece).await?;
    }
    finish_coded(exchange, coded, None).await
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

    /// As much as one buffer holds; `None` at the end. A file that became shorter, or whose disk fails, cuts the body.
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
                let count = self.file.read_at(&mut room[..wanted], *offset).map_err(|_| body_cut())?;
                if count == 0 {
                    return Err(body_cut());
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
