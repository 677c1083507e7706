//! A request body that is collected before it goes anywhere: its beginning in memory, what is longer in a file without
//! a name. Whoever waits for a slow client then is the proxy, to which that costs a descriptor, and no server.

use std::io;
use std::path::Path;
use tidegate_exchange::Pooled;
use tidegate_transport::Buf;
use tidegate_transport::memory::TakenShare;
use tidegate_transport::scratch::ScratchFile;

/// What of a body is kept in memory; all of an ordinary form.
const MEMORY_BYTES_MAX: usize = 256 << 10;
/// A piece that is sent: less than what sockets hold, so that the first one is taken although its script may write
/// before it reads.
const PIECE_BYTES: usize = 32 << 10;

/// All of a body, once it is there.
pub(crate) struct Collected {
    memory: Pooled<Vec<u8>>,
    /// What that is, seen by whoever looks whether there is memory for another request.
    taken: TakenShare,
    /// What came behind it.
    file: Option<ScratchFile>,
}

impl Collected {
    pub fn empty() -> Collected {
        Collected { memory: Pooled::take(), taken: TakenShare::default(), file: None }
    }

    /// Adds a piece. `is_memory_short`: not to what is in memory, if that is something already.
    pub async fn add(&mut self, piece: &[u8], folder: &Path, is_memory_short: bool) -> io::Result<()> {
        let bytes_max = if is_memory_short { 0 } else { MEMORY_BYTES_MAX };
        let fits = self.memory.len() + piece.len() <= bytes_max;
        if fits && self.file.is_none() {
            self.memory.extend_from_slice(piece);
            self.taken.set(self.memory.len());
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ScratchFile::create(folder.to_owned()).await?),
        };
        file.add(piece).await
    }

    /// The body is whole.
    pub async fn finish(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.finish().await,
            None => Ok(()),
        }
    }

    pub fn len(&self) -> u64 {
        self.memory.len() as u64 + self.file.as_ref().map_or(0, ScratchFile::len)
    }

    /// The piece from there on, as it is sent; an empty one at the end.
    pub fn piece(&self, offset: u64) -> io::Result<Buf> {
        let in_memory = self.memory.len() as u64;
        if offset < in_memory {
            let rest = &self.memory[offset as usize..];
            return Ok(Buf::copy_of(&rest[..rest.len().min(PIECE_BYTES)]));
        }
        self.file.as_ref().map_or_else(|| Ok(Buf::empty()), |file| file.read_at(offset - in_memory, PIECE_BYTES))
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
        let first = self.memory.len().min(PIECE_BYTES);
        self.len() > if first > 0 { first as u64 } else { PIECE_BYTES as u64 }
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
        assert!(collected.memory.len() <= MEMORY_BYTES_MAX.min(short_from.next_multiple_of(piece)), "{}", collected.memory.len());
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
        rt::run(async {
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
