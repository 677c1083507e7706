//! Who may ask and what errors look like, in the words of the file. Everything else of a route is in `mod`.

use super::{HIDDEN, quoted, template};
use tidegate_model::{AuthUsers, BasicAuth, ErrorBody, ErrorPage, ErrorSource};

/// Names of users, and not their hashes: whoever has those can guess at passwords undisturbed.
pub fn basic_auth(auth: &BasicAuth) -> String {
    let mut text = "basic-auth".to_owned();
    if let AuthUsers::File(path) = &auth.users {
        text.push_str(&format!(" file={}", quoted(&path.display().to_string())));
    }
    if auth.realm != BasicAuth::REALM {
        text.push_str(&format!(" realm={}", quoted(&auth.realm)));
    }
    if !auth.forwards {
        text.push_str(" forward=#false");
    }
    if let AuthUsers::Listed(users) = &auth.users {
        let users: Vec<String> = users.iter().map(|(name, _)| format!("user {} {}", quoted(name), quoted(HIDDEN))).collect();
        text.push_str(&format!(" {{ {} }}", users.join("; ")));
    }
    text
}

pub fn error_page(page: &ErrorPage) -> String {
    let mut text = "error-page".to_owned();
    for range in &page.statuses {
        if range.first == range.last {
            text.push_str(&format!(" {}", range.first));
        } else {
            text.push_str(&format!(" {}", quoted(&format!("{}-{}", range.first, range.last))));
        }
    }
    let (file, content_type) = match &page.body {
        ErrorBody::Template { text: body, content_type, file: None } => {
            text.push_str(&format!(" body={}", template(body)));
            (None, Some(content_type))
        }
        ErrorBody::Template { content_type, file: Some(file), .. } => (Some((file, " placeholders=#true")), Some(content_type)),
        ErrorBody::File { path, content_type, .. } => (Some((path, "")), Some(content_type)),
        ErrorBody::Made(format) => {
            text.push_str(&format!(" format={}", quoted(format.name())));
            (None, None)
        }
    };
    if let Some((file, placeholders)) = file {
        text.push_str(&format!(" file={}{placeholders}", quoted(&file.display().to_string())));
    }
    if let Some(content_type) = content_type {
        text.push_str(&format!(" content-type={}", quoted(content_type)));
    }
    if page.from != ErrorSource::Proxy {
        text.push_str(&format!(" from={}", quoted(page.from.name())));
    }
    if let Some(status) = page.status {
        text.push_str(&format!(" status={status}"));
    }
    text
}
