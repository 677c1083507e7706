//! The media type of a file by its extension. Contents are never looked at: with `nosniff` the browser does not guess
//! either. Types of the configuration come first; the table below has what the web commonly serves.

use std::borrow::Cow;
use std::collections::HashMap;

const UNKNOWN: &str = "application/octet-stream";
/// Longer than any extension of the table or of a sensible configuration; a bound on what is put in lower case.
const EXTENSION_BYTES_MAX: usize = 32;

/// What the configuration adds to the table.
#[derive(Debug, Default)]
pub(crate) struct MediaTypes {
    /// By extension in lower case.
    added: HashMap<String, String>,
}

impl MediaTypes {
    /// None when an extension is empty, too long or has a dot, or when a type could not be the value of a header.
    pub fn new(added: &[(String, String)]) -> Option<MediaTypes> {
        let fits = |(extension, media_type): &(String, String)| {
            let is_extension = (1..=EXTENSION_BYTES_MAX).contains(&extension.len()) && !extension.contains(['.', '/']);
            let is_value = !media_type.is_empty() && media_type.bytes().all(|byte| matches!(byte, b' '..=b'~'));
            is_extension && is_value
        };
        let lower = |(extension, media_type): &(String, String)| (extension.to_ascii_lowercase(), media_type.clone());
        added.iter().all(fits).then(|| MediaTypes { added: added.iter().map(lower).collect() })
    }

    /// The value of `content-type` for a path.
    pub fn of(&self, path: &[u8]) -> Cow<'static, str> {
        let Some(extension) = extension(path) else { return UNKNOWN.into() };
        match self.added.get(&extension) {
            Some(added) => added.clone().into(),
            None => built_in(&extension).into(),
        }
    }
}

/// What follows the last dot of the name, in lower case. A dot at the start of a name begins no extension.
fn extension(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0)?;
    let extension = str::from_utf8(&name[dot + 1..]).ok().filter(|extension| extension.len() <= EXTENSION_BYTES_MAX)?;
    Some(extension.to_ascii_lowercase())
}

fn built_in(extension: &str) -> &'static str {
    TABLE.binary_search_by_key(&extension, |(known, _)| known).map_or(UNKNOWN, |place| TABLE[place].1)
}

/// Sorted by extension. Text has its encoding named, because browsers otherwise take the reader's regional one.
#[rustfmt::skip]
static TABLE: &[(&str, &str)] = &[
    ("3gp", "video/3gpp"),
    ("7z", "application/x-7z-compressed"),
    ("aac", "audio/aac"),
    ("apk", "application/vnd.android.package-archive"),
    ("apng", "image/apng"),
    ("atom", "application/atom+xml"),
    ("avi", "video/x-msvideo"),
    ("avif", "image/avif"),
    ("bin", "application/octet-stream"),
    ("bmp", "image/bmp"),
    ("bz2", "application/x-bzip2"),
    ("c", "text/x-c; charset=utf-8"),
    ("cjs", "text/javascript; charset=utf-8"),
    ("conf", "text/plain; charset=utf-8"),
    ("crt", "application/x-x509-ca-cert"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("diff", "text/x-diff; charset=utf-8"),
    ("dmg", "application/x-apple-diskimage"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("eot", "application/vnd.ms-fontobject"),
    ("epub", "application/epub+zip"),
    ("flac", "audio/flac"),
    ("geojson", "application/geo+json"),
    ("gif", "image/gif"),
    ("glb", "model/gltf-binary"),
    ("gltf", "model/gltf+json"),
    ("gpx", "application/gpx+xml"),
    ("gz", "application/gzip"),
    ("h", "text/x-c; charset=utf-8"),
    ("heic", "image/heic"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar; charset=utf-8"),
    ("iso", "application/x-iso9660-image"),
    ("jar", "application/java-archive"),
    ("jp2", "image/jp2"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("json5", "application/json5"),
    ("jsonld", "application/ld+json"),
    ("jxl", "image/jxl"),
    ("kml", "application/vnd.google-earth.kml+xml"),
    ("log", "text/plain; charset=utf-8"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("m4a", "audio/mp4"),
    ("m4s", "video/iso.segment"),
    ("m4v", "video/mp4"),
    ("map", "application/json"),
    ("markdown", "text/markdown; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("mid", "audio/midi"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mkv", "video/x-matroska"),
    ("mov", "video/quicktime"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpd", "application/dash+xml"),
    ("mpeg", "video/mpeg"),
    ("mpg", "video/mpeg"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("oga", "audio/ogg"),
    ("ogg", "audio/ogg"),
    ("ogv", "video/ogg"),
    ("opus", "audio/ogg"),
    ("otf", "font/otf"),
    ("patch", "text/x-diff; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("pem", "application/x-pem-file"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("ps", "application/postscript"),
    ("rar", "application/vnd.rar"),
    ("rpm", "application/x-rpm"),
    ("rss", "application/rss+xml"),
    ("rtf", "application/rtf"),
    ("sh", "application/x-sh"),
    ("sql", "application/sql"),
    ("stl", "model/stl"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("torrent", "application/x-bittorrent"),
    ("ts", "video/mp2t"),
    ("tsv", "text/tab-separated-values; charset=utf-8"),
    ("ttc", "font/collection"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("vcf", "text/vcard; charset=utf-8"),
    ("vtt", "text/vtt; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("weba", "audio/webm"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("xml", "application/xml"),
    ("xsl", "application/xslt+xml"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

#[cfg(test)]
mod tests {
    use super::{MediaTypes, TABLE};

    #[test]
    fn the_table_is_sorted_without_doubles_and_names_the_encoding_of_text() {
        assert!(TABLE.is_sorted_by(|(before, _), (after, _)| before < after));
        for (extension, media_type) in TABLE {
            assert_eq!(media_type.starts_with("text/"), media_type.ends_with("; charset=utf-8"), "{extension}");
        }
    }

    #[test]
    fn the_extension_decides_and_the_configuration_comes_first() {
        let added = [("Foo".to_owned(), "text/x-foo".to_owned()), ("css".to_owned(), "text/other".to_owned())];
        let media_types = MediaTypes::new(&added).expect("types");
        let check = |path: &str, expected: &str| assert_eq!(media_types.of(path.as_bytes()), expected, "{path}");
        check("a.html", "text/html; charset=utf-8");
        check("a/b.JS", "text/javascript; charset=utf-8");
        check("a.tar.gz", "application/gzip");
        check("a.woff2", "font/woff2");
        check("a.json", "application/json");
        check("a.foo", "text/x-foo");
        check("a.FOO", "text/x-foo");
        check("a.css", "text/other");
        for unknown in ["", "a", "a.", "html", ".html", "a.html/b", "a.nothing", &format!("a.{}", "x".repeat(1000))] {
            check(unknown, "application/octet-stream");
        }
        assert_eq!(media_types.of(b"a.\xff"), "application/octet-stream");
    }

    #[test]
    fn what_could_not_be_a_header_is_refused() {
        for (extension, media_type) in
            [("", "a/b"), ("a.b", "a/b"), ("a/b", "a/b"), (&*"x".repeat(33), "a/b"), ("a", ""), ("a", "a/b\r\nx: y"), ("a", "ü")]
        {
            assert!(MediaTypes::new(&[(extension.to_owned(), media_type.to_owned())]).is_none(), "{extension}: {media_type}");
        }
    }
}
