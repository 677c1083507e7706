//! `files`: answers that are files. Which file answers a request, and which bytes of it, is decided in the crate of that name; here they are read and
//! sent, through a codec where `compress` says so, and the folder is opened again when another one has taken its place.

use crate::coded::Coded;
use crate::exchange::BodyLength;
use crate::failure::{ClientFault, Failure, Reach, Refusal};
use crate::request::Request;
use crate::snapshot::CompiledRoute;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};
use tidegate_files::{Answer, Ask, FileAnswer, Method as FileMethod, Page, Piece, Refused, Root};
use tidegate_middleware::errors::begin_answer;
use tidegate_model::Files;
use tidegate_telemetry::UpstreamError;
use tidegate_transport::{Buf, Sock, rt};
use tidegate_wire::head::{HeaderId, Method};

/// How often it is looked whether the folder is still the one that was opened: deployments switch a link from one release to the next.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// What one answer may send before the others of its worker have their turn.
const TURN_BYTES: u64 = 1 << 20;

/// A folder that is served, as all workers share it.
pub struct Folder {
    settings: Files,
    began: Instant,
    looked_at_ms: AtomicU64,
    open: RwLock<Open>,
}

struct Open {
    root: Arc<Root>,
    /// Device and inode of the folder that the path led to.
    identity: (u64, u64),
}

impl Folder {
    pub fn open(settings: &Files) -> io::Result<Folder> {
        let identity = identity(&settings.root)?;
        let root = Arc::new(Root::open(settings)?);
        Ok(Folder {
            settings: settings.clone(),
            began: Instant::now(),
            looked_at_ms: AtomicU64::new(0),
            open: RwLock::new(Open { root, identity }),
        })
    }

    /// The folder as it is now, or as it was when nothing stands at its path.
    fn current(&self, now: Instant) -> Arc<Root> {
        let now_ms = now.saturating_duration_since(self.began).as_millis() as u64;
        let looked_at = self.looked_at_ms.load(Ordering::Relaxed);
        let is_due = now_ms.saturating_sub(looked_at) >= LOOK_PERIOD.as_millis() as u64;
        // One of the workers looks, the others go on meanwhile.
        if is_due && self.looked_at_ms.compare_exchange(looked_at, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.look_again();
        }
        self.open.read().unwrap_or_else(PoisonError::into_inner).root.clone()
    }

    #[cold]
    fn look_again(&self) {
        let Ok(identity) = identity(&self.settings.root) else { return };
        if self.open.read().unwrap_or_else(PoisonError::into_inner).identity == identity {
            return;
        }
        if let Ok(root) = Root::open(&self.settings) {
            *self.open.write().unwrap_or_else(PoisonError::into_inner) = Open { root: Arc::new(root), identity };
            tracing::info!(folder = %self.settings.root.display(), "another folder is served: its path leads elsewhere now");
        }
    }
}

fn identity(path: &PathBuf) -> io::Result<(u64, u64)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

impl<S: Sock> Request<'_, S> {
    /// Answers with a file of the folder, or says why not.
    pub(crate) async fn serve_file(&mut self, route: &CompiledRoute, folder: &Folder) -> Result<(), Failure> {
        let answer = self.find_file(folder);
        self.send_file_answer(route, answer).await
    }

    /// What was found in a folder, to the client.
    pub(crate) async fn send_file_answer(&mut self, route: &CompiledRoute, answer: Answer) -> Result<(), Failure> {
        match answer {
            Answer::File(file) => self.send_file(route, file).await,
            Answer::Page(page) => self.send_page(route, page).await,
            Answer::Redirect { location } => {
                self.begin_response(301, &[("location", location.into())]);
                self.run_response_steps(route);
                self.send_whole(b"").await
            }
            Answer::NotModified { headers } => {
                self.begin_response(304, &headers);
                self.run_response_steps(route);
                self.send_whole(b"").await
            }
            Answer::Refused(refused) => self.answer_refusal_with(refusal(refused), &refused_headers(refused)).await,
        }
    }

    pub(crate) fn find_file(&self, folder: &Folder) -> Answer {
        let fields = &self.head.fields;
        // None of these fields is sent twice by anybody who means well.
        let value = |name: &'static [u8]| fields.all_named(name).next();
        let accept_encoding = one_list(fields.all(HeaderId::AcceptEncoding));
        let ask = Ask {
            method: match self.head.method {
                Method::Get => FileMethod::Get,
                Method::Head => FileMethod::Head,
                _ => FileMethod::Other,
            },
            path: self.head.path(),
            request_path: self.record.path.of(&self.head.fields.bytes),
            query: self.head.query(),
            if_match: value(b"if-match"),
            if_none_match: value(b"if-none-match"),
            if_modified_since: value(b"if-modified-since"),
            if_unmodified_since: value(b"if-unmodified-since"),
            if_range: value(b"if-range"),
            range: value(b"range"),
            accept_encoding: accept_encoding.as_deref(),
            accept: value(b"accept"),
        };
        folder.current(self.record.started).answer(&ask, SystemTime::now())
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
        if self.head.method == Method::Head {
            self.push_content_length(page.content_length);
        }
        self.run_response_steps(route);
        let coded = self.code_whole(route, &page.body);
        self.send_whole(coded.as_deref().unwrap_or(&page.body)).await
    }

    async fn send_file(&mut self, route: &CompiledRoute, file: FileAnswer) -> Result<(), Failure> {
        let FileAnswer { status, headers, file, pieces, content_length } = file;
        self.begin_response(status, &headers);
        self.run_response_steps(route);
        let mut body = FileBody { file, pieces: pieces.into_iter(), current: None };
        if let Some(coded) = self.begin_coding(route, Some(content_length)) {
            self.complete_response();
            self.consume_small_body();
            return self.send_coded_file(coded, body).await;
        }
        self.push_content_length(content_length);
        self.complete_response();
        self.consume_small_body();
        let gone = |_| Failure::Client(ClientFault::Gone);
        let mut left = if self.head.method == Method::Head { 0 } else { content_length };
        let length = if left == 0 { BodyLength::None } else { BodyLength::Known };
        let first = body.next()?;
        left -= first.as_ref().map_or(0, |piece| piece.len() as u64);
        let mut turn = 0;
        self.responder.send_head(&mut self.response, length, first, left == 0).await.map_err(gone)?;
        while left > 0 {
            let Some(piece) = body.next()? else { return Err(shrunk()) };
            left -= piece.len() as u64;
            turn += piece.len() as u64;
            self.responder.send_body(piece, left == 0).await.map_err(gone)?;
            if turn > TURN_BYTES {
                turn = 0;
                self.connection.account_bytes();
                rt::yield_now().await;
            }
        }
        Ok(())
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
}

/// What is left of a piece.
enum Part {
    Bytes { bytes: Vec<u8>, sent: usize },
    Range { offset: u64, left: u64 },
}

impl FileBody {
    /// As much as one buffer holds; `None` at the end.
    fn next(&mut self) -> Result<Option<Buf>, Failure> {
        let part = match &mut self.current {
            Some(part) => part,
            None => match self.pieces.next() {
                None => return Ok(None),
                Some(Piece::Bytes(bytes)) => self.current.insert(Part::Bytes { bytes, sent: 0 }),
                Some(Piece::Range { offset, length }) => self.current.insert(Part::Range { offset, left: length }),
            },
        };
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

/// The file became shorter, or its disk fails, while it is sent: the client must see that its body was cut.
fn shrunk() -> Failure {
    Failure::upstream(UpstreamError::BodyCut, Reach::Answering)
}

fn refusal(refused: Refused) -> Refusal {
    match refused {
        Refused::NotFound => Refusal::NO_FILE,
        Refused::Forbidden => Refusal::FILE_FORBIDDEN,
        Refused::MethodNotAllowed => Refusal::FILE_METHOD,
        Refused::BadPath => Refusal::FILE_PATH,
        Refused::RangeNotSatisfiable { .. } => Refusal::FILE_RANGE,
        Refused::PreconditionFailed => Refusal::FILE_PRECONDITION,
        Refused::Unreadable { os_error } => {
            let error = io::Error::from_raw_os_error(os_error);
            tracing::error!(%error, "a file cannot be read");
            Refusal::FILE_UNREADABLE
        }
    }
}

fn refused_headers(refused: Refused) -> Vec<(&'static str, Cow<'static, str>)> {
    match refused {
        Refused::MethodNotAllowed => vec![("allow", "GET, HEAD".into())],
        other => other.headers(),
    }
}
