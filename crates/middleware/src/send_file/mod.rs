//! `send-file`: which file an application means by `X-Accel-Redirect` or `X-Sendfile`, and what of its answer stays.
//! Opening the file and keeping it inside its folder is the crate `files`' business.

#[cfg(test)]
mod tests;

use tidegate_model::SendFile;
use tidegate_wire::head::Fields;

const ACCEL_REDIRECT: &[u8] = b"x-accel-redirect";
const SENDFILE: &[u8] = b"x-sendfile";

/// What describes the application's own body, of which nothing is sent. The media type goes with the file.
const OF_BODY: [&[u8]; 12] = [
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"content-range",
    b"content-md5",
    b"content-digest",
    b"repr-digest",
    b"digest",
    b"etag",
    b"last-modified",
    b"accept-ranges",
    b"trailer",
];

/// Which paths are below a folder.
#[derive(Debug)]
pub struct SendRule {
    under: Option<Box<[u8]>>,
    /// The folder itself, without a slash at its end.
    root: Box<[u8]>,
}

/// A file that an application has named.
#[derive(Debug, PartialEq, Eq)]
pub enum NamedFile {
    /// `X-Accel-Redirect`: a path of URLs.
    ByPath(Vec<u8>),
    /// `X-Sendfile`: a path of the file system.
    ByFile(Vec<u8>),
}

impl SendRule {
    pub fn new(folder: &SendFile) -> SendRule {
        let root = folder.root.as_os_str().as_encoded_bytes();
        let under = folder.under.as_ref().map(|under| under.as_bytes().into());
        SendRule { under, root: root.strip_suffix(b"/").unwrap_or(root).into() }
    }

    /// What is left of a path below the folder; `None` for one that is not there.
    pub fn below<'p>(&self, named: &NamedFile, path: &'p [u8]) -> Option<&'p [u8]> {
        let prefix: &[u8] = match (&self.under, named) {
            (Some(under), _) => under,
            (None, NamedFile::ByPath(_)) => b"",
            (None, NamedFile::ByFile(_)) => &self.root,
        };
        path.strip_prefix(prefix).filter(|rest| rest.first() == Some(&b'/'))
    }
}

impl NamedFile {
    /// The file that an answer names; the fields of the answer are those that stay then. An empty name is none.
    pub fn take(fields: &mut Fields) -> Option<NamedFile> {
        let value = |name: &'static [u8]| fields.all_named(name).next().filter(|value| !value.is_empty());
        let named = match (value(ACCEL_REDIRECT), value(SENDFILE)) {
            (Some(path), _) => Some(NamedFile::ByPath(path.to_vec())),
            (None, Some(file)) => Some(NamedFile::ByFile(file.to_vec())),
            (None, None) => None,
        };
        fields.remove(ACCEL_REDIRECT);
        fields.remove(SENDFILE);
        named
    }

    /// The paths that may be meant, decoded, in the order in which they are looked for. None where it is no path.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        match self {
            NamedFile::ByPath(target) => {
                let path = target.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
                decoded(path).into_iter().collect()
            }
            NamedFile::ByFile(path) => {
                let otherwise = decoded(path).filter(|decoded| decoded != path);
                [path.clone()].into_iter().chain(otherwise).collect()
            }
        }
    }

    /// As it was said, for the log.
    pub fn said(&self) -> &[u8] {
        match self {
            NamedFile::ByPath(said) | NamedFile::ByFile(said) => said,
        }
    }
}

/// Takes out what describes the application's own body, and says what it calls the file's type.
pub fn leave_body_out(fields: &mut Fields) -> Option<String> {
    let is_clean = |value: &&[u8]| !value.is_empty() && value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let media_type = fields.all_named(b"content-type").next().filter(is_clean);
    let media_type = media_type.map(|value| String::from_utf8_lossy(value).into_owned());
    for name in OF_BODY {
        fields.remove(name);
    }
    media_type
}

/// `None`: a percent sign without two hex digits.
fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(*bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            byte => *byte,
        });
    }
    Some(out)
}
