//! The statements that are known, where each may stand, and words that have nothing to do here.

use tidegate_foreign::nginx_words::why_needless;

/// A block of nginx that a snippet is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnippetPlace {
    /// `server-snippet`
    Server,
    /// `configuration-snippet`
    Location,
    /// `auth-snippet`: where the auth server is asked.
    Auth,
    /// An `if` of a server.
    ServerIf,
    /// An `if` of a location.
    LocationIf,
    /// `http-snippet` and `main-snippet` of the ConfigMap: around all servers.
    Around,
}

/// The name of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    AddHeader,
    MoreSetHeaders,
    MoreClearHeaders,
    ProxyHideHeader,
    ProxySetHeader,
    MoreSetInputHeaders,
    MoreClearInputHeaders,
    AuthRequestSet,
    Set,
    Return,
    Rewrite,
    Break,
    If,
    Allow,
    Deny,
    DefaultType,
    ProxyConnectTimeout,
    ProxyReadTimeout,
    ProxySendTimeout,
    ClientMaxBodySize,
    ProxySslName,
}

use SnippetPlace::{Auth, Location, LocationIf, Server, ServerIf};

/// Every statement that is read, and where.
pub const STATEMENTS: &[(&str, Word, &[SnippetPlace])] = &[
    ("add_header", Word::AddHeader, &[Server, Location, LocationIf]),
    ("allow", Word::Allow, &[Server, Location]),
    ("auth_request_set", Word::AuthRequestSet, &[Location]),
    ("break", Word::Break, &[Server, Location, ServerIf, LocationIf]),
    ("client_max_body_size", Word::ClientMaxBodySize, &[Location]),
    ("default_type", Word::DefaultType, &[Server, Location]),
    ("deny", Word::Deny, &[Server, Location]),
    ("if", Word::If, &[Server, Location]),
    ("more_clear_headers", Word::MoreClearHeaders, &[Server, Location, LocationIf]),
    ("more_clear_input_headers", Word::MoreClearInputHeaders, &[Server, Location, LocationIf]),
    ("more_set_headers", Word::MoreSetHeaders, &[Server, Location, LocationIf]),
    ("more_set_input_headers", Word::MoreSetInputHeaders, &[Server, Location, LocationIf]),
    ("proxy_connect_timeout", Word::ProxyConnectTimeout, &[Location]),
    ("proxy_hide_header", Word::ProxyHideHeader, &[Server, Location]),
    ("proxy_read_timeout", Word::ProxyReadTimeout, &[Location]),
    ("proxy_send_timeout", Word::ProxySendTimeout, &[Location]),
    ("proxy_set_header", Word::ProxySetHeader, &[Location, Auth]),
    ("proxy_ssl_name", Word::ProxySslName, &[Location]),
    ("return", Word::Return, &[Server, Location, ServerIf, LocationIf]),
    ("rewrite", Word::Rewrite, &[Server, Location, ServerIf, LocationIf]),
    ("set", Word::Set, &[Server, Location, ServerIf, LocationIf]),
];

/// What each location of ingress-nginx says itself, so that a server's own word is never heard.
const SAID_BY_LOCATIONS: [&str; 5] =
    ["client_max_body_size", "proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout", "proxy_set_header"];

/// Words of logs and of what is compressed, beside those for which nothing is said anywhere.
const NEEDLESS: [(&str, &str); 5] = [
    ("access_log", "requests are logged as `config` says"),
    ("brotli", "what is compressed is said by `config`"),
    ("gzip", "what is compressed is said by `config`"),
    ("log_subrequest", "requests are logged as `config` says"),
    ("proxy_cache_bypass", "nothing is kept here"),
];

/// Of the words that need nothing in a file, those that protect together with what a location says.
const NOT_NEEDLESS: [&str; 5] =
    ["auth_basic_user_file", "ssl_trusted_certificate", "fastcgi_param", "disable_symlinks", "ssl_reject_handshake"];

pub fn word(name: &str) -> Option<(&'static str, Word, &'static [SnippetPlace])> {
    let place = STATEMENTS.binary_search_by(|(known, ..)| (*known).cmp(name)).ok()?;
    STATEMENTS.get(place).copied()
}

/// Why nothing is done for a statement of that name.
pub fn why_nothing(name: &str, place: SnippetPlace) -> Option<&'static str> {
    if place == Server && SAID_BY_LOCATIONS.contains(&name) {
        return Some("every location of ingress-nginx says it itself, so that it has no effect in a server");
    }
    let own = NEEDLESS.iter().find(|(known, _)| *known == name).map(|(_, why)| *why);
    own.or_else(|| why_needless(name).filter(|_| !NOT_NEEDLESS.contains(&name)))
}

#[cfg(test)]
mod tests {
    use super::{STATEMENTS, SnippetPlace, why_nothing, word};

    #[test]
    fn statements_are_sorted_and_found() {
        assert!(STATEMENTS.is_sorted_by(|a, b| a.0 < b.0));
        for (name, expected, _) in STATEMENTS {
            assert_eq!(word(name).map(|(_, word, _)| word), Some(*expected), "{name}");
        }
        assert_eq!(word("proxy_pass"), None);
    }

    #[test]
    fn what_protects_is_not_needless() {
        let check =
            |name: &str, expected: bool| assert_eq!(why_nothing(name, SnippetPlace::Location).is_some(), expected, "{name}");
        check("proxy_buffer_size", true);
        check("gzip", true);
        check("satisfy", false);
        check("auth_basic", false);
        check("auth_basic_user_file", false);
        check("internal", false);
        check("limit_req", false);
        check("modsecurity", false);
        check("proxy_pass", false);
        check("access_by_lua_block", false);
    }

    #[test]
    fn every_statement_is_in_the_manual() {
        let manual = include_str!("../../../../docs/kubernetes.md");
        for (name, ..) in STATEMENTS {
            assert!(manual.contains(&format!("`{name}`")), "docs/kubernetes.md does not say what becomes of `{name}`");
        }
    }
}
