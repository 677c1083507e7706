//! Sessions that a worker has opened lately, by the end of their cookie, so that decryption and a look through the
//! claims are done once and not for each request. Whether a session is over is looked at each time.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_access::Claims;
use tidegate_access::oidc::{ProviderId, Purpose, Realm, Session, SessionKeys, SessionMarks};

/// Of a worker, and together as long as this at most. Those asked for lately stay.
const OPENED_MAX: usize = 4096;
const OPENED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The end of a cookie is a part of what authenticates it, and no two have the same.
const END_BYTES: usize = 16;
/// What an entry takes beside what it holds: twice the cookie, and this.
const OVERHEAD_BYTES: usize = 300;

/// A session with all that is found out of it.
pub struct OpenedSession {
    sealed: Box<[u8]>,
    provider: ProviderId,
    host: Box<[u8]>,
    pub session: Session,
    pub claims: Rc<Claims>,
    pub marks: SessionMarks,
}

impl OpenedSession {
    /// `None`: its token has no claims, which those that were verified have.
    pub fn new(sealed: Vec<u8>, realm: Realm<'_>, session: Session) -> Option<Rc<OpenedSession>> {
        let claims = session.claims().ok()?;
        let marks = SessionMarks::of(realm.provider, &session, &claims);
        let (provider, host) = (*realm.provider, realm.host.into());
        Some(Rc::new(OpenedSession { sealed: sealed.into(), provider, host, session, claims: Rc::new(claims), marks }))
    }

    fn is_of(&self, realm: Realm<'_>) -> bool {
        self.provider == *realm.provider && *self.host == *realm.host
    }

    fn bytes(&self) -> usize {
        3 * self.sealed.len() + OVERHEAD_BYTES
    }
}

type Entries = HashMap<[u8; END_BYTES], Rc<OpenedSession>>;

/// In two halves: when the younger is full, the elder is forgotten, and what was asked for lately has moved to the
/// younger by then.
#[derive(Default)]
pub struct OpenedSessions {
    /// Which have opened all of these. Others may open none of them.
    keys: Option<Arc<SessionKeys>>,
    young: Entries,
    young_bytes: usize,
    old: Entries,
}

impl OpenedSessions {
    /// The session in a cookie; `None` where none of the keys has sealed it for that realm.
    pub fn open(&mut self, keys: &Arc<SessionKeys>, realm: Realm<'_>, sealed: Vec<u8>) -> Option<Rc<OpenedSession>> {
        if !self.keys.as_ref().is_some_and(|known| Arc::ptr_eq(known, keys)) {
            *self = OpenedSessions { keys: Some(keys.clone()), ..OpenedSessions::default() };
        }
        let end: [u8; END_BYTES] = sealed.last_chunk().copied()?;
        let is_this = |opened: &&Rc<OpenedSession>| *opened.sealed == *sealed && opened.is_of(realm);
        if let Some(opened) = self.young.get(&end).filter(is_this) {
            return Some(opened.clone());
        }
        if let Some(opened) = self.old.remove(&end).filter(|opened| is_this(&opened)) {
            self.insert(end, opened.clone());
            return Some(opened);
        }
        let session = Session::read(&keys.open(Purpose::Session, realm, &sealed)?)?;
        let opened = OpenedSession::new(sealed, realm, session)?;
        self.insert(end, opened.clone());
        Some(opened)
    }

    fn insert(&mut self, end: [u8; END_BYTES], opened: Rc<OpenedSession>) {
        let bytes = opened.bytes();
        let is_full = self.young.len() >= OPENED_MAX / 2 || self.young_bytes + bytes > OPENED_BYTES_MAX / 2;
        if is_full && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(end, opened) {
            self.young_bytes -= before.bytes();
        }
    }
}
