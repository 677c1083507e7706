//! How an Ingress wants the servers behind it to be chosen and spoken to, where it does not leave that to their
//! Service: what makes the pool of a port another one. Its name has a digest of it.

use crate::reference::Spoken;
use std::fmt;
use tidegate_cluster::Key;
use tidegate_model::{CookieSecure, SameSite};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PoolManner {
    /// With servers. `None`: what their Service says.
    pub spoken: Option<Spoken>,
    pub balance: MannerBalance,
    pub sticky: Option<MannerSticky>,
    /// Whether requests go to the address of the Service, and whoever is behind that chooses.
    pub is_by_service: bool,
    pub tls: MannerTls,
}

/// How a server is chosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum MannerBalance {
    #[default]
    Usual,
    RoundRobin,
    Ewma,
    /// By the value of a text with variables, which is known to be a template.
    Hash(Box<str>),
}

/// How a client stays with its server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MannerSticky {
    pub cookie: Box<str>,
    /// `None`: the path of the rule.
    pub path: Option<Box<str>>,
    pub domain: Option<Box<str>>,
    pub max_age_seconds: Option<u64>,
    pub same_site: SameSite,
    pub secure: CookieSecure,
    pub change_on_failure: bool,
}

/// How servers show who they are over TLS, and who asks them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MannerTls {
    /// `None`: as it is for the whole process.
    pub verify: Option<bool>,
    /// Has the authority of servers, and a certificate to be shown to them.
    pub secret: Option<Key>,
    /// Whom servers are to be, and are asked for. `None`: their Service.
    pub name: Option<Box<str>>,
}

impl PoolManner {
    /// Where requests of the path go: a cookie is for the paths of its rule.
    pub fn at(&self, path: &str) -> PoolManner {
        let mut manner = self.clone();
        if let Some(sticky) = &mut manner.sticky
            && sticky.path.is_none()
        {
            sticky.path = Some(cookie_path(path).into());
        }
        manner
    }

    fn has_only_spoken(&self) -> bool {
        *self == PoolManner { spoken: self.spoken, ..PoolManner::default() }
    }

    /// A number that is the same in every process, and after every start.
    fn digest(&self) -> u64 {
        const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        format!("{self:?}").bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
    }
}

/// What stands behind the port in the name of a pool.
impl fmt::Display for PoolManner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.spoken {
            None => "",
            Some(Spoken::Plain) => "#http",
            Some(Spoken::H2c) => "#h2c",
            Some(Spoken::Tls) => "#https",
            Some(Spoken::H2) => "#h2",
            Some(Spoken::Tcp) => "#tcp",
            Some(Spoken::TcpBehindHeader) => "#tcp-proxy",
        })?;
        if self.has_only_spoken() { Ok(()) } else { write!(f, "#{:016x}", self.digest()) }
    }
}

/// The longest that a cookie may have.
const COOKIE_PATH_BYTES_MAX: usize = 256;

/// Of an expression a cookie is for all paths.
fn cookie_path(path: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let plain = path.starts_with('/') && path.bytes().all(is_plain) && path.len() <= COOKIE_PATH_BYTES_MAX;
    match path.trim_end_matches('/') {
        "" => "/",
        shorter if plain => shorter,
        _ => "/",
    }
}

#[cfg(test)]
mod tests {
    use super::{MannerBalance, PoolManner, cookie_path};
    use crate::reference::Spoken;

    #[test]
    fn cookies_are_for_the_paths_of_their_rule() {
        let check = |path: &str, expected: &str| assert_eq!(cookie_path(path), expected, "{path}");
        check("/", "/");
        check("", "/");
        check("/shop", "/shop");
        check("/shop/", "/shop");
        check("/v1.0/a_b", "/v1.0/a_b");
        check("/shop(/|$)(.*)", "/");
        check("/a;b", "/");
        check(&format!("/{}", "a".repeat(300)), "/");
    }

    #[test]
    fn a_manner_has_a_name_of_its_own() {
        let name = |manner: &PoolManner| manner.to_string();
        let plain = PoolManner { spoken: Some(Spoken::H2c), ..PoolManner::default() };
        assert_eq!((&*name(&PoolManner::default()), &*name(&plain)), ("", "#h2c"));
        let fair = PoolManner { balance: MannerBalance::RoundRobin, ..plain.clone() };
        let hashed = PoolManner { balance: MannerBalance::Hash("$host".into()), ..plain };
        assert!(name(&fair).starts_with("#h2c#") && name(&fair) != name(&hashed), "{} {}", name(&fair), name(&hashed));
    }
}
