//! What auth servers that people run expect of a proxy in front, and say to it. Which of them were tried, and which are
//! as their documentation has it, for which version, is in docs/providers; `cargo xtask apps` tries them.

use tidegate_model::{NamePattern, SignIn};

/// One server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthPreset {
    name: &'static str,
    pub path: &'static str,
    copied: &'static [&'static str],
    pub user: &'static str,
    /// A good answer may set cookies, as when it renews a session.
    pub sets_cookies: bool,
    /// Where it has log-ins, on the site itself; `None`: it redirects by itself, or that is another host.
    pub sign_in: Option<&'static str>,
    pub redirect_param: &'static str,
}

const PRESETS: &[AuthPreset] = &[
    AuthPreset {
        name: "authelia",
        path: "/api/authz/forward-auth",
        copied: &["Remote-User", "Remote-Groups", "Remote-Email", "Remote-Name"],
        user: "Remote-User",
        sets_cookies: true,
        sign_in: None,
        redirect_param: SignIn::REDIRECT_PARAM,
    },
    AuthPreset {
        name: "authentik",
        path: "/outpost.goauthentik.io/auth/traefik",
        copied: &["X-authentik-*"],
        user: "X-authentik-username",
        sets_cookies: true,
        sign_in: None,
        redirect_param: SignIn::REDIRECT_PARAM,
    },
    AuthPreset {
        name: "oauth2-proxy",
        path: "/oauth2/auth",
        copied: &["X-Auth-Request-*"],
        user: "X-Auth-Request-User",
        sets_cookies: true,
        sign_in: Some("/oauth2/start"),
        redirect_param: SignIn::REDIRECT_PARAM,
    },
    AuthPreset {
        name: "tinyauth",
        path: "/api/auth/traefik",
        copied: &["Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "Remote-Sub"],
        user: "Remote-User",
        sets_cookies: true,
        sign_in: None,
        redirect_param: "redirect_uri",
    },
    AuthPreset {
        name: "vouch",
        path: "/validate",
        copied: &["X-Vouch-*"],
        user: "X-Vouch-User",
        sets_cookies: false,
        sign_in: None,
        redirect_param: "url",
    },
];

impl AuthPreset {
    pub const NAMES: &'static [&'static str] = &["authelia", "authentik", "oauth2-proxy", "tinyauth", "vouch"];

    pub fn named(name: &str) -> Option<&'static AuthPreset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    pub fn copied(&self) -> Vec<NamePattern> {
        self.copied.iter().map(|name| NamePattern::new(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthPreset, PRESETS};
    use tidegate_model::NamePattern;

    #[test]
    fn the_user_of_each_is_among_what_no_client_says() {
        assert_eq!(PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>(), AuthPreset::NAMES);
        for preset in PRESETS {
            let covers = |pattern: &NamePattern| {
                if pattern.is_prefix { preset.user.starts_with(&pattern.text) } else { preset.user == pattern.text }
            };
            assert!(preset.copied().iter().any(covers), "{}", preset.name);
            assert!(preset.path.starts_with('/'));
        }
    }
}
