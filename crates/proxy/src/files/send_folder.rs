//! A folder of `send-file`: the files that an application may have sent, as all workers share it.

use super::Folder;
use std::io;
use std::time::{Instant, SystemTime};
use tidegate_files::{Answer, Ask};
use tidegate_middleware::send_file::{NamedFile, SendRule};
use tidegate_model::{Files, SendFile};

pub struct SendFolder {
    rule: SendRule,
    folder: Folder,
}

impl SendFolder {
    pub fn open(settings: &SendFile) -> io::Result<SendFolder> {
        let files = Files { index: Vec::new(), hidden: settings.hidden, ..Files::new(&settings.root) };
        Ok(SendFolder { rule: SendRule::new(settings), folder: Folder::open(&files)? })
    }

    /// What is left of a path below the folder; `None` for one that is not there.
    pub(crate) fn below<'p>(&self, named: &NamedFile, path: &'p [u8]) -> Option<&'p [u8]> {
        self.rule.below(named, path)
    }

    /// The file of that name, which the application calls so.
    pub(crate) fn send(&self, name: &[u8], media_type: Option<String>, ask: &Ask<'_>, now: Instant) -> Answer {
        self.folder.current(now).root.send(name, media_type, ask, SystemTime::now())
    }
}
