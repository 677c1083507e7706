//! PEM that a configuration names, in files or as its own text: whether it can be read, and holds what it is named for.
//! By the lines that begin and end a block only; whether a key belongs to its certificate is checked where both are
//! loaded (`certs`).

use crate::diagnostics::Diagnostic;
use crate::language::Line;
use crate::lowering::Lowering;
use crate::placeholders::Text;
use crate::regular::{open_regular, reason};
use crate::written_line::Writer;
use memchr::memmem;
use std::borrow::Cow;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use tidegate_model::{HeldPem, Pem};

/// Chains are a few KiB, bundles of trusted roots about 250 KiB.
const PEM_BYTES_MAX: u64 = 4 << 20;
/// Most files with a chain and a key fit, and are read at once instead of in steps of 32 bytes, 64 bytes, …
const PEM_BYTES_USUAL: usize = 4 << 10;
/// Large authorities revoke millions.
const CRL_BYTES_MAX: u64 = 64 << 20;

/// What a property says: where something is, or the thing itself.
#[derive(Debug, Clone)]
pub enum Given {
    File(Text),
    Pem(Text),
}

impl Given {
    /// What the line says of it in either of two properties. Both are one too many, which is reported.
    pub fn once(lowering: &mut Lowering<'_>, line: &Line<'_>, file: &str, pem: &str) -> Option<Given> {
        let (of_file, of_pem) = (line.text(lowering, file), line.text(lowering, pem));
        if let (Some(_), Some(value)) = (&of_file, line.property(pem)) {
            let message = format!("`{file}=` and `{pem}=` cannot stand on one line");
            let diagnostic = Diagnostic::error("conflicting-pem", value.location.clone(), message);
            return lowering.refuse(diagnostic.help("keep one of them"));
        }
        of_file.map(Given::File).or(of_pem.map(Given::Pem))
    }

    /// All that the line says of it in either of two properties.
    pub fn all(lowering: &mut Lowering<'_>, line: &Line<'_>, file: &str, pem: &str) -> Vec<Given> {
        let files: Vec<Given> = line.texts(lowering, file).into_iter().map(Given::File).collect();
        files.into_iter().chain(line.texts(lowering, pem).into_iter().map(Given::Pem)).collect()
    }

    pub fn text(&self) -> &Text {
        match self {
            Given::File(text) | Given::Pem(text) => text,
        }
    }

    /// As messages name it: what stands in the configuration itself is never repeated.
    pub fn shown(&self) -> String {
        match self {
            Given::File(text) => format!("`{}`", text.shown()),
            Given::Pem(_) => "this text".to_owned(),
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, Given::File(_))
    }
}

/// The path of a file that holds a certificate.
pub fn check_certificate_file(lowering: &mut Lowering<'_>, text: &Text) -> Option<PathBuf> {
    check_certificate(lowering, &Given::File(text.clone()), false)?.file().map(Path::to_owned)
}

/// The certificate, and with `and_key` its key, when that is there.
pub fn check_certificate(lowering: &mut Lowering<'_>, given: &Given, and_key: bool) -> Option<Pem> {
    let (path, pem) = read_pem(lowering, given)?;
    let text = given.text();
    if !pem.has_certificate {
        let message = format!("{} holds no certificate", given.shown());
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
        let message = format!("{} holds no private key", given.shown());
        let diagnostic = Diagnostic::error("no-key", text.location.clone(), message);
        let help = match given {
            _ if pem.has_encrypted_key => DECRYPT,
            Given::File(_) => "add `key=\"…\"` with the path of the key, or put both into one file",
            Given::Pem(_) => "add the key behind the certificates, or as `key-pem=`",
        };
        return lowering.refuse(diagnostic.help(help));
    }
    Some(path)
}

const DECRYPT: &str = "the key is encrypted: decrypt it with `openssl pkey -in old.pem -out new.pem`";

/// The private key, when there is one.
pub fn check_key(lowering: &mut Lowering<'_>, given: &Given) -> Option<Pem> {
    let (path, pem) = read_pem(lowering, given)?;
    let text = given.text();
    if pem.has_key {
        return Some(path);
    }
    let message = format!("{} holds no private key", given.shown());
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

pub fn read_pem(lowering: &mut Lowering<'_>, given: &Given) -> Option<(Pem, Holds)> {
    let (pem, holds) = match given {
        Given::File(text) => read_file(lowering, text).map(|(path, holds)| (Pem::File(path), holds))?,
        Given::Pem(text) => hold(lowering, text)?,
    };
    lowering.spans.files.push((pem.name().to_owned(), given.text().location.clone()));
    Some((pem, holds))
}

/// The text itself.
fn hold(lowering: &mut Lowering<'_>, text: &Text) -> Option<(Pem, Holds)> {
    // What it is to be known by has to be the same wherever it is read, so this is no matter of the text alone.
    lowering.note_influence();
    let most = HeldPem::BYTES_MAX;
    if text.value.len() > most {
        let message = format!("this text is larger than {} MiB", most >> 20);
        return lowering.refuse(Diagnostic::error("bad-pem", text.location.clone(), message));
    }
    match holds(text.value.as_bytes()) {
        Ok(Holds { blocks: 0, has_encrypted_key: false, form: FileForm::Text, .. }) => {
            let diagnostic = Diagnostic::error("bad-pem", text.location.clone(), "this text holds no PEM block at all");
            lowering.refuse(diagnostic.help(
                "the text itself is meant, as in `pem=\"{env.SITE_PEM}\"`; a file is named by `cert=`, `key=`, `ca=` or `crl=`",
            ))
        }
        Ok(found) => Some((Pem::Held(HeldPem::new(text.value.as_bytes())), found)),
        Err(reason) => {
            let message = format!("this text cannot be used: {reason}");
            lowering.refuse(Diagnostic::error("bad-pem", text.location.clone(), message))
        }
    }
}

fn read_file(lowering: &mut Lowering<'_>, text: &Text) -> Option<(PathBuf, Holds)> {
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

/// The revocation list, when there is one.
pub fn read_revocation_list(lowering: &mut Lowering<'_>, given: &Given) -> Option<Pem> {
    let text = given.text();
    if !given.is_file() {
        let (pem, holds) = read_pem(lowering, given)?;
        return if holds.has_list { Some(pem) } else { lowering.refuse(no_list(given, "this text holds no revocation list")) };
    }
    lowering.note_look_outside();
    let path = lowering.path(&text.value, &text.location);
    lowering.read_files.push(path.clone());
    lowering.spans.files.push((path.clone(), text.location.clone()));
    let message = match bytes_of(&path, CRL_BYTES_MAX) {
        // DER, as authorities publish them.
        Ok(bytes) if bytes.first() == Some(&0x30) => return Some(Pem::File(path)),
        Ok(bytes) => match holds(&bytes) {
            Ok(Holds { has_list: true, .. }) => return Some(Pem::File(path)),
            Ok(_) => format!("`{}` holds no revocation list", text.shown()),
            Err(reason) => format!("cannot read `{}`: {reason}", text.shown()),
        },
        Err(reason) => {
            return lowering.refuse(cannot_read(text, &path, &reason));
        }
    };
    lowering.refuse(no_list(given, message))
}

fn no_list(given: &Given, message: impl Into<Cow<'static, str>>) -> Diagnostic {
    let diagnostic = Diagnostic::error("no-revocation-list", given.text().location.clone(), message);
    diagnostic.help(match given {
        Given::File(_) => "it needs a `-----BEGIN X509 CRL-----` block, or to be a list in DER",
        Given::Pem(_) => "it needs a `-----BEGIN X509 CRL-----` block",
    })
}

/// Where it is, or what it is: a text of its own in `pem`, which is never shown.
pub fn write(line: &mut Writer, file: &str, pem: &str, of: &Pem) {
    match of {
        Pem::File(path) => line.property(file, path.display()),
        Pem::Held(held) => line.property(pem, line.secret(true, String::from_utf8_lossy(held.reveal()))),
    };
}
