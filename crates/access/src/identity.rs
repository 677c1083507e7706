//! Who a request is from, however that was found out: what every step that lets clients in says, and what logs, limits,
//! the cache and upstreams go by. How a step finds it out is elsewhere; a certificate that a client has shown belongs
//! to its connection and is not part of this.

use std::sync::Arc;

/// Somebody who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// What `{auth.user}` is: never empty, without control characters, and without space around it.
    pub name: Box<str>,
    pub method: LogIn,
    /// Who vouches for the name, where that is somebody else: each issuer has its own Alice.
    pub issuer: Option<Box<str>>,
    /// SHA-256 of what says more of the client than its name, where the upstream gets to see it and may answer by it.
    pub proof: Option<[u8; 32]>,
    /// Who the client was to a step before this one: a request may have to log in twice.
    pub besides: Option<Arc<Identity>>,
}

/// By which step somebody has logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogIn {
    /// `basic-auth`
    Password,
    /// `jwt`
    Token,
    /// `oidc`
    Provider,
    /// `api-key`
    Key,
}

impl LogIn {
    /// As the directive is called.
    pub fn name(self) -> &'static str {
        match self {
            LogIn::Password => "basic-auth",
            LogIn::Token => "jwt",
            LogIn::Provider => "oidc",
            LogIn::Key => "api-key",
        }
    }
}

impl Identity {
    /// Somebody whose name this proxy itself knows.
    pub fn of_name(name: &str, method: LogIn) -> Identity {
        Identity { name: name.into(), method, issuer: None, proof: None, besides: None }
    }

    /// Whether a text can be a name in a header field, a log line and a key as it stands. Another one would become
    /// somebody else's there: servers cut space off around values, and control characters do not go through.
    pub fn is_name(text: &str) -> bool {
        !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control)
    }

    /// Appends what tells this client from all others: equal bytes are the same name, by the same method, vouched for
    /// by the same issuer. Lengths keep the parts from running into each other.
    pub fn write_key(&self, out: &mut Vec<u8>) {
        for part in [self.method.name(), self.issuer.as_deref().unwrap_or_default(), &self.name] {
            write_part(part.as_bytes(), out);
        }
    }

    /// Appends all that an answer to this client may depend on: the key, who it was before, and what proved it.
    pub fn write_whole(&self, out: &mut Vec<u8>) {
        self.write_key(out);
        write_part(self.proof.as_ref().map_or(&[][..], |proof| proof), out);
        match &self.besides {
            None => out.push(0),
            Some(before) => {
                out.push(1);
                before.write_whole(out);
            }
        }
    }
}

fn write_part(part: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(part.len() as u32).to_be_bytes());
    out.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::{Identity, LogIn};
    use std::sync::Arc;

    fn of(issuer: Option<&str>, name: &str, method: LogIn) -> Identity {
        Identity { issuer: issuer.map(Into::into), ..Identity::of_name(name, method) }
    }

    #[test]
    fn each_issuer_and_each_method_has_its_own_alice() {
        let key = |identity: &Identity| {
            let mut key = Vec::new();
            identity.write_key(&mut key);
            key
        };
        let alice = key(&of(Some("a"), "lice", LogIn::Token));
        let check = |other: &Identity, is_same: bool| assert_eq!(key(other) == alice, is_same, "{other:?}");
        check(&of(Some("a"), "lice", LogIn::Token), true);
        check(&of(Some("al"), "ice", LogIn::Token), false);
        check(&of(None, "alice", LogIn::Token), false);
        check(&of(None, "a|lice", LogIn::Token), false);
        check(&of(Some("a"), "lice", LogIn::Password), false);
        check(&Identity { proof: Some([1; 32]), ..of(Some("a"), "lice", LogIn::Token) }, true);
    }

    #[test]
    fn answers_depend_on_all_that_was_proved() {
        let whole = |identity: &Identity| {
            let mut whole = Vec::new();
            identity.write_whole(&mut whole);
            whole
        };
        let alice = Identity::of_name("alice", LogIn::Token);
        let before = |name: &str| Some(Arc::new(Identity::of_name(name, LogIn::Password)));
        let others = [
            alice.clone(),
            Identity { proof: Some([1; 32]), ..alice.clone() },
            Identity { proof: Some([2; 32]), ..alice.clone() },
            Identity { besides: before("bob"), ..alice.clone() },
            Identity { besides: before("carol"), ..alice },
        ];
        for (position, one) in others.iter().enumerate() {
            for (other_position, other) in others.iter().enumerate() {
                assert_eq!(whole(one) == whole(other), position == other_position, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_would_become_another_name_is_none() {
        let check = |text: &str, expected: bool| assert_eq!(Identity::is_name(text), expected, "{text:?}");
        check("alice", true);
        check("Ada Lovelace", true);
        check("auth0|5f7c", true);
        check("Ää@ö.test", true);
        for text in
            ["", " ", " alice", "alice\t", "alice\0", "a\nb", "a\r\nX-User: root", "alice\u{7f}", "alice\u{85}", "\u{a0}alice"]
        {
            check(text, false);
        }
    }
}
