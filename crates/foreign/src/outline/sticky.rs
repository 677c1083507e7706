//! The cookie by which a client stays with its server, as a line of a pool. Each peer has its own words for the
//! attributes; which of them `sticky` can have is decided here for all of them.

use super::is_plain;
use tidegate_kdl::quoted;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StickyCookie {
    name: String,
    max_age: Option<String>,
    path: Option<String>,
    domain: Option<String>,
    same_site: Option<String>,
    is_secure: bool,
}

impl StickyCookie {
    pub fn named(name: &str) -> StickyCookie {
        StickyCookie { name: name.to_owned(), ..StickyCookie::default() }
    }

    /// A duration in our words.
    pub fn lasts(&mut self, max_age: Option<String>) {
        self.max_age = max_age;
    }

    /// An attribute by the name that cookies have for it, in any case. False: `sticky` cannot say it.
    pub fn set(&mut self, attribute: &str, value: &str) -> bool {
        let value = value.trim();
        match attribute.to_ascii_lowercase().as_str() {
            "path" if value.starts_with('/') && is_plain(value) => self.path = Some(value.to_owned()).filter(|path| path != "/"),
            "domain" => {
                let domain = value.trim_start_matches('.').to_ascii_lowercase();
                let is_domain = domain.contains('.')
                    && domain
                        .split('.')
                        .all(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
                    && domain.parse::<std::net::IpAddr>().is_err();
                if !is_domain {
                    return false;
                }
                self.domain = Some(domain);
            }
            "samesite" => match value.to_ascii_lowercase().as_str() {
                "lax" => self.same_site = None,
                word @ ("strict" | "none") => self.same_site = Some(word.to_owned()),
                _ => return false,
            },
            "secure" => self.is_secure = true,
            "httponly" => {}
            _ => return false,
        }
        true
    }

    pub fn line(&self) -> String {
        let mut line = format!("sticky cookie={}", quoted(&self.name));
        let texts = [("max-age", &self.max_age), ("path", &self.path), ("domain", &self.domain), ("same-site", &self.same_site)];
        for (name, text) in texts {
            if let Some(text) = text {
                line.push_str(&format!(" {name}={}", quoted(text)));
            }
        }
        if self.is_secure {
            line.push_str(" secure=\"on\"");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::StickyCookie;

    #[test]
    fn attributes_become_properties_or_are_told() {
        let check = |attributes: &[(&str, &str)], expected: &str, carried: bool| {
            let mut cookie = StickyCookie::named("SRV");
            let all = attributes.iter().fold(true, |all, (name, value)| cookie.set(name, value) && all);
            assert_eq!((cookie.line().as_str(), all), (expected, carried), "{attributes:?}");
        };
        check(&[], "sticky cookie=\"SRV\"", true);
        check(&[("Path", "/"), ("SameSite", "Lax"), ("HttpOnly", "")], "sticky cookie=\"SRV\"", true);
        check(&[("Path", "/app"), ("secure", "")], "sticky cookie=\"SRV\" path=\"/app\" secure=\"on\"", true);
        check(&[("domain", ".Example.com")], "sticky cookie=\"SRV\" domain=\"example.com\"", true);
        check(&[("SameSite", "None")], "sticky cookie=\"SRV\" same-site=\"none\"", true);
        check(&[("domain", "localhost"), ("path", "$uri"), ("SameSite", "Odd")], "sticky cookie=\"SRV\"", false);
        check(&[("Priority", "High")], "sticky cookie=\"SRV\"", false);
    }
}
