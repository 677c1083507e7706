//! `compress`: which answers are compressed, and how. The codecs are in the crate `coding`.

/// A content coding (RFC 9110 section 8.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// In the order in which they are preferred where a client takes several equally.
    pub const ALL: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    /// As `Accept-Encoding` and `Content-Encoding` call it.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compress {
    /// The first is preferred where a client takes several equally. Never empty.
    pub codings: Vec<Coding>,
    pub level: CompressLevel,
    /// Answers that are known to be shorter go out as they are.
    pub bytes_min: u64,
    /// `text/html`, `text/*` or `*/*+json`, in lower case.
    pub types: Vec<String>,
    /// Whether answers with something secret may be compressed for requests that another site caused (BREACH).
    pub cross_site: bool,
}

impl Compress {
    pub const BYTES_MIN: u64 = 512;
    /// What compresses well. Images, video, archives and fonts in woff are compressed already.
    pub const TYPES: &'static [&'static str] = &[
        "text/*",
        "application/json",
        "application/javascript",
        "application/x-javascript",
        "application/xml",
        "application/wasm",
        "application/graphql",
        "application/x-ndjson",
        "application/yaml",
        "application/vnd.ms-fontobject",
        "application/grpc-web-text",
        "application/*+json",
        "application/*+xml",
        "image/svg+xml",
        "image/bmp",
        "image/x-icon",
        "image/vnd.microsoft.icon",
        "font/ttf",
        "font/otf",
        "model/gltf+json",
    ];
}

impl Default for Compress {
    fn default() -> Self {
        Compress {
            codings: Coding::ALL.to_vec(),
            level: CompressLevel::Auto,
            bytes_min: Compress::BYTES_MIN,
            types: Compress::TYPES.iter().map(|pattern| (*pattern).to_owned()).collect(),
            cross_site: false,
        }
    }
}

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressLevel {
    /// By what the worker has left.
    Auto,
    /// The codec's own level, 1 to [`CompressLevel::MOST`].
    Fixed(u8),
}

impl CompressLevel {
    /// Beyond, zstd and br take tables of many megabytes for each answer, which is for files that are compressed once.
    pub const MOST: u8 = 9;
}

/// `decompress`: bodies of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decompress {
    /// How many times as long as what was sent a body may become.
    pub ratio_max: u32,
}

impl Decompress {
    /// Text seldom shrinks to a twentieth; what shrinks to a thousandth was made to.
    pub const RATIO_MAX: u32 = 100;
}
