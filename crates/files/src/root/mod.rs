//! From a request to a file below the root: index files, the fallback, coded siblings, redirects to folders.
//! How a path is opened without leaving the root is in `beneath`, how a file becomes an answer in `representation`.

use crate::Settings;
use crate::answer::{Answer, Page};
use crate::ask::{Ask, Method};
use crate::beneath::{Beneath, Purpose};
use crate::coding::{Coding, choose};
use crate::listing::ListingAsk;
use crate::media_type::MediaTypes;
use crate::path::{self, FilePath};
use crate::refused::{Refused, refusal};
use crate::representation::{Kind, OpenFile, Representation};
use crate::tries::Try;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::hash::RandomState;
use std::io;
use std::time::SystemTime;

/// What may not stand in a `location` or would end its path or query there. Bytes above 0x7e are always encoded.
const UNSAFE: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'#');
const UNSAFE_IN_PATH: &AsciiSet = &UNSAFE.add(b'?');

/// A folder that is served.
///
/// It stays the folder that it was when it was opened: when its path is given to another one, by a switched symlink for
/// example, it has to be opened anew.
#[derive(Debug)]
pub struct Root {
    beneath: Beneath,
    index: Vec<Vec<u8>>,
    tries: Vec<Try>,
    fallback: Option<Vec<u8>>,
    listing: bool,
    hidden: bool,
    precompressed: bool,
    media_types: MediaTypes,
    boundary_seed: RandomState,
}

impl Root {
    /// Opens the folder. `InvalidInput` is a setting that can never work: an index that is no name, a fallback that is
    /// no path, a media type that is no header value. Other errors are the system's.
    pub fn open(settings: &Settings) -> io::Result<Root> {
        let index_name = |name: &String| path::of_configuration(name).filter(|_| !name.contains('/'));
        let index: Option<Vec<Vec<u8>>> = settings.index.iter().map(index_name).collect();
        let fallback = settings.fallback.as_deref().map(|path| path::of_configuration(path).ok_or_else(|| invalid("fallback")));
        Ok(Root {
            index: index.ok_or_else(|| invalid("index"))?,
            tries: settings.tries.iter().map(|written| Try::new(written)).collect(),
            fallback: fallback.transpose()?,
            media_types: MediaTypes::new(&settings.mime).ok_or_else(|| invalid("mime"))?,
            beneath: Beneath::open(&settings.root, settings.symlinks)?,
            listing: settings.listing,
            hidden: settings.hidden,
            precompressed: settings.precompressed,
            boundary_seed: RandomState::new(),
        })
    }

    /// Answers one request. It opens some files at most, and waits for the file system no longer than that takes.
    pub fn answer(&self, ask: &Ask, now: SystemTime) -> Answer {
        self.find(ask, now).unwrap_or_else(Answer::Refused)
    }

    /// Answers with the file that an application names for a request: a path below the root, decoded. What the request
    /// asks for beside its path counts, and the application's word for what the file is.
    pub fn send(&self, name: &[u8], media_type: Option<String>, ask: &Ask, now: SystemTime) -> Answer {
        let find = || {
            let path = path::named(name)?;
            if path.is_hidden && !self.hidden {
                return Err(Refused::NotFound);
            }
            match self.kind(&path.relative)? {
                Kind::File(open) => {
                    let media_type = media_type.map_or_else(|| self.media_types.of(&path.relative), Cow::Owned);
                    Representation { open, media_type, coding: None, varies: false }.answer(ask, now, &self.boundary_seed)
                }
                Kind::Folder | Kind::Special => Err(Refused::NotFound),
            }
        };
        find().unwrap_or_else(Answer::Refused)
    }

    /// Lists a folder that [`Root::answer`] found: a page, or why not. It looks at up to 20,000 names, so it belongs on
    /// a thread that may wait.
    pub fn list(&self, ask: &ListingAsk) -> Result<Page, Refused> {
        ask.read(&self.beneath, self.hidden)
    }

    fn find(&self, ask: &Ask, now: SystemTime) -> Result<Answer, Refused> {
        match ask.method {
            Method::Get | Method::Head => {}
            Method::Other => return Err(Refused::MethodNotAllowed),
        }
        let path = path::parse(ask.path)?;
        if path.is_hidden && !self.hidden {
            // Not even the fallback: whoever looks for `.git` or `.env` is told that it is not there.
            return Err(Refused::NotFound);
        }
        if !self.tries.is_empty() {
            return self.first_of_tries(&path, ask, now);
        }
        match self.kind(&path.relative) {
            Ok(Kind::File(file)) if !path.ends_with_slash => self.file(file, &path.relative, ask, now),
            Ok(Kind::Folder) => self.folder(&path, ask, now),
            Ok(Kind::File(_) | Kind::Special) | Err(Refused::NotFound) => self.fallback(ask, now),
            Err(refused) => Err(refused),
        }
    }

    /// The first path of `try=` that leads to something; then the fallback.
    fn first_of_tries(&self, path: &FilePath, ask: &Ask, now: SystemTime) -> Result<Answer, Refused> {
        for candidate in self.tries.iter().filter_map(|written| written.of(path, self.hidden)) {
            let answer = match self.kind(&candidate.relative) {
                Ok(Kind::File(file)) if !candidate.ends_with_slash => self.file(file, &candidate.relative, ask, now),
                // Whether a client is sent to the path with a slash depends on how it asked.
                Ok(Kind::Folder) if candidate.ends_with_slash => {
                    let folder = FilePath { ends_with_slash: path.ends_with_slash, ..candidate };
                    match self.index(&folder.relative)? {
                        None if !self.listing => continue,
                        _ => self.folder(&folder, ask, now),
                    }
                }
                Ok(Kind::File(_) | Kind::Folder | Kind::Special) | Err(Refused::NotFound) => continue,
                Err(refused) => Err(refused),
            };
            return answer;
        }
        self.fallback(ask, now)
    }

    fn folder(&self, path: &FilePath, ask: &Ask, now: SystemTime) -> Result<Answer, Refused> {
        let index = self.index(&path.relative)?;
        if index.is_none() && !self.listing {
            return self.fallback(ask, now);
        }
        // Relative links in the page count from the last slash that the browser sees.
        if let Some(name) = ask.request_path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())
            && !path.ends_with_slash
        {
            return Ok(Answer::Redirect { location: location(name, ask.query) });
        }
        match index {
            Some((file, path)) => self.file(file, &path, ask, now),
            None => Ok(Answer::Folder(ListingAsk::new(&path.relative, ask))),
        }
    }

    /// The first index file that is there, and its path.
    fn index(&self, folder: &[u8]) -> Result<Option<(OpenFile, Vec<u8>)>, Refused> {
        for name in &self.index {
            let path = path::join(folder, name);
            match self.kind(&path) {
                Ok(Kind::File(file)) => return Ok(Some((file, path))),
                Ok(Kind::Folder | Kind::Special) | Err(Refused::NotFound) => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(None)
    }

    fn fallback(&self, ask: &Ask, now: SystemTime) -> Result<Answer, Refused> {
        let path = self.fallback.as_ref().ok_or(Refused::NotFound)?;
        match self.kind(path)? {
            Kind::File(file) => self.file(file, path, ask, now),
            Kind::Folder | Kind::Special => Err(Refused::NotFound),
        }
    }

    fn file(&self, original: OpenFile, path: &[u8], ask: &Ask, now: SystemTime) -> Result<Answer, Refused> {
        let media_type = self.media_types.of(path);
        let mut siblings = if self.precompressed { self.siblings(&original, path) } else { Vec::new() };
        let available: Vec<Coding> = siblings.iter().map(|(coding, _)| *coding).collect();
        let coding = choose(ask.accept_encoding, &available);
        let chosen = siblings.iter().position(|(sibling, _)| Some(*sibling) == coding);
        let open = chosen.map_or(original, |place| siblings.swap_remove(place).1);
        Representation { open, media_type, coding, varies: !available.is_empty() }.answer(ask, now, &self.boundary_seed)
    }

    /// Coded files beside the original. One that cannot be read, or is from before the last change of the original, is
    /// as good as none.
    fn siblings(&self, original: &OpenFile, path: &[u8]) -> Vec<(Coding, OpenFile)> {
        let sibling = |coding: Coding| match self.kind(&[path, coding.suffix().as_bytes()].concat()) {
            Ok(Kind::File(file)) if file.modified >= original.modified => Some((coding, file)),
            Ok(Kind::File(_) | Kind::Folder | Kind::Special) | Err(_) => None,
        };
        Coding::ALL.into_iter().filter_map(sibling).collect()
    }

    fn kind(&self, path: &[u8]) -> Result<Kind, Refused> {
        match self.beneath.descriptor(path, Purpose::Read) {
            Ok(descriptor) => kind_of(descriptor),
            // A folder that may be passed through but not read can still have an index file.
            Err(Errno::ACCESS) => match self.beneath.descriptor(path, Purpose::Look).map_err(refusal).and_then(kind_of)? {
                Kind::File(_) => Err(Refused::Forbidden),
                other @ (Kind::Folder | Kind::Special) => Ok(other),
            },
            Err(error) => Err(refusal(error)),
        }
    }

    #[cfg(test)]
    fn walking(self) -> Root {
        Root { beneath: self.beneath.walking(), ..self }
    }
}

fn invalid(setting: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("`{setting}` names what can never be served"))
}

fn kind_of(descriptor: OwnedFd) -> Result<Kind, Refused> {
    Kind::of(File::from(descriptor)).map_err(|error| Refused::Unreadable { os_error: error.raw_os_error().unwrap_or(0) })
}

/// `./name/?query` for the last name of the path that the client asked for.
fn location(name: &[u8], query: Option<&[u8]>) -> String {
    let query = query.map(|query| format!("?{}", percent_encode(query, UNSAFE))).unwrap_or_default();
    format!("./{}/{query}", percent_encode(name, UNSAFE_IN_PATH))
}

#[cfg(test)]
mod tests;
