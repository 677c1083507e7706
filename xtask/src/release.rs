//! The program as it is given out: for each machine one file that needs nothing of the system, neither a loader nor a C
//! library of some version, so packages of all distributions and the image hold the same. Built so that the builder's
//! folders are not in it. `alone` shows that it needs nothing.

mod alone;

use crate::process::{Invocation, cargo};
use crate::repository::{root, target_directory};
use std::path::{Path, PathBuf};

/// What the program runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    Amd64,
    Arm64,
}

impl Machine {
    /// By the name that Debian and container registries have for it.
    pub const ALL: [(&str, Machine); 2] = [("amd64", Machine::Amd64), ("arm64", Machine::Arm64)];

    /// The one that this task runs on.
    pub fn this() -> Result<Machine, String> {
        let found = Machine::ALL.iter().map(|(_, machine)| *machine).find(|machine| machine.is_this());
        found.ok_or_else(|| format!("releases are made on amd64 or arm64, not on {}", std::env::consts::ARCH))
    }

    /// Of a program that is there, by the header of its file.
    pub fn of_program(path: &Path) -> Result<Machine, String> {
        let file = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Machine::in_header(&file).ok_or_else(|| format!("{} is no program for amd64 or arm64", path.display()))
    }

    /// `e_machine` of ELF.
    fn in_header(file: &[u8]) -> Option<Machine> {
        match (file.get(..4)?, file.get(18..20)?) {
            (b"\x7fELF", [62, 0]) => Some(Machine::Amd64),
            (b"\x7fELF", [183, 0]) => Some(Machine::Arm64),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Machine::Amd64 => "amd64",
            Machine::Arm64 => "arm64",
        }
    }

    /// By the name that Rust, rpm and the kernel have for it.
    pub fn architecture(self) -> &'static str {
        match self {
            Machine::Amd64 => "x86_64",
            Machine::Arm64 => "aarch64",
        }
    }

    pub fn is_this(self) -> bool {
        self.architecture() == std::env::consts::ARCH
    }

    pub fn target(self) -> String {
        format!("{}-unknown-linux-gnu", self.architecture())
    }

    /// A tool of the GNU project for programs of this machine, as Debian names those for other machines.
    pub fn tool(self, name: &str) -> String {
        if self.is_this() { name.to_owned() } else { format!("{}-linux-gnu-{name}", self.architecture()) }
    }
}

/// `cargo xtask static`: builds the program of this machine, or takes one that is there, and shows that it needs
/// nothing of the system.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let given = match arguments {
        [] => None,
        [flag, path] if flag == "--program" => Some(Path::new(path)),
        _ => return Err("static: there is --program PATH, and nothing else".into()),
    };
    let root = root();
    alone::check(&program(&root, Machine::this()?, given)?)
}

/// The one that is there, else a build of this commit.
pub fn program(root: &Path, machine: Machine, given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    }
    let target = target_directory(root)?;
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|_| "neither CARGO_HOME nor HOME is set".to_owned())?;
    let built = build(machine, &root.display().to_string(), &home, &target.display().to_string()).run(root);
    built.map_err(|error| format!("{error}\n  where the target is missing: rustup target add {}", machine.target()))?;
    Ok(target.join(machine.target()).join("release/tidegate"))
}

fn build(machine: Machine, root: &str, home: &str, target: &str) -> Invocation {
    // Rust's messages of panics name files; C has them in `__FILE__`. The last one that fits counts.
    let renamed = [(root, "/tidegate"), (home, "/cargo"), (target, "/target")];
    let of_rust: Vec<String> = renamed.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let of_c: Vec<String> = renamed.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let name = machine.target();
    let build = cargo(&["build", "--quiet", "--locked", "--release", "--package", "tidegate", "--target", &name])
        .with_environment("RUSTFLAGS", &format!("-C target-feature=+crt-static {}", of_rust.join(" ")))
        .with_environment("CFLAGS", &of_c.join(" "));
    let build = match machine {
        Machine::Amd64 => build,
        // The kernel has pages of 4, 16 or 64 KiB there, and the allocator has to be built for the largest of them.
        Machine::Arm64 => build.with_environment("JEMALLOC_SYS_WITH_LG_PAGE", "16"),
    };
    if machine.is_this() {
        return build;
    }
    let compiler = machine.tool("gcc");
    let name = name.replace('-', "_");
    build
        .with_environment(&format!("CC_{name}"), &compiler)
        .with_environment(&format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler)
}

#[cfg(test)]
mod tests {
    use super::{Machine, build};

    #[test]
    fn folders_of_the_builder_are_renamed() {
        let line = build(Machine::Amd64, "/srv/a/tidegate", "/srv/a/.cargo", "/srv/a/tidegate/target").line();
        for part in ["=/srv/a/tidegate=/tidegate", "=/srv/a/.cargo=/cargo", "=/srv/a/tidegate/target=/target"] {
            assert_eq!(line.matches(part).count(), 2, "{part} for Rust and for C: {line}");
        }
        assert!(line.contains("+crt-static") && line.contains("--target x86_64-unknown-linux-gnu"), "{line}");
    }

    #[test]
    fn the_machine_of_a_program_is_in_its_header() {
        let check = |start: &[u8], code: [u8; 2], expected: Option<Machine>| {
            let file = [start, &[0; 14], &code].concat();
            assert_eq!(Machine::in_header(&file), expected, "{file:?}");
        };
        check(b"\x7fELF", [62, 0], Some(Machine::Amd64));
        check(b"\x7fELF", [183, 0], Some(Machine::Arm64));
        check(b"\x7fELF", [8, 0], None);
        check(b"#!/b", [62, 0], None);
        assert_eq!(Machine::in_header(b"\x7fELF"), None);
    }

    #[test]
    fn the_allocator_knows_the_pages_of_the_machine() {
        let pages = "JEMALLOC_SYS_WITH_LG_PAGE=16";
        assert!(build(Machine::Arm64, "/a", "/b", "/c").line().contains(pages));
        assert!(!build(Machine::Amd64, "/a", "/b", "/c").line().contains(pages));
    }
}
