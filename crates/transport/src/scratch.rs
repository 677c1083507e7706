//! Files without a name, for what is too large for memory and gone when its owner is: whatever ends the process or the
//! exchange, nothing is left behind. Writing is done beside the workers; what was written lately is in the page cache,
//! and is read where it is needed. The disk that all of them take together is bounded.

use crate::Buf;
use crate::memory::BoundedShare;
use crate::rt;
use rustix::fs::OFlags;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All files of the process together: clients must not fill the disk that certificates and logs are kept on.
pub const ALL_BYTES_MAX: u64 = 16 << 30;
/// Written at once: a call beside the worker costs more than a system call.
const WRITE_BYTES: usize = 256 << 10;
/// Names that are tried where a file has to have one for a moment.
const NAMES_MAX: u32 = 100;

/// What all of them take now.
static ALL_BYTES: AtomicU64 = AtomicU64::new(0);

/// A file that only its owner has, written once from front to back.
#[derive(Debug)]
pub struct ScratchFile {
    file: Arc<File>,
    /// Everything that was added. Counted by itself: a write that is given up half-way has its bytes in neither of the
    /// two below.
    added: u64,
    /// What is in the file.
    written: u64,
    /// What is still to be written behind it.
    pending: Vec<u8>,
    /// What that takes of memory.
    share: BoundedShare,
}

impl ScratchFile {
    /// In that folder, which is made when it is not there.
    pub async fn create(folder: PathBuf) -> io::Result<ScratchFile> {
        let file = rt::beside(move || create(&folder)).await??;
        let (file, share) = (Arc::new(file), BoundedShare::collected());
        Ok(ScratchFile { file, added: 0, written: 0, pending: Vec::new(), share })
    }

    /// Adds to its end. `is_memory_short`: nothing waits in memory for more. Nor does it where bodies hold as much as
    /// they may.
    pub async fn add(&mut self, bytes: &[u8], is_memory_short: bool) -> io::Result<()> {
        let taken = ALL_BYTES.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        self.added += bytes.len() as u64;
        self.pending.extend_from_slice(bytes);
        if taken > ALL_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if is_memory_short || !self.share.try_set(self.pending.capacity()) {
            return self.write_all().await;
        }
        if self.pending.len() >= WRITE_BYTES { self.write().await } else { Ok(()) }
    }

    /// Nothing more is added.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.write_all().await
    }

    /// Writes what waits, and keeps no memory for more.
    async fn write_all(&mut self) -> io::Result<()> {
        self.write().await?;
        self.pending = Vec::new();
        self.share.clear();
        Ok(())
    }

    async fn write(&mut self) -> io::Result<()> {
        let (file, bytes, at) = (self.file.clone(), std::mem::take(&mut self.pending), self.written);
        let (outcome, mut bytes) = rt::beside(move || (file.write_all_at(&bytes, at), bytes)).await?;
        self.written += bytes.len() as u64;
        bytes.clear();
        self.pending = bytes;
        outcome
    }

    /// Everything that was added.
    pub fn len(&self) -> u64 {
        self.added
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most so much of what was written, from there on; nothing at the end.
    pub fn read_at(&self, offset: u64, bytes_max: usize) -> io::Result<Buf> {
        let mut piece = Buf::take();
        let room = piece.spare_for_read();
        let wanted = room.len().min(bytes_max);
        let count = self.file.read_at(&mut room[..wanted], offset)?;
        piece.grow(count);
        Ok(piece)
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        ALL_BYTES.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

fn create(folder: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().custom_flags(OFlags::TMPFILE.bits() as i32).open(folder) {
        Ok(file) => Ok(file),
        // Not every file system has files without a name, and a kernel that knows none takes the flag for a folder's.
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::IsADirectory) => {
            create_and_remove(folder, &mut options)
        }
        Err(error) => Err(error),
    }
}

fn create_and_remove(folder: &Path, options: &mut OpenOptions) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut outcome = Err(io::ErrorKind::AlreadyExists.into());
    for _ in 0..NAMES_MAX {
        let path = folder.join(format!(".scratch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        outcome = options.create_new(true).open(&path);
        match &outcome {
            Ok(_) => {
                fs::remove_file(&path)?;
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => break,
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::{ALL_BYTES, ALL_BYTES_MAX, ScratchFile, WRITE_BYTES, create, create_and_remove};
    use crate::rt;
    use std::fs::{self, OpenOptions};
    use std::future::Future;
    use std::os::unix::fs::FileExt;
    use std::pin::pin;
    use std::sync::atomic::Ordering;
    use std::task::{Context, Waker};

    #[test]
    fn what_was_added_is_read_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("state/bodies");
        let bytes: Vec<u8> = (0..3 * WRITE_BYTES + 17).map(|at| (at % 251) as u8).collect();
        rt::run(crate::Driver::Epoll, async {
            let mut file = ScratchFile::create(place.clone()).await.expect("a file");
            assert!(file.is_empty());
            for piece in bytes.chunks(10_007) {
                file.add(piece, false).await.expect("added");
            }
            file.finish().await.expect("written");
            assert_eq!((file.len(), ALL_BYTES.load(Ordering::Relaxed)), (bytes.len() as u64, bytes.len() as u64));
            let mut read = Vec::new();
            loop {
                let piece = file.read_at(read.len() as u64, 1_000).expect("read");
                if piece.is_empty() {
                    break;
                }
                read.extend_from_slice(&piece);
            }
            assert!(read == bytes, "{} of {} bytes", read.len(), bytes.len());
            assert_eq!(fs::read_dir(&place).expect("a folder").count(), 0, "it has no name");
            drop(file);
            assert_eq!(ALL_BYTES.load(Ordering::Relaxed), 0);
            // A client that leaves while its bytes are being written takes nothing of what all files may have.
            // Now and then the bytes are written before anybody asks.
            let mut was_given_up = false;
            for _ in 0..100 {
                let mut file = ScratchFile::create(place.clone()).await.expect("a file");
                was_given_up |= pin!(file.add(&bytes, false)).poll(&mut Context::from_waker(Waker::noop())).is_pending();
                assert_eq!(file.len(), bytes.len() as u64);
                drop(file);
                assert_eq!(ALL_BYTES.load(Ordering::Relaxed), 0);
                if was_given_up {
                    break;
                }
            }
            assert!(was_given_up);
            // Together they take no more than they may, whoever has the most.
            let mut file = ScratchFile::create(place.clone()).await.expect("a file");
            ALL_BYTES.store(ALL_BYTES_MAX - 10, Ordering::Relaxed);
            file.add(b"0123456789", false).await.expect("there is room for ten");
            let refused = file.add(b"x", false).await.expect_err("and for no more");
            assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
            drop(file);
            assert_eq!(ALL_BYTES.swap(0, Ordering::Relaxed), ALL_BYTES_MAX - 10, "what was refused is given back as well");
        })
        .expect("a runtime");
    }

    #[test]
    fn a_file_that_had_a_name_for_a_moment_has_none_any_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = create_and_remove(folder.path(), OpenOptions::new().read(true).write(true)).expect("a file");
        file.write_all_at(b"abc", 0).expect("written");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(create(&folder.path().join("a")).is_ok());
        fs::write(folder.path().join("b"), "").expect("written");
        assert!(create(&folder.path().join("b")).is_err(), "no folder");
    }
}
