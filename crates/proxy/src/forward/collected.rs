//! A request body that is collected before it goes anywhere: in memory, or in a file without a name when it is long or
//! when such bodies hold as much memory as they may. Whoever waits for a slow client then is the proxy, to which that
//! costs a descriptor, and no server.

use std::io;
use std::path::Path;
use tidegate_exchange::Pooled;
use tidegate_transport::Buf;
use tidegate_transport::memory::BoundedShare;
use tidegate_transport::scratch::ScratchFile;

/// What of a body is kept in memory; all of an ordinary form.
const MEMORY_BYTES_MAX: usize = 256 << 10;
/// A piece that is sent: less than what sockets hold, so that the first one is taken although its script may write
/// before it reads.
const PIECE_BYTES: usize = 32 << 10;

/// All of a body, once it is there.
pub(crate) struct Collected {
    /// Empty from when there is a file.
    memory: Pooled<Vec<u8>>,
    /// What that takes, seen by whoever looks whether there is memory for another request.
    share: BoundedShare,
    file: Option<ScratchFile>,
}

impl Collected {
    pub fn empty() -> Collected {
        Collected { memory: Pooled::take(), share: BoundedShare::collected(), file: None }
    }

    /// Adds a piece. `is_memory_short`: to a file, with all that is in memory.
    pub async fn add(&mut self, piece: &[u8], folder: &Path, is_memory_short: bool) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.add(piece, is_memory_short).await;
        }
        if !is_memory_short && self.is_room_for(piece.len()) {
            self.memory.extend_from_slice(piece);
            return Ok(());
        }
        let file = self.file.insert(ScratchFile::create(folder.to_owned()).await?);
        // Given up before it is copied to where the file's writes are gathered, or that would seem to be too much.
        let beginning = std::mem::take(&mut *self.memory);
        self.share.clear();
        if !beginning.is_empty() {
            file.add(&beginning, is_memory_short).await?;
            drop(beginning);
        }
        file.add(piece, is_memory_short).await
    }

    /// Makes room for so much more in memory, if it may be there.
    fn is_room_for(&mut self, more: usize) -> bool {
        let wanted = self.memory.len() + more;
        if wanted > MEMORY_BYTES_MAX {
            return false;
        }
        // What is allocated counts, and grows by doubling, or each piece would have what is before it copied.
        let capacity = self.memory.capacity();
        let grown = if wanted > capacity { wanted.max(2 * capacity).min(MEMORY_BYTES_MAX) } else { capacity };
        if !self.share.try_set(grown) {
            return false;
        }
        let length = self.memory.len();
        self.memory.reserve_exact(grown - length);
        true
    }

    /// The body is whole.
    pub async fn finish(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.finish().await,
            None => Ok(()),
        }
    }

    pub fn len(&self) -> u64 {
        self.file.as_ref().map_or(self.memory.len() as u64, ScratchFile::len)
    }

    /// The piece from there on, as it is sent; an empty one at the end.
    pub fn piece(&self, offset: u64) -> io::Result<Buf> {
        if let Some(file) = &self.file {
            return file.read_at(offset, PIECE_BYTES);
        }
        let rest = self.memory.get(offset as usize..).unwrap_or_default();
        Ok(Buf::copy_of(&rest[..rest.len().min(PIECE_BYTES)]))
    }

    /// How long the first piece is. Of one in memory that is known without a look at it.
    pub fn first_bytes(&self) -> io::Result<u64> {
        match self.memory.len() {
            0 => Ok(self.piece(0)?.len() as u64),
            in_memory => Ok(in_memory.min(PIECE_BYTES) as u64),
        }
    }

    /// Whether there is more than the first piece.
    pub fn has_rest(&self) -> bool {
        self.len() > PIECE_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Collected, MEMORY_BYTES_MAX, PIECE_BYTES};
    use tidegate_transport::rt;

    /// A body in pieces of that length, from some byte on with little memory left, comes out as it went in.
    async fn check(bytes: usize, piece: usize, short_from: usize) {
        let folder = tempfile::tempdir().expect("a folder");
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let mut collected = Collected::empty();
        let mut at = 0;
        for piece in body.chunks(piece) {
            collected.add(piece, folder.path(), at >= short_from).await.expect("added");
            at += piece.len();
        }
        collected.finish().await.expect("whole");
        assert_eq!(collected.len(), bytes as u64);
        let is_short = bytes > 0 && (bytes - 1) / piece * piece >= short_from;
        let is_in_memory = bytes <= MEMORY_BYTES_MAX && !is_short;
        assert_eq!(collected.file.is_none(), is_in_memory, "{bytes} in pieces of {piece}, memory short from {short_from}");
        assert!(is_in_memory || collected.memory.capacity() == 0, "what is in the file is in memory, too");
        let (mut read, mut pieces) = (Vec::new(), 0);
        loop {
            let piece = collected.piece(read.len() as u64).expect("a piece");
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= PIECE_BYTES);
            read.extend_from_slice(&piece);
            pieces += 1;
        }
        assert!(read == body, "{} of {bytes} bytes", read.len());
        assert_eq!(collected.has_rest(), pieces > 1, "{bytes} in pieces of {piece}, memory short from {short_from}");
    }

    #[test]
    fn a_body_is_whole_wherever_its_parts_are() {
        rt::run(tidegate_transport::Driver::Epoll, async {
            for bytes in [0, 1, PIECE_BYTES, PIECE_BYTES + 1, MEMORY_BYTES_MAX, MEMORY_BYTES_MAX + 1, 3 * MEMORY_BYTES_MAX] {
                for piece in [1_000, 65_536, 1 << 20] {
                    for short_from in [0, 10_000, usize::MAX] {
                        check(bytes, piece, short_from.min(1 << 40)).await;
                    }
                }
            }
        })
        .expect("a runtime");
    }
}
