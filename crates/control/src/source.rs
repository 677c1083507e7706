//! Where a configuration comes from: the file that the process was started with, another file, a text, or an old
//! generation. Read here, parsed by `config`; what becomes of it is in `change`.

use crate::additions::Additions;
use crate::generations::WrittenFile;
use crate::shared_certificates::{CertificateSharing, share_certificates};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_config::{LoadMemory, Loaded, MainFile, Texts, load_instead, load_path_again, load_text, load_text_again, render};
use tidegate_model::{Configuration, MapSettings};

/// What the process was started with, and what a reload reads again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    /// Standard input, or a command line.
    Text {
        name: String,
        text: String,
        directory: PathBuf,
    },
}

/// What is to run instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proposal {
    /// What the process was started with, as it is now.
    Source,
    File(PathBuf),
    Text {
        name: String,
        text: String,
        directory: PathBuf,
    },
    /// Files as they were; nothing of them is read from disk.
    Written(Vec<WrittenFile>),
    /// What runs of files, with what labels of containers and objects of a cluster add to it now.
    Additions,
}

/// Why files that serve nothing do not take the place of what serves clients. `what` says what runs.
pub fn emptied(files: &[WrittenFile], what: &str) -> String {
    let name = files.first().map_or("it", |file| &file.name);
    format!(
        "{name} has no site and no `tcp`, and {what}: an empty file is more likely a save that is not finished\n  help: write the sites, or stop the process; `tidegate history` has what ran"
    )
}

/// A configuration that was read without an error.
pub struct Read {
    pub configuration: Configuration,
    /// What the files alone say, for when something else is added to them.
    pub of_files: Arc<Configuration>,
    pub additions: Additions,
    /// Rendered; empty when there are none.
    pub warnings: String,
    /// What of the warnings the files have shown that it names.
    pub remarks: Vec<Remark>,
    /// The main file first.
    pub files: Vec<WrittenFile>,
    /// What it depends on, to be watched.
    pub watched: WatchedFiles,
    /// What was written, for edits. Its configuration was taken out.
    pub written: Arc<Loaded>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedFiles {
    pub files: Vec<PathBuf>,
    pub patterns: Vec<PathBuf>,
}

impl Source {
    /// A file that relative names do not move.
    pub fn file(path: &Path) -> Source {
        Source::File(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// For the start, when a pipe on the command line is waited for as by any other command.
    pub fn load(&self, memory: &mut LoadMemory) -> Loaded {
        match self {
            Source::File(path) => load_path_again(path, MainFile::AnyKind, memory),
            Source::Text { name, text, directory } => load_text_again(name, text, directory, memory),
        }
    }

    /// Tells configurations apart for other processes, in every version of the program (FNV-1a). A file is known by its
    /// name, since what is in it changes while the process runs.
    pub(crate) fn mark(&self) -> u64 {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let (kind, said) = match self {
            Source::File(path) => ("file", path.as_os_str().as_bytes()),
            Source::Text { text, .. } => ("text", text.as_bytes()),
        };
        let mixed = |mark: u64, byte: &u8| (mark ^ u64::from(*byte)).wrapping_mul(PRIME);
        said.iter().fold(kind.as_bytes().iter().fold(BASIS, mixed), mixed)
    }

    /// As messages name it.
    pub fn name(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Text { name, .. } => name.clone(),
        }
    }
}

impl Proposal {
    /// At the cost of what has changed since the last load with this memory. For the running process: it takes regular
    /// files only.
    pub fn load(&self, source: &Source, memory: &mut LoadMemory) -> Loaded {
        match (self, source) {
            (Proposal::Source, Source::File(path)) | (Proposal::File(path), _) => {
                load_path_again(path, MainFile::Regular, memory)
            }
            (Proposal::Source, Source::Text { name, text, directory }) | (Proposal::Text { name, text, directory }, _) => {
                load_text_again(name, text, directory, memory)
            }
            (Proposal::Written(files), _) => load_files(files, true, memory),
            (Proposal::Additions, _) => unreachable!("what runs was read already"),
        }
    }
}

/// The first of these is the main file. Unless they are all that there is, files that are not among them are read from
/// disk.
pub(crate) fn load_files(files: &[WrittenFile], is_complete: bool, memory: &mut LoadMemory) -> Loaded {
    let by_path: BTreeMap<_, _> = files.iter().skip(1).map(|file| (PathBuf::from(&file.name), file.text.clone())).collect();
    match files.first() {
        Some(main) => load_instead(&main.name, main.text.clone(), &main.directory, &Texts { by_path, is_complete }, memory),
        // A generation has its main file at least.
        None => load_text("<nothing>", "", Path::new("/")),
    }
}

/// One thing to be said of a configuration, beside what is said of its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Remark {
    pub message: String,
    pub help: Option<String>,
}

impl Remark {
    fn rendered(&self, severity: &str) -> String {
        let help = self.help.as_ref().map(|help| format!("  help: {help}\n")).unwrap_or_default();
        format!("{severity}[certificate]: {}\n{help}", self.message)
    }

    /// Says it in the event log.
    pub fn log(&self) {
        tracing::warn!(help = self.help, "{}", self.message);
    }
}

/// Certificates that are given once become those of the sites that they cover. `Err` is what cannot be used of them,
/// rendered.
fn share(configuration: &mut Configuration) -> Result<Vec<Remark>, String> {
    let sharing = share_certificates(configuration).map_err(|errors| {
        let remarks = errors.iter().map(|error| Remark { message: error.message(), help: error.help() });
        remarks.map(|remark| remark.rendered("error")).collect::<String>()
    })?;
    let of_partly = sharing.partly.iter().map(|(position, host)| {
        let (message, help) = CertificateSharing::of_partly(host);
        let site = &configuration.sites[*position].addresses[0];
        Remark { message: format!("site {site}: {message}"), help: Some(help.to_owned()) }
    });
    let of_unused = sharing.unused.iter().map(|certificate| {
        let (message, help) = CertificateSharing::of_unused(certificate);
        Remark { message, help: Some(help.to_owned()) }
    });
    Ok(of_partly.chain(of_unused).collect())
}

/// `Err` is everything that is wrong with it, rendered. Nothing is added to the files.
pub fn read(loaded: Loaded) -> Result<Read, String> {
    read_with(loaded, |_| Additions::default())
}

/// The configuration of the files with what is added, and what is to be said of certificates in it.
pub(crate) fn with_additions(of_files: &Configuration, additions: &Additions) -> Result<(Configuration, Vec<Remark>), String> {
    let mut configuration = of_files.clone();
    configuration.sites.extend(additions.sites().cloned());
    configuration.pools.extend(additions.pools().cloned());
    for added in &additions.of_objects.tcp {
        // What the file says of the same place stays.
        match configuration.tcp.iter_mut().find(|tcp| tcp.listen_address() == added.listen_address()) {
            Some(known) => known.by_name.extend(added.by_name.iter().cloned()),
            None => configuration.tcp.push(added.clone()),
        }
    }
    let is_new = |map: &&MapSettings| of_files.maps.iter().all(|known| known.name != map.name);
    configuration.maps.extend(additions.of_objects.maps.iter().filter(is_new).cloned());
    additions.of_objects.process.apply(&mut configuration);
    additions.complete(&mut configuration.storage);
    let remarks = share(&mut configuration)?;
    Ok((configuration, remarks))
}

/// As [`read`], with what is added to it.
pub(crate) fn read_with(mut loaded: Loaded, additions: impl FnOnce(&Configuration) -> Additions) -> Result<Read, String> {
    let diagnostics = render(&loaded.diagnostics, &loaded.files, false);
    let files = loaded
        .files
        .iter()
        .map(|file| WrittenFile { name: file.name.clone(), directory: file.directory.clone(), text: file.text.clone() })
        .collect();
    let watched =
        WatchedFiles { files: std::mem::take(&mut loaded.read_files), patterns: std::mem::take(&mut loaded.include_patterns) };
    match loaded.configuration.take() {
        Some(of_files) => {
            let additions = additions(&of_files);
            let (configuration, remarks) = with_additions(&of_files, &additions)?;
            let of_labels = additions.labelled.faults.iter().map(|fault| fault.rendered.as_str());
            let of_remarks = remarks.iter().map(|remark| remark.rendered("warning"));
            let diagnostics = of_labels.fold(diagnostics, |said, fault| said + fault);
            let warnings = of_remarks.fold(diagnostics, |said, remark| said + &remark);
            let (of_files, written) = (Arc::new(of_files), Arc::new(loaded));
            Ok(Read { configuration, of_files, additions, warnings, remarks, files, watched, written })
        }
        None => Err(diagnostics),
    }
}
