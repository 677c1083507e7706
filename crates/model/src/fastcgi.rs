//! `fastcgi`: answers are made by scripts of a FastCGI server such as PHP-FPM. Which script a path names, and what it
//! is told, is decided in the crate `fastcgi`.

use crate::address::{Scheme, TcpAddress};
use crate::placeholder::Template;
use crate::pool::Timeouts;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One `fastcgi` step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastCgi {
    pub address: FastCgiAddress,
    /// The folder of the scripts as the server sees it; absolute.
    pub root: PathBuf,
    /// The script that a path with a slash at its end means: one name.
    pub index: String,
    /// A path below the root with a slash in front: the script for paths that name none.
    pub fallback: Option<String>,
    /// What names of scripts end in; what follows in a path is PATH_INFO.
    pub split: String,
    /// Params beside the usual ones, or in their place. Names are unique.
    pub env: Vec<(String, Template)>,
    /// Whether files below the root that are no scripts are answers, as with `files`.
    pub serves_files: bool,
    pub timeouts: Timeouts,
    pub keep: FastCgiKeepAlive,
}

impl FastCgi {
    /// With everything that may be left out as it is then.
    pub fn new(address: FastCgiAddress, root: impl Into<PathBuf>) -> FastCgi {
        FastCgi {
            address,
            root: root.into(),
            index: "index.php".to_owned(),
            fallback: None,
            split: ".php".to_owned(),
            env: Vec::new(),
            serves_files: false,
            timeouts: Timeouts::default(),
            keep: FastCgiKeepAlive::default(),
        }
    }
}

/// Which connections are kept for the next request. None unless somebody wants it: PHP-FPM gives each connection a
/// process of its own, and one that is idle is missing elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastCgiKeepAlive {
    /// Idle connections of each thread.
    pub connections: u32,
    /// How long one stays idle.
    pub idle: Duration,
}

impl Default for FastCgiKeepAlive {
    fn default() -> Self {
        FastCgiKeepAlive { connections: 0, idle: Duration::from_secs(10) }
    }
}

/// Where a FastCGI server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FastCgiAddress {
    /// An absolute path.
    Unix(PathBuf),
    /// A name or an IP address, without brackets, lower case.
    Tcp { host: String, port: u16 },
}

impl FastCgiAddress {
    /// What fits into `sockaddr_un` with its NUL.
    pub const UNIX_PATH_BYTES_MAX: usize = 107;

    /// Reads `unix:/path` or `host:port`. `Err` says in one sentence what is wrong.
    pub fn parse(text: &str) -> Result<FastCgiAddress, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x` is a URL of the same.
            let path = path.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(path);
            return match path {
                _ if !path.starts_with('/') => {
                    Err("the path of a socket begins with `/`, as in `unix:/run/php/php-fpm.sock`".into())
                }
                _ if path.contains('\0') => Err("the path of a socket has no NUL".into()),
                _ if path.len() > Self::UNIX_PATH_BYTES_MAX => {
                    Err(format!("the path of a socket has at most {} bytes", Self::UNIX_PATH_BYTES_MAX))
                }
                _ => Ok(FastCgiAddress::Unix(path.into())),
            };
        }
        if let Some(path) = text.strip_prefix("unix/").or(text.starts_with('/').then_some(text)) {
            return Err(format!("write `unix:{path}`"));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(format!("FastCGI has no `{scheme}://`; write `{rest}`"));
        }
        let TcpAddress { scheme, host, port } = TcpAddress::parse(text).map_err(|reason| {
            if text.contains(':') { reason } else { "a FastCGI server is `unix:PATH` or `host:port`".to_owned() }
        })?;
        debug_assert_eq!(scheme, Scheme::Http, "there is no scheme in the text");
        Ok(FastCgiAddress::Tcp { host, port })
    }
}

/// As it is written, and as logs and metrics have it.
impl fmt::Display for FastCgiAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FastCgiAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            FastCgiAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            FastCgiAddress::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FastCgiAddress;

    #[test]
    fn addresses_of_fastcgi_servers() {
        let check = |text: &str, expected: &str| {
            let seen =
                FastCgiAddress::parse(text).map_or_else(|message| format!("error: {message}"), |address| address.to_string());
            assert_eq!(seen, expected, "for {text}");
        };
        check("unix:/run/php/php8.2-fpm.sock", "unix:/run/php/php8.2-fpm.sock");
        check("unix:///run/php.sock", "unix:/run/php.sock");
        check("127.0.0.1:9000", "127.0.0.1:9000");
        check("[::1]:9000", "[::1]:9000");
        check("PHP:9000", "php:9000");
        check("unix//run/php.sock", "error: write `unix:/run/php.sock`");
        check("/run/php.sock", "error: write `unix:/run/php.sock`");
        check("unix:php.sock", "error: the path of a socket begins with `/`, as in `unix:/run/php/php-fpm.sock`");
        check(&format!("unix:/{}", "a".repeat(107)), "error: the path of a socket has at most 107 bytes");
        check("fcgi://127.0.0.1:9000", "error: FastCGI has no `fcgi://`; write `127.0.0.1:9000`");
        check("localhost", "error: a FastCGI server is `unix:PATH` or `host:port`");
        check("php:0", "error: port 0 cannot be connected to");
    }
}
