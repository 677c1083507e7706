//! `cargo xtask dist`: what people install. Packages for Debian and its kin (deb) and for Fedora and its kin (rpm), an
//! image for containers, the manual as a site, and checksums of all of them, in `dist/` of the target folder. The same
//! commit gives the same bytes: times are those of the commit, paths of the builder are taken out of the program.

mod archive;
mod bill_of_materials;
mod generated;
mod image;
mod manual_page;
mod packages;
mod program;
mod site;
mod tool;

use crate::process::Invocation;
use crate::repository::{root, target_directory};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::{Path, PathBuf};

/// What is made, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Deb,
    Rpm,
    Image,
    Site,
}

impl Part {
    const ALL: [(&str, Part); 4] = [("deb", Part::Deb), ("rpm", Part::Rpm), ("image", Part::Image), ("site", Part::Site)];
}

/// What the program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Machine {
    Amd64,
    Arm64,
}

impl Machine {
    /// By the name that Debian and container registries have for it.
    const ALL: [(&str, Machine); 2] = [("amd64", Machine::Amd64), ("arm64", Machine::Arm64)];

    fn name(self) -> &'static str {
        match self {
            Machine::Amd64 => "amd64",
            Machine::Arm64 => "arm64",
        }
    }

    /// By the name that Rust, rpm and the kernel have for it.
    fn architecture(self) -> &'static str {
        match self {
            Machine::Amd64 => "x86_64",
            Machine::Arm64 => "aarch64",
        }
    }

    fn is_this(self) -> bool {
        self.architecture() == std::env::consts::ARCH
    }
}

#[derive(Debug, PartialEq, Eq)]
struct DistributionOptions {
    parts: Vec<Part>,
    machines: Vec<Machine>,
    /// Programs that are there, instead of builds of this commit: against the system's C library, and static.
    program: Option<PathBuf>,
    static_program: Option<PathBuf>,
}

const USAGE: &str =
    "dist: there are the parts deb, rpm, image and site, --machine amd64 or arm64, --program PATH and --static-program PATH";

impl DistributionOptions {
    fn parse(arguments: &[String]) -> Result<DistributionOptions, String> {
        let mut options = DistributionOptions { parts: Vec::new(), machines: Vec::new(), program: None, static_program: None };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("dist: `{word}` needs a value"));
            match word.as_str() {
                "--machine" => options.machines.push(named(&Machine::ALL, value()?)?),
                "--program" => options.program = Some(value()?.into()),
                "--static-program" => options.static_program = Some(value()?.into()),
                part => options.parts.push(named(&Part::ALL, part)?),
            }
        }
        if options.parts.is_empty() {
            options.parts = Part::ALL.map(|(_, part)| part).to_vec();
        }
        if options.machines.is_empty() {
            options.machines = Machine::ALL.iter().map(|(_, machine)| *machine).filter(|machine| machine.is_this()).collect();
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
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = DistributionOptions::parse(arguments)?;
    let distribution = Distribution::new()?;
    fs::create_dir_all(&distribution.folder).map_err(failed(&distribution.folder))?;
    let mut made = Vec::new();
    for part in &options.parts {
        match part {
            Part::Deb => {
                for machine in &options.machines {
                    made.push(packages::deb(&distribution, *machine, options.program.as_deref())?);
                }
            }
            Part::Rpm => {
                for machine in &options.machines {
                    made.push(packages::rpm(&distribution, *machine, options.program.as_deref())?);
                }
            }
            Part::Image => made.extend(image::write(&distribution, &options.machines, options.static_program.as_deref())?),
            Part::Site => made.push(site::write(&distribution)?),
        }
    }
    made.push(write_checksums(&distribution.folder)?);
    for path in &made {
        println!("{}", path.display());
    }
    Ok(())
}

impl Distribution {
    fn new() -> Result<Distribution, String> {
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
        Ok(Distribution {
            folder: target_directory(&root)?.join("dist"),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit_time: commit_time.parse().map_err(|_| format!("dist: `{commit_time}` is no time of a commit"))?,
            commit: of_git(&["rev-parse", "HEAD"])?,
            root,
        })
    }
}

/// `SHA256SUMS`, in the form that `sha256sum --check` reads.
fn write_checksums(folder: &Path) -> Result<PathBuf, String> {
    const NAME: &str = "SHA256SUMS";
    let mut names: Vec<String> = fs::read_dir(folder)
        .map_err(failed(folder))?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != NAME)
        .collect();
    names.sort();
    let mut text = String::new();
    for name in names {
        let path = folder.join(&name);
        text += &format!("{}  {name}\n", sha256(&fs::read(&path).map_err(failed(&path))?));
    }
    let path = folder.join(NAME);
    fs::write(&path, text).map_err(failed(&path))?;
    Ok(path)
}

/// In hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Names the file of an error.
fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String {
    move |error| format!("dist: {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::{DistributionOptions, Machine, Part, sha256};

    #[test]
    fn parts_and_machines_are_named() {
        let check = |words: &str, parts: &[Part], machines: &[Machine]| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let options = DistributionOptions::parse(&words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
            assert_eq!((options.parts.as_slice(), options.machines.as_slice()), (parts, machines), "{words:?}");
        };
        check("deb image --machine arm64", &[Part::Deb, Part::Image], &[Machine::Arm64]);
        check("--machine amd64", &[Part::Deb, Part::Rpm, Part::Image, Part::Site], &[Machine::Amd64]);
        check("site --machine amd64 --machine arm64", &[Part::Site], &[Machine::Amd64, Machine::Arm64]);
        for words in ["debian", "--machine", "--machine mips", "--program"] {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            assert!(DistributionOptions::parse(&words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_checksum_is_that_of_others() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
