//! `cargo xtask dist`: what people install. Packages for Debian and its kin (deb) and for Fedora and its kin (rpm),
//! signed repositories of both, an image for containers, the manual as a site, a page of the release, and checksums of
//! all of them, in `dist/` of the target folder. So that the same commit gives the same bytes, times are those of the
//! commit, and compilers are told to leave out the builder's folders. `--check` looks at what was made as its users
//! will.

mod apt;
mod archive;
mod bill_of_materials;
mod c_library;
mod check;
mod dnf;
mod generated;
mod image;
mod manual_page;
mod packages;
mod page;
mod shipped;
mod signature;
mod site;
mod tool;

use crate::process::Invocation;
use crate::release::{self, Machine};
use crate::repository::{root, target_directory};
use sha2::{Digest as _, Sha256};
use signature::Key;
use std::fs;
use std::path::{Path, PathBuf};

/// What is made, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Deb,
    Rpm,
    Apt,
    Dnf,
    Image,
    Site,
    Page,
}

impl Part {
    const ALL: [(&str, Part); 7] = [
        ("deb", Part::Deb),
        ("rpm", Part::Rpm),
        ("apt", Part::Apt),
        ("dnf", Part::Dnf),
        ("image", Part::Image),
        ("site", Part::Site),
        ("page", Part::Page),
    ];

    fn needs_key(self) -> bool {
        match self {
            Part::Apt | Part::Dnf => true,
            Part::Deb | Part::Rpm | Part::Image | Part::Site | Part::Page => false,
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct DistributionOptions {
    parts: Vec<Part>,
    machines: Vec<Machine>,
    /// Programs that are there, instead of builds of this commit.
    programs: Vec<PathBuf>,
    key: Option<PathBuf>,
    is_checked: bool,
    /// Everything, for all machines and twice: what `--check` without parts means.
    is_thorough: bool,
}

const USAGE: &str = "dist: there are the parts deb, rpm, apt, dnf, image, site and page, --machine amd64 or arm64, --program PATH, \
                     --key FILE for apt and dnf, and --check";

impl DistributionOptions {
    fn parse(arguments: &[String]) -> Result<DistributionOptions, String> {
        let mut options = DistributionOptions::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("dist: `{word}` needs a value"));
            match word.as_str() {
                "--machine" => options.machines.push(named(&Machine::ALL, value()?)?),
                "--program" => options.programs.push(value()?.into()),
                "--key" => options.key = Some(value()?.into()),
                "--check" => options.is_checked = true,
                part => options.parts.push(named(&Part::ALL, part)?),
            }
        }
        if options.key.is_none() && options.parts.iter().any(|part| part.needs_key()) {
            return Err(
                "dist: repositories are signed; `--key FILE` is a secret key of OpenPGP, as `gpg --export-secret-keys` writes it"
                    .into(),
            );
        }
        options.is_thorough = options.is_checked && options.parts.is_empty();
        if options.parts.is_empty() {
            let can_be_made = |part: &Part| options.key.is_some() || !part.needs_key();
            options.parts = Part::ALL.iter().map(|(_, part)| *part).filter(can_be_made).collect();
        }
        if options.machines.is_empty() {
            let is_wanted = |machine: &Machine| machine.is_this() || options.is_thorough;
            options.machines = Machine::ALL.iter().map(|(_, machine)| *machine).filter(is_wanted).collect();
        }
        Ok(options)
    }
}

fn named<T: Copy>(names: &[(&str, T)], word: &str) -> Result<T, String> {
    names.iter().find(|(name, _)| *name == word).map(|(_, found)| *found).ok_or_else(|| format!("{USAGE}; not `{word}`"))
}

/// What every part is made from.
struct Distribution {
    root: PathBuf,
    /// Where all of it goes.
    folder: PathBuf,
    version: String,
    /// When the commit was made, in seconds since 1970; the time of everything in the archives.
    commit_time: u64,
    commit: String,
    /// Programs that are there; of other machines one is built.
    given: Vec<(Machine, PathBuf)>,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = DistributionOptions::parse(arguments)?;
    let distribution = Distribution::new(&options.programs)?;
    let key = options.key.as_deref().map(Key::open).transpose()?;
    let made = make(&distribution, &options, key.as_ref())?;
    for path in &made {
        println!("{}", path.display());
    }
    if options.is_checked { check::run(&distribution, &options) } else { Ok(()) }
}

fn make(distribution: &Distribution, options: &DistributionOptions, key: Option<&Key>) -> Result<Vec<PathBuf>, String> {
    fs::create_dir_all(&distribution.folder).map_err(failed(&distribution.folder))?;
    let is_wanted = |parts: &[Part]| parts.iter().any(|part| options.parts.contains(part));
    let mut made = Vec::new();
    for machine in &options.machines {
        if is_wanted(&[Part::Deb, Part::Apt]) {
            made.push(packages::deb(distribution, *machine)?);
        }
        if is_wanted(&[Part::Rpm, Part::Dnf]) {
            made.push(packages::rpm(distribution, *machine)?);
        }
    }
    if let Some(key) = key {
        if is_wanted(&[Part::Apt]) {
            made.push(apt::write(distribution, &options.machines, key)?);
        }
        if is_wanted(&[Part::Dnf]) {
            made.push(dnf::write(distribution, &options.machines, key)?);
        }
    }
    if is_wanted(&[Part::Image]) {
        made.extend(image::write(distribution, &options.machines)?);
    }
    if is_wanted(&[Part::Site]) {
        made.push(site::write(distribution)?);
    }
    if is_wanted(&[Part::Page]) {
        made.push(page::write(distribution)?);
    }
    let checksums = write_checksums(&distribution.folder)?;
    if let Some(key) = key {
        made.push(key.sign(&checksums, signature::Form::Detached, &distribution.folder.join(format!("{CHECKSUMS}.asc")))?);
    }
    made.push(checksums);
    Ok(made)
}

impl Distribution {
    fn new(programs: &[PathBuf]) -> Result<Distribution, String> {
        let root = root();
        let of_git = |arguments: &[&str]| -> Result<String, String> {
            let output = Invocation::new("git", arguments).capture(&root)?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() {
                Ok(text)
            } else {
                Err(format!("dist: git {} failed; a commit is needed", arguments.join(" ")))
            }
        };
        let commit_time = of_git(&["log", "-1", "--format=%ct"])?;
        let with_machine = |path: &PathBuf| Ok((Machine::of_program(path)?, path.clone()));
        Ok(Distribution {
            folder: target_directory(&root)?.join("dist"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit_time: commit_time.parse().map_err(|_| format!("dist: `{commit_time}` is no time of a commit"))?,
            commit: of_git(&["rev-parse", "HEAD"])?,
            given: programs.iter().map(with_machine).collect::<Result<_, String>>()?,
            root,
        })
    }

    fn program(&self, machine: Machine) -> Result<PathBuf, String> {
        let given = self.given.iter().find(|(of, _)| *of == machine).map(|(_, path)| path.as_path());
        release::program(&self.root, machine, given)
    }
}

impl Distribution {
    fn time(&self) -> Result<jiff::Timestamp, String> {
        let seconds = i64::try_from(self.commit_time).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).map_err(|error| format!("dist: the time of the commit: {error}"))
    }
}

const CHECKSUMS: &str = "SHA256SUMS";

/// Of every file, in the form that `sha256sum --check` reads. The page of the release has them as well and is left out.
fn write_checksums(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join(CHECKSUMS);
    let lines = checksums(folder)?.into_iter().map(|(name, sum)| format!("{sum}  {name}\n"));
    fs::write(&path, lines.collect::<String>()).map_err(failed(&path))?;
    Ok(path)
}

/// Each file of the folder with its checksum, but for the checksums and the page of the release, which name them.
fn checksums(folder: &Path) -> Result<Vec<(String, String)>, String> {
    let is_made_of_them = |name: &str| name.starts_with(CHECKSUMS) || page::is_page(name);
    let mut names: Vec<String> = fs::read_dir(folder)
        .map_err(failed(folder))?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !is_made_of_them(name))
        .collect();
    names.sort();
    let with_sum = |name: String| {
        let path = folder.join(&name);
        let sum = sha256(&fs::read(&path).map_err(failed(&path))?);
        Ok((name, sum))
    };
    names.into_iter().map(with_sum).collect()
}

/// In hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn put(folder: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(failed(&path))
}

/// Names the file of an error.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |error| format!("dist: {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::{DistributionOptions, Machine, Part, sha256};

    fn parsed(words: &str) -> Result<DistributionOptions, String> {
        DistributionOptions::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn parts_and_machines_are_named() {
        let unsigned = [Part::Deb, Part::Rpm, Part::Image, Part::Site, Part::Page];
        let check = |words: &str, parts: &[Part], machines: &[Machine]| {
            let options = parsed(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            assert_eq!((options.parts.as_slice(), options.machines.as_slice()), (parts, machines), "{words:?}");
        };
        check("deb image --machine arm64", &[Part::Deb, Part::Image], &[Machine::Arm64]);
        check("--machine amd64", &unsigned, &[Machine::Amd64]);
        check("site --machine amd64 --machine arm64", &[Part::Site], &[Machine::Amd64, Machine::Arm64]);
        check("apt --key a --machine amd64", &[Part::Apt], &[Machine::Amd64]);
        check("--key a --machine amd64", &Part::ALL.map(|(_, part)| part), &[Machine::Amd64]);
        check("--check", &unsigned, &[Machine::Amd64, Machine::Arm64]);
        for words in ["debian", "--machine", "--machine mips", "--program", "apt", "--key"] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn without_parts_a_check_is_of_everything() {
        let check = |words: &str, is_checked: bool, is_thorough: bool| {
            let options = parsed(words).unwrap();
            assert_eq!((options.is_checked, options.is_thorough), (is_checked, is_thorough), "{words:?}");
        };
        check("", false, false);
        check("deb --check", true, false);
        check("--check", true, true);
    }

    #[test]
    fn a_checksum_is_that_of_others() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
