//! The host that a request names, as Envoy compares it: as it was sent, or without its port and its last dot.

use crate::accounts::Origin;
use crate::tree::Tree;

const WITH_PORT: &str = "a host is compared without its port there, and whether this expression takes one cannot be told: a `route` \
                         with `match host=` asks for names";

const SENT_ON: &str = "hosts are compared without it here as well, and servers get them as they were sent";

/// What is taken off a host before anything looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Authority {
    port: StrippedPort,
    is_dot_off: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StrippedPort {
    #[default]
    None,
    /// The port of the listener alone.
    Own(u16),
    Any,
}

/// How a text is compared.
#[derive(Debug, Clone, Copy)]
pub enum HostText<'t> {
    Regex(&'t str),
    Exact(&'t str),
    Prefix(&'t str),
    Suffix(&'t str),
    Part(&'t str),
}

impl Authority {
    /// Of a connection manager at this port.
    pub fn of(manager: &Tree, port: u16) -> Authority {
        let port = match () {
            () if manager.get("strip_any_host_port").is_true() => StrippedPort::Any,
            () if manager.get("strip_matching_host_port").is_true() => StrippedPort::Own(port),
            () => StrippedPort::None,
        };
        Authority { port, is_dot_off: manager.get("strip_trailing_host_dot").is_true() }
    }

    /// Says of what is taken off that servers get it.
    pub fn say(manager: &Tree, origin: &mut Origin) {
        for name in ["strip_any_host_port", "strip_matching_host_port", "strip_trailing_host_dot"] {
            let said = manager.get(name);
            for at in said.statements() {
                if said.is_true() { origin.differ(at, SENT_ON) } else { origin.carry(at) }
            }
        }
    }

    /// Whether a host is compared as it was sent.
    pub fn is_as_sent(self) -> bool {
        self.port == StrippedPort::None && !self.is_dot_off
    }

    /// Whether a host is compared with this port, which may be `*`.
    pub fn sees_port(self, port: &str) -> bool {
        match self.port {
            StrippedPort::None => true,
            StrippedPort::Own(own) => port != own.to_string(),
            StrippedPort::Any => false,
        }
    }

    /// The pattern for `Host` as it was sent, where it is compared without what is taken off.
    pub fn pattern(self, text: HostText<'_>, is_blind: bool) -> Result<String, String> {
        let blind = if is_blind { "(?i)" } else { "" };
        let end = format!("{}{}", if self.is_dot_off { "\\.?" } else { "" }, self.port_written());
        let plain = |text: &str| {
            // What asks for a port, or for the last dot, asks for what is taken off.
            if text.contains(':') || text.ends_with('.') { Err(WITH_PORT.to_owned()) } else { Ok(regex_syntax::escape(text)) }
        };
        Ok(match text {
            HostText::Exact(text) => format!("~{blind}^{}{end}$", plain(text)?),
            HostText::Prefix(text) => format!("~{blind}^{}", plain(text)?),
            HostText::Suffix(text) => format!("~{blind}{}{end}$", plain(text)?),
            HostText::Part(text) if text.chars().any(|c| c.is_ascii_alphabetic()) => format!("~{blind}{}", plain(text)?),
            // The end of what such an expression takes is no port.
            HostText::Regex(text) if ends_with_letter(text) => format!("~{blind}^(?:{text}){end}$"),
            HostText::Part(_) | HostText::Regex(_) => return Err(WITH_PORT.to_owned()),
        })
    }

    fn port_written(self) -> String {
        match self.port {
            StrippedPort::None => String::new(),
            StrippedPort::Own(port) => format!("(?::{port})?"),
            StrippedPort::Any => "(?::[0-9]+)?".to_owned(),
        }
    }
}

/// Whether each text that an expression takes ends with a letter of its own.
fn ends_with_letter(regex: &str) -> bool {
    let bare = regex.trim_end_matches('$');
    let mut last = bare.chars().rev();
    let is_letter = last.next().is_some_and(|c| c.is_ascii_alphabetic()) && last.next() != Some('\\');
    is_letter && !bare.contains(['|', ':'])
}

#[cfg(test)]
mod tests {
    use super::{Authority, HostText, StrippedPort, ends_with_letter};

    #[test]
    fn hosts_are_compared_without_what_is_taken_off() {
        let any = Authority { port: StrippedPort::Any, is_dot_off: true };
        let own = Authority { port: StrippedPort::Own(8443), is_dot_off: false };
        let check = |authority: Authority, text: HostText<'_>, expected: Option<&str>| {
            assert_eq!(authority.pattern(text, false).ok().as_deref(), expected, "for {text:?}");
        };
        check(any, HostText::Exact("a.test"), Some("~^a\\.test\\.?(?::[0-9]+)?$"));
        check(own, HostText::Exact("a.test"), Some("~^a\\.test(?::8443)?$"));
        check(own, HostText::Exact("a.test:80"), None);
        check(any, HostText::Prefix("a."), None);
        check(any, HostText::Suffix(".test"), Some("~\\.test\\.?(?::[0-9]+)?$"));
        check(own, HostText::Regex(".*\\.test"), Some("~^(?:.*\\.test)(?::8443)?$"));
        check(own, HostText::Regex(".*"), None);
        check(own, HostText::Part("44"), None);
    }

    #[test]
    fn expressions_end_with_letters_or_with_anything() {
        assert!(ends_with_letter("^.*\\.test$") && ends_with_letter("a"));
        assert!(!ends_with_letter("a\\w") && !ends_with_letter("a|b") && !ends_with_letter("a.*") && !ends_with_letter(""));
    }
}
