//! A repository for apt, as files for any web server (<https://wiki.debian.org/DebianRepository/Format>). Packages of
//! earlier releases that lie in its pool stay, so that whoever has to can go back.

use super::signature::{Form, Key};
use super::{Distribution, archive, failed, packages, put, sha256};
use crate::process::Invocation;
use crate::release::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const POOL: &str = "pool/main/t/tidegate";
const SUITE: &str = "stable";
const COMPONENT: &str = "main";
/// The public key, beside the folders.
pub const KEY: &str = "tidegate.asc";

pub fn write(distribution: &Distribution, machines: &[Machine], key: &Key) -> Result<PathBuf, String> {
    let folder = distribution.folder.join("apt");
    let name = |machine: &Machine| distribution.folder.join(packages::deb_name(&distribution.version, *machine));
    write_of(distribution, &machines.iter().map(name).collect::<Vec<_>>(), &folder, key)?;
    Ok(folder)
}

pub fn write_of(distribution: &Distribution, packages: &[PathBuf], folder: &Path, key: &Key) -> Result<(), String> {
    let pool = folder.join(POOL);
    fs::create_dir_all(&pool).map_err(failed(&pool))?;
    for path in packages {
        fs::copy(path, pool.join(path.file_name().unwrap_or_default())).map_err(failed(path))?;
    }
    let suite = folder.join("dists").join(SUITE);
    let mut indexes = BTreeMap::new();
    for (name, _) in Machine::ALL {
        write_index(folder, &suite, name, &mut indexes)?;
    }
    let date = distribution.time()?.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string();
    put(&suite, "Release", &release(&date, &indexes))?;
    let text = suite.join("Release");
    key.sign(&text, Form::Clear, &suite.join("InRelease"))?;
    key.sign(&text, Form::Detached, &suite.join("Release.gpg"))?;
    key.write_public(&folder.join(KEY))
}

/// What is in the pool for a machine, also by the digest, where earlier ones stay: a client that has read `InRelease`
/// before a newer one came still finds what it names.
fn write_index(
    folder: &Path,
    suite: &Path,
    machine: &str,
    indexes: &mut BTreeMap<String, (usize, String)>,
) -> Result<(), String> {
    let mut paragraphs = Vec::new();
    let pool = folder.join(POOL);
    let mut names: Vec<_> =
        fs::read_dir(&pool).map_err(failed(&pool))?.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names.iter().filter_map(|name| name.to_str()).filter(|name| name.ends_with(&format!("_{machine}.deb"))) {
        let path = pool.join(name);
        let bytes = fs::read(&path).map_err(failed(&path))?;
        paragraphs.push(paragraph(&control(folder, &path)?, &format!("{POOL}/{name}"), &bytes));
    }
    let text = paragraphs.join("\n").into_bytes();
    let binary = format!("{COMPONENT}/binary-{machine}");
    let by_hash = suite.join(&binary).join("by-hash/SHA256");
    fs::create_dir_all(&by_hash).map_err(failed(&by_hash))?;
    for (name, bytes) in [("Packages.gz", archive::gzip(&text)?), ("Packages", text)] {
        let digest = sha256(&bytes);
        for path in [suite.join(&binary).join(name), by_hash.join(&digest)] {
            fs::write(&path, &bytes).map_err(failed(&path))?;
        }
        indexes.insert(format!("{binary}/{name}"), (bytes.len(), digest));
    }
    Ok(())
}

fn control(folder: &Path, package: &Path) -> Result<String, String> {
    let invocation = Invocation::new("dpkg-deb", &["--field", &package.display().to_string()]);
    let output = invocation.capture(folder)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("dist: {}: {}", invocation.line(), String::from_utf8_lossy(&output.stderr).trim()))
}

fn paragraph(control: &str, path: &str, package: &[u8]) -> String {
    format!("{}\nFilename: {path}\nSize: {}\nSHA256: {}\n", control.trim_end(), package.len(), sha256(package))
}

fn release(date: &str, indexes: &BTreeMap<String, (usize, String)>) -> String {
    let machines = Machine::ALL.map(|(name, _)| name).join(" ");
    let mut text = format!(
        "Origin: Tidegate\nLabel: Tidegate\nSuite: {SUITE}\nCodename: {SUITE}\nDate: {date}\nArchitectures: {machines}\n\
         Components: {COMPONENT}\nDescription: Releases of Tidegate\nAcquire-By-Hash: yes\nSHA256:\n"
    );
    for (path, (size, digest)) in indexes {
        text += &format!(" {digest} {size} {path}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{paragraph, release};
    use std::collections::BTreeMap;

    #[test]
    fn a_package_is_described_by_its_own_words_and_where_it_is() {
        let text = paragraph("Package: tidegate\nDescription: A\n b\n", "pool/a.deb", b"abc");
        let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let expected = format!("Package: tidegate\nDescription: A\n b\nFilename: pool/a.deb\nSize: 3\nSHA256: {digest}\n");
        assert_eq!(text, expected);
    }

    #[test]
    fn the_release_names_every_index() {
        let indexes = BTreeMap::from([("main/binary-amd64/Packages".to_owned(), (7, "ab".to_owned()))]);
        let text = release("Fri, 27 Nov 2026 02:00:00 UTC", &indexes);
        assert!(text.contains("\nDate: Fri, 27 Nov 2026 02:00:00 UTC\nArchitectures: amd64 arm64\n"), "{text}");
        assert!(text.ends_with("SHA256:\n ab 7 main/binary-amd64/Packages\n"), "{text}");
    }
}
