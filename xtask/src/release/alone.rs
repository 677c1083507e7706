//! What shows that a program needs nothing of the system: its program headers, and a start in a folder that has nothing
//! else.

use crate::process::Invocation;
use crate::repository::root;
use crate::scratch::ScratchFolder;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What is tried in the empty folder: a certificate of the internal CA, so the cryptography and its randomness too.
const CONFIGURATION: &str = "site \"https://localhost:8443\" { respond 200 body=\"static\"; }\n";

/// Whether it asks for a loader or a library, and starts in a folder that has nothing else.
pub fn check(program: &Path) -> Result<(), String> {
    let bytes = fs::read(program).map_err(|error| format!("{}: {error}", program.display()))?;
    let linkage = Linkage::of(&bytes).map_err(|why| format!("{}: {why}", program.display()))?;
    if linkage != Linkage::default() {
        return Err(format!("{} is not static: {linkage:?}", program.display()));
    }
    println!("{}: static, {} bytes", program.display(), bytes.len());
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        println!("only root can try whether it starts where nothing else is (chroot)");
        return Ok(());
    }
    start_alone(program)?;
    println!("{}: starts where nothing else is", program.display());
    Ok(())
}

/// Runs `check` in a folder with the program and a configuration.
fn start_alone(program: &Path) -> Result<(), String> {
    let folder = ScratchFolder::new("static")?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.path().display());
    fs::copy(program, folder.path().join("tidegate")).map_err(failed)?;
    fs::write(folder.path().join("tidegate.kdl"), CONFIGURATION).map_err(failed)?;
    let path = folder.path().display().to_string();
    Invocation::new("chroot", &[&path, "/tidegate", "check", "/tidegate.kdl"]).run(&root())
}

/// What a program asks of the system before it starts; nothing, where it is static.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linkage {
    loader: Option<String>,
    libraries: usize,
}

impl Linkage {
    /// By the program headers of a file in ELF of 64 bits, little-endian.
    fn of(file: &[u8]) -> Result<Linkage, &'static str> {
        const BITS_64: u8 = 2;
        const LITTLE_ENDIAN: u8 = 1;
        const DYNAMIC: u32 = 2;
        const INTERPRETER: u32 = 3;
        if file.get(..6) != Some(&[0x7f, b'E', b'L', b'F', BITS_64, LITTLE_ENDIAN]) {
            return Err("no program for Linux on a 64-bit, little-endian machine");
        }
        let cut = "the file is cut off";
        let (start, size) = (number(file, 32, 8).ok_or(cut)?, number(file, 54, 2).ok_or(cut)?);
        let mut linkage = Linkage::default();
        for position in 0..number(file, 56, 2).ok_or(cut)? {
            let header = start.saturating_add(position * size);
            let in_header = |at: usize, length| number(file, header.saturating_add(at), length).ok_or(cut);
            let (kind, offset, length) = (in_header(0, 4)?, in_header(8, 8)?, in_header(32, 8)?);
            let part = file.get(offset..offset.saturating_add(length));
            if kind == INTERPRETER as usize {
                let name = part.ok_or(cut)?.split(|byte| *byte == 0).next().unwrap_or_default();
                linkage.loader = Some(String::from_utf8_lossy(name).into_owned());
            } else if kind == DYNAMIC as usize {
                linkage.libraries = libraries_in(part.ok_or(cut)?);
            }
        }
        Ok(linkage)
    }
}

/// Libraries that the dynamic section names: pairs of a tag and a value, up to the tag 0.
fn libraries_in(section: &[u8]) -> usize {
    const NEEDED: usize = 1;
    let tags = section.chunks_exact(16).map(|entry| number(entry, 0, 8).unwrap_or_default());
    tags.take_while(|tag| *tag != 0).filter(|tag| *tag == NEEDED).count()
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    bytes.iter().rev().try_fold(0_usize, |number, byte| Some(number.checked_mul(256)? + usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::Linkage;

    /// A file with these program headers: kind and content.
    fn file(parts: &[(u32, &[u8])]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file[32] = 64;
        file[54] = 56;
        file[56] = parts.len() as u8;
        let mut offset = 64 + 56 * parts.len() as u64;
        for (kind, content) in parts {
            let mut header = [0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&offset.to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            offset += content.len() as u64;
            file.extend_from_slice(&header);
        }
        for (_, content) in parts {
            file.extend_from_slice(content);
        }
        file
    }

    /// Entries of a dynamic section.
    fn entries(tags: &[u64]) -> Vec<u8> {
        tags.iter().flat_map(|tag| [tag.to_le_bytes(), 7_u64.to_le_bytes()].concat()).collect()
    }

    #[test]
    fn what_a_program_asks_for_is_found() {
        let check = |parts: &[(u32, &[u8])], loader: Option<&str>, libraries: usize| {
            let expected = Linkage { loader: loader.map(str::to_owned), libraries };
            assert_eq!(Linkage::of(&file(parts)), Ok(expected), "{parts:?}");
        };
        check(&[], None, 0);
        check(&[(1, b"code")], None, 0);
        check(&[(1, b"code"), (3, b"/lib64/ld-linux-x86-64.so.2\0")], Some("/lib64/ld-linux-x86-64.so.2"), 0);
        check(&[(2, &entries(&[1, 5, 1, 0, 1]))], None, 2);
        // One that can be loaded anywhere has the section, and asks for nothing in it.
        check(&[(2, &entries(&[5, 0]))], None, 0);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let check = |bytes: &[u8]| assert!(Linkage::of(bytes).is_err(), "{bytes:?}");
        check(b"");
        check(b"#!/bin/sh\n");
        check(&file(&[(3, b"/lib/ld.so\0")])[..80]);
        let mut beyond = file(&[(3, b"x")]);
        beyond[64 + 8..64 + 16].copy_from_slice(&u64::MAX.to_le_bytes());
        check(&beyond);
        let mut of_32_bits = file(&[]);
        of_32_bits[4] = 1;
        check(&of_32_bits);
    }

    #[test]
    fn this_test_is_a_program_of_the_system() {
        let own = std::fs::read("/proc/self/exe").expect("its own file");
        let linkage = Linkage::of(&own).expect("a program");
        let is_static = cfg!(target_feature = "crt-static");
        assert_eq!((linkage.loader.is_none(), linkage.libraries == 0), (is_static, is_static), "{linkage:?}");
    }
}
