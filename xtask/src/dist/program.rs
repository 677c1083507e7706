//! The program of a machine, built so that the builder's folders are not in it.

use super::{Distribution, Machine};
use crate::process::{Invocation, cargo};
use crate::repository::target_directory;
use std::path::{Path, PathBuf};

/// Against which C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The system's, for packages.
    System,
    /// None: static, for an image that has nothing else.
    Static,
}

impl Machine {
    pub fn target(self, library: Library) -> String {
        let end = match library {
            Library::System => "gnu",
            Library::Static => "musl",
        };
        format!("{}-unknown-linux-{end}", self.architecture())
    }
}

/// The one that is there, else a build of this commit.
pub fn program(distribution: &Distribution, machine: Machine, library: Library, given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = given {
        return path.canonicalize().map_err(|error| format!("dist: {}: {error}", path.display()));
    }
    let target = machine.target(library);
    let root = &distribution.root;
    let folder = target_directory(root)?;
    let home = std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    let home = home.map_err(|_| "dist: neither CARGO_HOME nor HOME is set".to_owned())?;
    // Rust's messages of panics name files; C has them in `__FILE__`.
    let rust_flags = format!(
        "--remap-path-prefix={}=/tidegate --remap-path-prefix={home}=/cargo --remap-path-prefix={}=/target",
        root.display(),
        folder.display()
    );
    let c_flags = format!(
        "-ffile-prefix-map={}=/tidegate -ffile-prefix-map={home}=/cargo -ffile-prefix-map={}=/target",
        root.display(),
        folder.display()
    );
    let build = cargo(&["build", "--release", "--locked", "--package", "tidegate", "--target", &target])
        .with_environment("RUSTFLAGS", &rust_flags)
        .with_environment("CFLAGS", &c_flags)
        .with_environment("SOURCE_DATE_EPOCH", &distribution.commit_time.to_string());
    let build = with_compiler(build, machine, library)?;
    let built = build.run(root);
    built.map_err(|error| format!("dist: {error}\n  where the target is missing: rustup target add {target}"))?;
    Ok(folder.join(target).join("release/tidegate"))
}

/// What compiles the C of the dependencies (aws-lc, jemalloc, zstd) and links, where that is not the system's own.
fn with_compiler(build: Invocation, machine: Machine, library: Library) -> Result<Invocation, String> {
    match (machine.is_this(), library) {
        (true, Library::System | Library::Static) => Ok(build),
        (false, Library::System) => {
            let name = machine.target(library).replace('-', "_");
            let compiler = format!("{}-linux-gnu-gcc", machine.architecture());
            Ok(build
                .with_environment(&format!("CC_{name}"), &compiler)
                .with_environment(&format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), &compiler))
        }
        (false, Library::Static) => Err(format!(
            "dist: a static program for {} needs a compiler for {}; build it there and name it with --static-program",
            machine.name(),
            machine.target(library)
        )),
    }
}
