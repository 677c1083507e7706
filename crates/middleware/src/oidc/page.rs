//! The page that asks by which of several providers somebody wants to log in. Nothing of it comes from elsewhere: no
//! script, no picture, no font, and no word of the address goes on to the provider but by its link.

use super::CompiledOidc;
use tidegate_access::oidc::form;
use tidegate_model::Oidc;

/// Fields of the answer besides its length. Nobody keeps the page, and nobody puts it into a frame to steer clicks.
pub const PAGE_FIELDS: [(&str, &str); 6] = [
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
];

const STYLE: &str = ":root{color-scheme:light dark}\
    body{font:1rem/1.5 system-ui,sans-serif;display:grid;place-items:center;min-height:100vh;margin:0}\
    main{width:min(20rem,90vw)}h1{font-size:1.4rem;margin:0}p{margin:.2rem 0 1.2rem;opacity:.75;overflow-wrap:anywhere}\
    ul{list-style:none;margin:0;padding:0}\
    a{display:block;padding:.7rem 1rem;margin:.6rem 0;border:1px solid;border-radius:.4rem;color:inherit;\
    text-align:center;text-decoration:none;overflow-wrap:anywhere}a:hover,a:focus-visible{outline:2px solid}";

impl CompiledOidc {
    /// Where the page is for who is to come back to `target`.
    pub fn page_address(&self, target: &str) -> String {
        format!("{}?{}", Oidc::LOG_IN, form([("with", &*self.called), ("return", target)]))
    }

    /// The page: a link for each provider, by which somebody comes back to `target`.
    pub fn page(&self, host: &str, target: &str) -> String {
        let host = escaped(host);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
             <title>Sign in to {host}</title><style>{STYLE}</style></head>\n<body><main><h1>Sign in</h1><p>to {host}, with</p>\n<ul>\n"
        );
        for way in self.ways() {
            let name = &way.settings.provider.name;
            let query = form([("with", &*self.called), ("provider", name), ("return", target)]);
            let link = escaped(&format!("{}?{query}", Oidc::LOG_IN));
            page.push_str(&format!("<li><a href=\"{link}\"><bdi>{}</bdi></a></li>\n", escaped(name)));
        }
        page.push_str("</ul></main></body></html>\n");
        page
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}
