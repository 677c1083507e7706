//! Files of PEM that a configuration names: whether they can be read, and hold what they are named for. By the lines
//! that begin and end a block only; whether a key belongs to its certificate is checked where both are loaded
//! (`certs`).

use crate::diagnostics::Diagnostic;
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::regular::{open_regular, reason};
use memchr::memmem;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Chains are a few KiB, bundles of trusted roots about 250 KiB.
const PEM_BYTES_MAX: u64 = 4 << 20;
/// Most files with a chain and a key fit, and are read at once instead of in steps of 32 bytes, 64 bytes, …
const PEM_BYTES_USUAL: usize = 4 << 10;
/// Large authorities revoke millions.
const CRL_BYTES_MAX: u64 = 64 << 20;

/// The path, when the file holds a certificate, and with `and_key` a key too.
pub fn check_certificate_file(lowering: &mut Lowering<'_>, text: &Text, and_key: bool) -> Option<PathBuf> {
    let (path, pem) = read_pem(lowering, text)?;
    lowering.spans.files.push((path.clone(), text.location.clone()));
    if !pem.has_certificate {
        let message = format!("`{}` holds no certificate", text.shown());
        let diagnostic = Diagnostic::error("no-certificate", text.location.clone(), message);
        return lowering.refuse(match pem {
            Holds { has_key: true, .. } => diagnostic.help("it holds a private key: are `cert=` and `key=` swapped?"),
            Holds { form: FileForm::Empty, .. } => diagnostic.note("it is empty"),
            Holds { form: FileForm::Store, .. } => diagnostic.help(TAKE_APART),
            Holds { form: FileForm::Utf16, .. } => diagnostic.note(UTF_16).help(SAVE_AGAIN),
            Holds { blocks: 0, .. } => {
                diagnostic.note("it holds no PEM block at all").help("convert it with `openssl x509 -inform der`")
            }
            Holds { .. } => diagnostic,
        });
    }
    if and_key && !pem.has_key {
        let message = format!("`{}` holds no private key", text.shown());
        let diagnostic = Diagnostic::error("no-key", text.location.clone(), message);
        let help =
            if pem.has_encrypted_key { DECRYPT } else { "add `key=\"…\"` with the path of the key, or put both into one file" };
        return lowering.refuse(diagnostic.help(help));
    }
    Some(path)
}

const DECRYPT: &str = "the key is encrypted: decrypt it with `openssl pkey -in old.pem -out new.pem`";

/// The path, when the file holds a private key.
pub fn check_key_file(lowering: &mut Lowering<'_>, text: &Text) -> Option<PathBuf> {
    let (path, pem) = read_pem(lowering, text)?;
    lowering.spans.files.push((path.clone(), text.location.clone()));
    if pem.has_key {
        return Some(path);
    }
    let message = format!("`{}` holds no private key", text.shown());
    let diagnostic = Diagnostic::error("no-key", text.location.clone(), message);
    lowering.refuse(match pem {
        Holds { has_encrypted_key: true, .. } => diagnostic.help(DECRYPT),
        Holds { has_certificate: true, .. } => diagnostic.help("it holds a certificate: are `cert=` and `key=` swapped?"),
        Holds { form: FileForm::Empty, .. } => diagnostic.note("it is empty"),
        Holds { form: FileForm::Store, .. } => diagnostic.help(TAKE_APART),
        Holds { form: FileForm::Utf16, .. } => diagnostic.note(UTF_16).help(SAVE_AGAIN),
        Holds { form: FileForm::Der, .. } => diagnostic
            .note("it holds no PEM block at all")
            .help("convert it with `openssl pkey -inform der -in old.key -out new.key`"),
        Holds { .. } => diagnostic,
    })
}

const UTF_16: &str = "it is UTF-16 text";
const SAVE_AGAIN: &str = "save it as UTF-8 or ASCII";
const TAKE_APART: &str =
    "it is a PKCS#12 store (PFX): take it apart with `openssl pkcs12 -nodes -in old.pfx -out new.pem`, and name that file";

/// What kinds of blocks a PEM file holds.
pub struct Holds {
    pub has_certificate: bool,
    pub has_key: bool,
    pub has_encrypted_key: bool,
    pub has_list: bool,
    pub blocks: usize,
    form: FileForm,
}

/// What a file looks like as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileForm {
    Empty,
    Der,
    /// As some editors of other systems save text.
    Utf16,
    /// PKCS#12, by the version that it begins with (RFC 7292 section 4).
    Store,
    Text,
}

fn form_of(bytes: &[u8]) -> FileForm {
    const VERSION_3: [u8; 3] = [0x02, 0x01, 0x03];
    match bytes {
        [] => FileForm::Empty,
        // Behind a length of one byte, or of one, two or three more.
        [0x30, _, rest @ ..] if (0..=3).any(|more| rest.get(more..).is_some_and(|rest| rest.starts_with(&VERSION_3))) => {
            FileForm::Store
        }
        [0x30, ..] => FileForm::Der,
        [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => FileForm::Utf16,
        _ => FileForm::Text,
    }
}

pub fn read_pem(lowering: &mut Lowering<'_>, text: &Text) -> Option<(PathBuf, Holds)> {
    lowering.note_look_outside();
    let path = lowering.path(&text.value, &text.location);
    lowering.read_files.push(path.clone());
    match pem_of(&path) {
        Ok(pem) => Some((path, pem)),
        Err(reason) => lowering.refuse(cannot_read(text, &path, &reason)),
    }
}

fn cannot_read(text: &Text, path: &Path, reason: &str) -> Diagnostic {
    let message = format!("cannot read `{}`: {reason}", text.shown());
    let diagnostic = Diagnostic::error("cannot-read", text.location.clone(), message);
    let diagnostic = match reason {
        "permission denied" => diagnostic.help("let the user that runs tidegate read it"),
        "it is a directory" => diagnostic.help("name a file in it"),
        _ if reason.starts_with(NO_PEM) => diagnostic.help("copy it again as a whole, from where it was made"),
        _ => diagnostic,
    };
    if !text.secret && Path::new(&text.value) != path {
        return diagnostic.note(format!("the full path is `{}`", path.display()));
    }
    diagnostic
}

fn pem_of(path: &Path) -> Result<Holds, String> {
    holds(&bytes_of(path, PEM_BYTES_MAX)?)
}

fn bytes_of(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let file = open_regular(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::with_capacity(PEM_BYTES_USUAL);
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it is larger than {} MiB", bytes_max >> 20));
    }
    Ok(bytes)
}

const NO_PEM: &str = "it is not valid PEM";

fn holds(bytes: &[u8]) -> Result<Holds, String> {
    // What editors of other systems put before UTF-8.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let form = form_of(bytes);
    let mut pem = Holds { has_certificate: false, has_key: false, has_encrypted_key: false, has_list: false, blocks: 0, form };
    pem.has_encrypted_key = memmem::find(bytes, b"ENCRYPTED").is_some();
    // What stands between the lines is left to whoever loads it, for it alone knows what it can read; and decoding it
    // here was a tenth of a start with 50,000 certificates.
    let mut open: Option<&[u8]> = None;
    for line in bytes.split(|byte| matches!(byte, b'\n' | b'\r')).map(<[u8]>::trim_ascii) {
        let label = |start: &[u8]| line.strip_prefix(start).and_then(|rest| rest.strip_suffix(b"-----"));
        match open {
            None => open = label(b"-----BEGIN "),
            Some(begun) if label(b"-----END ") == Some(begun) => {
                pem.note(begun);
                open = None;
            }
            Some(begun) if label(b"-----BEGIN ").is_some() => return Err(no_end(begun)),
            Some(_) => {}
        }
    }
    match open {
        // A key that is encrypted in the old form has headers, and that it is encrypted says more.
        Some(begun) if !pem.has_encrypted_key => Err(no_end(begun)),
        Some(_) | None => Ok(pem),
    }
}

fn no_end(label: &[u8]) -> String {
    format!("{NO_PEM}: the line `-----END {}-----` is missing", String::from_utf8_lossy(label))
}

impl Holds {
    /// One block with this label (RFC 7468).
    fn note(&mut self, label: &[u8]) {
        match label {
            b"CERTIFICATE" => self.has_certificate = true,
            b"PRIVATE KEY" | b"RSA PRIVATE KEY" | b"EC PRIVATE KEY" => self.has_key = true,
            b"X509 CRL" => self.has_list = true,
            b"PUBLIC KEY" | b"CERTIFICATE REQUEST" => {}
            _ => return,
        }
        self.blocks += 1;
    }
}

/// The path, when the file holds a revocation list.
pub fn read_revocation_list(lowering: &mut Lowering<'_>, text: &Text) -> Option<PathBuf> {
    lowering.note_look_outside();
    let path = lowering.path(&text.value, &text.location);
    lowering.read_files.push(path.clone());
    lowering.spans.files.push((path.clone(), text.location.clone()));
    let message = match bytes_of(&path, CRL_BYTES_MAX) {
        // DER, as authorities publish them.
        Ok(bytes) if bytes.first() == Some(&0x30) => return Some(path),
        Ok(bytes) => match holds(&bytes) {
            Ok(Holds { has_list: true, .. }) => return Some(path),
            Ok(_) => format!("`{}` holds no revocation list", text.shown()),
            Err(reason) => format!("cannot read `{}`: {reason}", text.shown()),
        },
        Err(reason) => {
            return lowering.refuse(cannot_read(text, &path, &reason));
        }
    };
    let diagnostic = Diagnostic::error("no-revocation-list", text.location.clone(), message);
    lowering.refuse(diagnostic.help("it needs a `-----BEGIN X509 CRL-----` block, or to be a list in DER"))
}
