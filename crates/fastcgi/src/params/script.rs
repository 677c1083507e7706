//! Which script a path stands for, and what of the path is left for it as PATH_INFO.
//! Whether a script exists is not looked up: the caller does that where the application's files are visible. The
//! environment is made in `params`.
//!
//! A path is only ever split where it has a slash as it was sent. A slash that was percent-encoded, an empty segment or
//! a dot segment would let a path name a script that the rules for its folder did not see. Behind the name of the
//! script an encoded slash is text of the client's for the script, decoded as all of PATH_INFO.

use std::fmt;

/// Where the scripts are and how paths lead to them.
#[derive(Debug, Clone)]
pub struct Scripts {
    /// Without a slash at its end; empty for the root of the file system.
    root: Vec<u8>,
    suffix: Vec<u8>,
    index: Vec<u8>,
    mode: Mode,
}

/// What happens to a path that names no script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// A path that is no script's has no answer here.
    Direct,
    /// A path that is no script's goes to one script, such as `/index.php`, which reads REQUEST_URI.
    FrontController { script: Vec<u8> },
}

/// A script below the root, and what is left of the path for it. Both percent-decoded (RFC 3875 sections 4.1.5 and
/// 4.1.13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    path: Vec<u8>,
    /// Where the script's name ends in `path`.
    name_end: usize,
}

/// What a path stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// This script. In [`Mode::Direct`] it may not exist; PHP-FPM then answers 404. An application that looks for
    /// scripts further up the path by itself (`cgi.fix_pathinfo` of PHP without `security.limit_extensions`) would run
    /// `/upload/picture.jpg` for `/upload/picture.jpg/x.php`: look whether the script exists where you can.
    Script(Script),
    /// `script` if that is a regular file, otherwise `otherwise`.
    IfFile { script: Script, otherwise: Script },
    /// The path names no script.
    NoScript,
}

/// Why a path was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    NotAbsolute,
    BadPercentEncoding,
    /// `%00`, where the name of a file ends for the system.
    Nul,
    /// `.` or `..`, decoded, between slashes or backslashes of any kind.
    DotSegment,
    /// `%2F` in the name of a script, or in front of it.
    EncodedSlash,
    /// `//` before the end of the script's name.
    EmptySegment,
}

/// Why [`Scripts`] cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsError {
    /// The root is not an absolute path, or has a NUL in it.
    Root,
    /// The suffix is empty, or has a slash or a NUL in it.
    Suffix,
    /// The index is not the name of a file.
    Index,
    /// The front controller is not a path from the root to a file, such as `/index.php`.
    FrontController,
}

impl Scripts {
    /// `root` is an absolute path of the application's file system, `suffix` is what script names end in, such as
    /// `.php`, and `index` the file that a path with a slash at its end stands for, such as `index.php`. All without
    /// percent-encoding.
    pub fn new(root: &[u8], suffix: &[u8], index: &[u8], mode: Mode) -> Result<Scripts, SettingsError> {
        if root.first() != Some(&b'/') || root.contains(&0) {
            return Err(SettingsError::Root);
        }
        let root_end = root.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        if suffix.is_empty() || suffix.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(SettingsError::Suffix);
        }
        if !is_file_name(index) {
            return Err(SettingsError::Index);
        }
        match &mode {
            Mode::FrontController { script } if !script.strip_prefix(b"/").is_some_and(is_file_path) => {
                Err(SettingsError::FrontController)
            }
            Mode::FrontController { .. } | Mode::Direct => {
                Ok(Scripts { root: root[..root_end].to_vec(), suffix: suffix.to_vec(), index: index.to_vec(), mode })
            }
        }
    }

    /// Without a slash at its end; empty for the root of the file system.
    pub fn root(&self) -> &[u8] {
        &self.root
    }

    /// Whether paths that name no script go to one all the same.
    pub fn has_fallback(&self) -> bool {
        match self.mode {
            Mode::Direct => false,
            Mode::FrontController { .. } => true,
        }
    }

    /// SCRIPT_FILENAME: where the script's file is for the application.
    pub fn filename(&self, script: &Script) -> Vec<u8> {
        [&self.root, script.name()].concat()
    }

    /// What `path` stands for: the path of a request target, still percent-encoded, best in its normal form. The first
    /// segment that ends in the suffix is the script, what follows is PATH_INFO.
    pub fn find(&self, path: &[u8]) -> Result<Choice, PathError> {
        let decoded = decode(path, &self.suffix)?;
        let named = match decoded {
            Decoded { flaw: Some(flaw), .. } => Err(flaw),
            Decoded { path, script_end: Some(name_end), .. } => Ok(Some(Script { path, name_end })),
            Decoded { mut path, script_end: None, .. } if path.ends_with(b"/") => {
                path.extend_from_slice(&self.index);
                Ok(Some(Script { name_end: path.len(), path }))
            }
            Decoded { script_end: None, .. } => Ok(None),
        };
        match &self.mode {
            Mode::Direct => Ok(named?.map_or(Choice::NoScript, Choice::Script)),
            Mode::FrontController { script } => {
                let otherwise = Script { path: script.clone(), name_end: script.len() };
                Ok(match named {
                    Ok(Some(script)) => Choice::IfFile { script, otherwise },
                    Ok(None) | Err(_) => Choice::Script(otherwise),
                })
            }
        }
    }
}

impl Choice {
    /// The script, once it is known whether that of [`Choice::IfFile`] is a regular file.
    pub fn settle(self, is_file: bool) -> Option<Script> {
        match self {
            Choice::Script(script) => Some(script),
            Choice::IfFile { script, otherwise } => Some(if is_file { script } else { otherwise }),
            Choice::NoScript => None,
        }
    }
}

impl Script {
    /// The script that a whole path names, with nothing left for PATH_INFO. It begins with a slash.
    pub fn whole(path: &str) -> Script {
        Script { path: path.into(), name_end: path.len() }
    }

    /// SCRIPT_NAME: from the root, with a slash in front.
    pub fn name(&self) -> &[u8] {
        &self.path[..self.name_end]
    }

    /// Empty, or with a slash in front.
    pub fn path_info(&self) -> &[u8] {
        &self.path[self.name_end..]
    }
}

struct Decoded {
    path: Vec<u8>,
    /// After the first segment that ends in the suffix.
    script_end: Option<usize>,
    /// Why the path can name no script.
    flaw: Option<PathError>,
}

fn decode(path: &[u8], suffix: &[u8]) -> Result<Decoded, PathError> {
    let rest = path.strip_prefix(b"/").ok_or(PathError::NotAbsolute)?;
    let mut decoded = Decoded { path: Vec::with_capacity(path.len()), script_end: None, flaw: None };
    let mut segments = rest.split(|byte| *byte == b'/').peekable();
    while let Some(raw) = segments.next() {
        decoded.path.push(b'/');
        let start = decoded.path.len();
        decode_segment(raw, &mut decoded.path)?;
        let segment = &decoded.path[start..];
        if segment.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"." || part == b"..") {
            return Err(PathError::DotSegment);
        }
        let is_last = segments.peek().is_none();
        if segment.contains(&b'/') && decoded.script_end.is_none() {
            decoded.flaw = decoded.flaw.or(Some(PathError::EncodedSlash));
        } else if segment.is_empty() && !is_last && decoded.script_end.is_none() {
            decoded.flaw = decoded.flaw.or(Some(PathError::EmptySegment));
        }
        if decoded.script_end.is_none() && segment.ends_with(suffix) {
            decoded.script_end = Some(decoded.path.len());
        }
    }
    Ok(decoded)
}

fn decode_segment(raw: &[u8], out: &mut Vec<u8>) -> Result<(), PathError> {
    let mut at = 0;
    while at < raw.len() {
        let byte = match raw[at..] {
            [b'%', high, low, ..] => {
                at += 3;
                let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(PathError::BadPercentEncoding);
                (digit(high)? << 4 | digit(low)?) as u8
            }
            [b'%', ..] => return Err(PathError::BadPercentEncoding),
            _ => {
                at += 1;
                raw[at - 1]
            }
        };
        if byte == 0 {
            return Err(PathError::Nul);
        }
        out.push(byte);
    }
    Ok(())
}

fn is_file_path(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(is_file_name)
}

fn is_file_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

impl PathError {
    /// The code in logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            PathError::NotAbsolute => "script_path_not_absolute",
            PathError::BadPercentEncoding => "script_path_bad_percent_encoding",
            PathError::Nul => "script_path_nul",
            PathError::DotSegment => "script_path_dot_segment",
            PathError::EncodedSlash => "script_path_encoded_slash",
            PathError::EmptySegment => "script_path_empty_segment",
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PathError::NotAbsolute => "the path does not start with a slash",
            PathError::BadPercentEncoding => "the path has a percent sign without two hex digits",
            PathError::Nul => "the path has a NUL in it",
            PathError::DotSegment => "the path has a segment of one or two dots, and could leave the root of the scripts",
            PathError::EncodedSlash => "the name of a script has an encoded slash in it",
            PathError::EmptySegment => "the path of a script has two slashes in a row",
        })
    }
}

impl std::error::Error for PathError {}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SettingsError::Root => "the root of the scripts is not an absolute path",
            SettingsError::Suffix => "the suffix of scripts is empty or has a slash in it",
            SettingsError::Index => "the index is not the name of a file",
            SettingsError::FrontController => "the front controller is not a path from the root to a file, such as `/index.php`",
        })
    }
}

impl std::error::Error for SettingsError {}
