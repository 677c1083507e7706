//! Archives whose bytes depend on nothing but what is in them: entries in order, one time, owners by number.

use libdeflater::{CompressionLvl, Compressor};

/// One entry of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// Without a leading slash; a folder's ends with one.
    pub path: String,
    pub mode: u32,
    /// User and group, by number.
    pub owner: u64,
    pub content: Vec<u8>,
}

impl ArchiveEntry {
    pub fn file(path: &str, mode: u32, content: Vec<u8>) -> ArchiveEntry {
        ArchiveEntry { path: path.into(), mode, owner: 0, content }
    }

    pub fn folder(path: &str, mode: u32, owner: u64) -> ArchiveEntry {
        ArchiveEntry { path: format!("{path}/"), mode, owner, content: Vec::new() }
    }
}

/// The entries by path, each folder before what is in it.
pub fn tar(mut entries: Vec<ArchiveEntry>, time: u64) -> Result<Vec<u8>, String> {
    entries.sort_by(|left, right| left.path.cmp(&right.path));
    let mut builder = tar::Builder::new(Vec::new());
    for entry in &entries {
        let mut header = tar::Header::new_ustar();
        let is_folder = entry.path.ends_with('/');
        header.set_entry_type(if is_folder { tar::EntryType::Directory } else { tar::EntryType::Regular });
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(time);
        header.set_size(entry.content.len() as u64);
        let appended = builder.append_data(&mut header, &entry.path, entry.content.as_slice());
        appended.map_err(|error| format!("dist: {} in the archive: {error}", entry.path))?;
    }
    builder.into_inner().map_err(|error| format!("dist: the archive: {error}"))
}

/// Without a name and a time of its own.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut compressed = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let length = compressor.gzip_compress(bytes, &mut compressed).map_err(|error| format!("dist: gzip: {error}"))?;
    compressed.truncate(length);
    Ok(compressed)
}

#[cfg(test)]
mod tests {
    use super::{ArchiveEntry, gzip, tar};

    #[test]
    fn the_order_of_the_entries_is_their_paths() {
        let entries = || {
            vec![
                ArchiveEntry::file("b/x", 0o644, b"x".to_vec()),
                ArchiveEntry::folder("b", 0o755, 0),
                ArchiveEntry::file("a", 0o755, Vec::new()),
            ]
        };
        let mut turned = entries();
        turned.reverse();
        let archive = tar(entries(), 7).unwrap();
        assert_eq!(archive, tar(turned, 7).unwrap());
        let mut read = tar::Archive::new(archive.as_slice());
        let seen: Vec<(String, u32, u64)> = read
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap(), entry.header().mtime().unwrap())
            })
            .collect();
        assert_eq!(seen, [("a".into(), 0o755, 7), ("b/".into(), 0o755, 7), ("b/x".into(), 0o644, 7)]);
    }

    #[test]
    fn compressed_twice_the_bytes_are_the_same() {
        assert_eq!(gzip(b"text").unwrap(), gzip(b"text").unwrap());
        assert_eq!(&gzip(b"text").unwrap()[4..8], [0; 4], "no time");
    }
}
