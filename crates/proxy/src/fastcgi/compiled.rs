//! A `fastcgi` step, compiled, and what of a path is there on this machine's disk. How a path is split is decided in
//! the crate `fastcgi`; what happens with the script is in `mod`.

use crate::files::Folder;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tidegate_fastcgi::{Choice, Mode, PathError, Script, Scripts, SettingsError};
use tidegate_middleware::{CompiledTemplate, Target};
use tidegate_model::{FastCgi, Files};

pub struct CompiledFastCgi {
    pub scripts: Scripts,
    pub env: Box<[(Box<[u8]>, CompiledTemplate)]>,
    /// For `static=#true`.
    pub folder: Option<Folder>,
    suffix: Box<[u8]>,
}

/// Why a step cannot be compiled.
#[derive(Debug)]
pub enum Fault {
    Settings(SettingsError),
    Folder(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Settings(error) => error.fmt(f),
            Fault::Folder(error) => write!(f, "its files cannot be served: {error}"),
        }
    }
}

/// What a path stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Script(Script),
    /// A folder with an index script, asked for without the slash at its end: links in its page would go astray.
    Folder,
    Nothing,
}

/// What the disk says of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    There,
    Missing,
    /// This machine has not the folder, or may not look into it: only the FastCGI server knows.
    Unseen,
}

impl CompiledFastCgi {
    pub fn new(model: &FastCgi) -> Result<CompiledFastCgi, Fault> {
        let mode = match &model.fallback {
            None => Mode::Direct,
            Some(script) => Mode::FrontController { script: script.as_bytes().to_vec() },
        };
        let root = model.root.as_os_str().as_bytes();
        let scripts = Scripts::new(root, model.split.as_bytes(), model.index.as_bytes(), mode).map_err(Fault::Settings)?;
        let folder = if model.serves_files {
            Some(Folder::open(&Files { index: Vec::new(), ..Files::new(&model.root) }).map_err(Fault::Folder)?)
        } else {
            None
        };
        let param = |(name, value): &(String, _)| (name.as_bytes().into(), CompiledTemplate::new(value, Target::HeaderValue));
        Ok(CompiledFastCgi { scripts, env: model.env.iter().map(param).collect(), folder, suffix: model.split.as_bytes().into() })
    }

    /// What `path` stands for: that of a request, still percent-encoded. It waits for the file system.
    pub fn find(&self, path: &[u8]) -> Result<Found, PathError> {
        Ok(match self.scripts.find(path)? {
            Choice::Script(script) if self.scripts.has_fallback() => self.folder_or(path, Found::Script(script)),
            Choice::Script(script) => match self.look(&script) {
                Seen::There | Seen::Unseen => Found::Script(script),
                Seen::Missing => Found::Nothing,
            },
            Choice::IfFile { script, otherwise } => Found::Script(match self.look(&script) {
                Seen::There => script,
                Seen::Missing => otherwise,
                // A name that was asked for is more likely to be a script than an index of which nobody spoke.
                Seen::Unseen if path.ends_with(b"/") && script.path_info().is_empty() => otherwise,
                Seen::Unseen => script,
            }),
            Choice::NoScript => self.folder_or(path, Found::Nothing),
        })
    }

    fn folder_or(&self, path: &[u8], otherwise: Found) -> Found {
        if path.ends_with(b"/") {
            return otherwise;
        }
        let index = match self.scripts.find(&[path, b"/"].concat()) {
            Ok(Choice::IfFile { script, .. }) => script,
            Ok(Choice::Script(script)) if !self.scripts.has_fallback() => script,
            // The fallback, for a path that can name no script.
            Ok(Choice::Script(_) | Choice::NoScript) | Err(_) => return otherwise,
        };
        if self.look(&index) == Seen::There { Found::Folder } else { otherwise }
    }

    fn look(&self, script: &Script) -> Seen {
        let file = self.scripts.filename(script);
        match std::fs::metadata(OsStr::from_bytes(&file)) {
            Ok(metadata) if metadata.is_file() => Seen::There,
            Ok(_) => Seen::Missing,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Seen::Unseen,
            Err(_) if self.sees_root() => Seen::Missing,
            Err(_) => Seen::Unseen,
        }
    }

    fn sees_root(&self) -> bool {
        let root = self.scripts.root();
        let root = if root.is_empty() { Path::new("/") } else { Path::new(OsStr::from_bytes(root)) };
        root.is_dir()
    }

    /// Whether a path may be that of a file which is sent as it is: none of its segments looks like a script's name, in
    /// any case of its letters, for the source of a script is nobody's business.
    pub fn may_be_file(&self, path: &[u8]) -> bool {
        if path.ends_with(b"/") {
            return false;
        }
        let decoded = percent_decoded(path);
        let is_script = |segment: &[u8]| {
            segment.len() >= self.suffix.len() && segment[segment.len() - self.suffix.len()..].eq_ignore_ascii_case(&self.suffix)
        };
        !decoded.split(|byte| *byte == b'/').any(is_script)
    }
}

/// A percent sign without two digits stays.
fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let digit = |offset: usize| text.get(at + offset).and_then(|byte| char::from(*byte).to_digit(16));
        match (text[at], digit(1), digit(2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high << 4 | low) as u8);
                at += 3;
            }
            (byte, _, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{CompiledFastCgi, Found};
    use std::path::Path;
    use tidegate_model::{FastCgi, PoolName};

    fn compiled(root: &Path, fallback: Option<&str>) -> CompiledFastCgi {
        let model = FastCgi { fallback: fallback.map(str::to_owned), ..FastCgi::new(PoolName("php".into()), root) };
        CompiledFastCgi::new(&model).unwrap_or_else(|fault| panic!("{fault}"))
    }

    fn check(fastcgi: &CompiledFastCgi, path: &str, expected: &str) {
        let seen = match fastcgi.find(path.as_bytes()) {
            Ok(Found::Script(script)) => {
                format!("{} {}", String::from_utf8_lossy(script.name()), String::from_utf8_lossy(script.path_info()))
            }
            Ok(Found::Folder) => "folder".to_owned(),
            Ok(Found::Nothing) => "nothing".to_owned(),
            Err(error) => error.reason().to_owned(),
        };
        assert_eq!(seen.trim_end(), expected, "{path}");
    }

    fn site() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for below in ["admin", "uploads", "empty"] {
            std::fs::create_dir(root.join(below)).expect("made");
        }
        for script in ["index.php", "a.php", "admin/index.php", "uploads/a.jpg"] {
            std::fs::write(root.join(script), "x").expect("written");
        }
        folder
    }

    #[test]
    fn only_scripts_that_exist_are_run() {
        let folder = site();
        let fastcgi = compiled(folder.path(), None);
        check(&fastcgi, "/", "/index.php");
        check(&fastcgi, "/a.php", "/a.php");
        check(&fastcgi, "/a.php/more", "/a.php /more");
        check(&fastcgi, "/admin/", "/admin/index.php");
        check(&fastcgi, "/admin", "folder");
        check(&fastcgi, "/empty", "nothing");
        check(&fastcgi, "/empty/", "nothing");
        check(&fastcgi, "/none.php", "nothing");
        check(&fastcgi, "/uploads/a.jpg", "nothing");
        check(&fastcgi, "/uploads/a.jpg/x.php", "nothing");
        check(&fastcgi, "//a.php", "script_path_empty_segment");
    }

    #[test]
    fn a_front_controller_gets_the_rest() {
        let folder = site();
        let fastcgi = compiled(folder.path(), Some("/index.php"));
        check(&fastcgi, "/a.php/more", "/a.php /more");
        check(&fastcgi, "/blog/post", "/index.php");
        check(&fastcgi, "/blog/", "/index.php");
        check(&fastcgi, "/admin", "folder");
        check(&fastcgi, "//admin", "/index.php");
        check(&fastcgi, "/admin%2F", "/index.php");
        check(&fastcgi, "/uploads/a.jpg/x.php", "/index.php");
        check(&fastcgi, "/none.php", "/index.php");
    }

    #[test]
    fn what_cannot_be_seen_from_here_is_left_to_the_server() {
        let root = Path::new("/nowhere/that/exists");
        let fastcgi = compiled(root, None);
        check(&fastcgi, "/", "/index.php");
        check(&fastcgi, "/none.php", "/none.php");
        check(&fastcgi, "/admin", "nothing");
        let fastcgi = compiled(root, Some("/app.php"));
        check(&fastcgi, "/admin/", "/app.php");
        check(&fastcgi, "/none.php", "/none.php");
        check(&fastcgi, "/none.php/", "/none.php /");
        check(&fastcgi, "/admin", "/app.php");
    }

    #[test]
    fn the_source_of_a_script_is_no_file() {
        let fastcgi = compiled(Path::new("/srv"), None);
        for (path, may) in
            [("/a.css", true), ("/a.php", false), ("/a.PhP", false), ("/a.ph%70", false), ("/a.php/b.css", false), ("/a/", false)]
        {
            assert_eq!(fastcgi.may_be_file(path.as_bytes()), may, "{path}");
        }
    }
}
