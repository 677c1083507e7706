//! Somebody with curl: cookies of their own, and names of sites that lead to the Tidegate of the suite. What a browser
//! does with a page is done by hand, so that each answer can be looked at.

use crate::stage::{Scheme, Stage};

/// What browsers say of themselves; tinyauth goes by it.
const BROWSER: [&str; 4] = ["-H", "Accept: text/html", "-A", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0"];

pub struct Visitor<'a> {
    stage: &'a Stage<'a>,
    jar: String,
    /// Where every `https://` of the manual leads to.
    to: String,
    version: &'static str,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Where it redirects to.
    pub location: String,
    /// The address that it came from, behind redirects.
    pub landed: String,
    pub text: String,
}

impl<'a> Visitor<'a> {
    /// With an empty jar of cookies of that name. TLS carries HTTP/2, or HTTP/1.1 where the scheme is that of it.
    pub fn new(stage: &'a Stage<'a>, name: &str, port: u16, scheme: Scheme) -> Visitor<'a> {
        let jar = stage.folder.join(format!("cookies-{name}-{}", scheme.name())).display().to_string();
        let version = match scheme {
            Scheme::Http => "--http1.1",
            Scheme::Https => "--http2",
        };
        Visitor { stage, jar, to: format!(":443:127.0.0.1:{port}"), version }
    }

    /// As a browser opens a page, without following where it is sent.
    pub fn opens(&self, url: &str) -> Result<Answer, String> {
        self.asks(&BROWSER, url)
    }

    /// As a browser opens a page, until one is to be seen.
    pub fn follows(&self, url: &str) -> Result<Answer, String> {
        self.asks(&[&BROWSER[..], &["-L"]].concat(), url)
    }

    /// As a browser sends a form, until a page is to be seen.
    pub fn sends(&self, fields: &[&str], url: &str) -> Result<Answer, String> {
        let fields: Vec<&str> = fields.iter().flat_map(|field| ["--data-urlencode", *field]).collect();
        self.asks(&[&BROWSER[..], &["-L"], &fields].concat(), url)
    }

    /// The value of a cookie that they have.
    pub fn cookie(&self, name: &str) -> Option<String> {
        let jar = std::fs::read_to_string(&self.jar).ok()?;
        let mut lines = jar.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        lines.find(|fields| fields.get(5) == Some(&name)).and_then(|fields| fields.get(6).map(|value| (*value).to_owned()))
    }

    /// As a program asks.
    pub fn asks(&self, arguments: &[&str], url: &str) -> Result<Answer, String> {
        let told = "\n%{http_code}\n%header{location}\n%{url_effective}";
        let always = ["-b", &self.jar, "-c", &self.jar, "--connect-to", &self.to, self.version, "-w", told];
        let said = self.stage.curl(&[&always, arguments, &[url]].concat())?;
        let mut parts = said.rsplitn(4, '\n').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (landed, location, status, text) = (part(), part(), part(), part());
        let status = status.parse().map_err(|_| format!("{url}: `{said}`"))?;
        Ok(Answer { status, location, landed, text })
    }
}

impl Answer {
    /// Fails unless it has this status, and the text in its body.
    pub fn is(self, status: u16, text: &str) -> Result<Answer, String> {
        if self.status == status && self.text.contains(text) { Ok(self) } else { Err(self.wrong(&format!("{status} `{text}`"))) }
    }

    /// Fails where its body has the text.
    pub fn says_nothing_of(self, text: &str) -> Result<Answer, String> {
        if self.text.contains(text) { Err(self.wrong(&format!("without `{text}`"))) } else { Ok(self) }
    }

    /// Fails unless it redirects to what begins so.
    pub fn leads_to(self, location: &str) -> Result<Answer, String> {
        let is_redirect = matches!(self.status, 301 | 302 | 303 | 307 | 308);
        let leads = is_redirect && self.location.starts_with(location);
        if leads { Ok(self) } else { Err(self.wrong(&format!("a redirect to {location}"))) }
    }

    fn wrong(&self, expected: &str) -> String {
        let Answer { status, location, landed, text } = self;
        let text: String = text.chars().take(1000).collect();
        format!("{landed}: not {expected}, but {status} <{location}> `{text}`")
    }
}
