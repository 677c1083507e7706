//! A ConfigMap whose texts are fields of messages: what servers are told, whoever is asked who may come in, and
//! clients.

use crate::annotations::plain_template;
use crate::config_map::KnownConfigMap;
use std::collections::BTreeMap;
use tidegate_cluster::{ConfigMap, Key};
use tidegate_model::{HeaderChange, HeaderOperation, Template, TemplatePart, is_of_framing};

/// Of one map.
const FIELDS_MAX: usize = 100;
const VALUE_BYTES_MAX: usize = 4096;

/// What becomes of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderMapForm {
    /// Of requests: with variables of nginx, and one that is empty takes the field out.
    OfRequests,
    /// Of answers: with variables of nginx.
    OfAnswers,
    /// Of answers, as they are written.
    Literal,
}

/// The fields of the ConfigMap. `Err` says why they cannot be had; `None`: nobody can tell so far.
pub fn fields(maps: &BTreeMap<Key, KnownConfigMap>, key: &Key, form: HeaderMapForm) -> Option<Result<Vec<HeaderChange>, String>> {
    let map = match maps.get(key)?.content(key)? {
        Ok(map) => map,
        Err(problem) => return Some(Err(problem)),
    };
    Some(changes(map, form).map_err(|problem| format!("the ConfigMap `{key}` cannot be used: {problem}")))
}

/// In the order of their names.
pub fn changes(map: &ConfigMap, form: HeaderMapForm) -> Result<Vec<HeaderChange>, String> {
    if map.data.len() > FIELDS_MAX {
        return Err(format!("it has more than {FIELDS_MAX} fields"));
    }
    map.data.iter().map(|(name, value)| change(name, value.trim(), form)).collect()
}

fn change(name: &str, value: &str, form: HeaderMapForm) -> Result<HeaderChange, String> {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !is_name {
        return Err(format!("`{shown}` is no name of a field, which has letters, digits, `-` and `_`"));
    }
    let lower = name.to_ascii_lowercase();
    if is_of_framing(&lower) {
        return Err(format!("`{shown}` says how a message is framed, and is up to the proxy: remove it"));
    }
    if value.len() > VALUE_BYTES_MAX || value.chars().any(char::is_control) {
        return Err(format!("the value of `{shown}` has more than one line, or more than {VALUE_BYTES_MAX} bytes"));
    }
    let template = match form {
        HeaderMapForm::Literal => Template::literal(value),
        HeaderMapForm::OfRequests | HeaderMapForm::OfAnswers => {
            plain_template(value).map_err(|variable| format!("the variable `{variable}` of `{shown}` is not known here"))?
        }
    };
    let is_host = lower == "host" && form == HeaderMapForm::OfRequests;
    let is_empty = template.parts.iter().all(|part| matches!(part, TemplatePart::Literal(text) if text.is_empty()));
    let operation = if is_empty { HeaderOperation::Remove } else { HeaderOperation::Set };
    if is_host && is_empty {
        return Err("a request has a `Host`: write one, or remove the field".to_owned());
    }
    let value = if is_empty { Template::default() } else { template };
    Ok(HeaderChange { operation, name: name.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::{HeaderMapForm, changes};
    use tidegate_cluster::ConfigMap;

    #[test]
    fn texts_are_fields() {
        let check = |name: &str, value: &str, form: HeaderMapForm, expected: Result<&str, &str>| {
            let map = ConfigMap { data: [(name.into(), value.into())].into() };
            let seen = changes(&map, form).map(|changes| format!("{:?} {}", changes[0].operation, changes[0].value));
            match (&seen, expected) {
                (Ok(seen), Ok(expected)) => assert_eq!(seen, expected, "{name}: {value}"),
                (Err(seen), Err(expected)) => assert!(seen.contains(expected), "{name}: {value}: {seen}"),
                (seen, _) => panic!("{name}: {value}: {seen:?}"),
            }
        };
        check("X-Country", "$http_x_geo", HeaderMapForm::OfRequests, Ok("Set {request.header.x-geo}"));
        check("X-User", "", HeaderMapForm::OfRequests, Ok("Remove "));
        check("X-Price", "$5", HeaderMapForm::Literal, Ok("Set $5"));
        check("X-Price", "$5", HeaderMapForm::OfAnswers, Err("`$5`"));
        check("X-Frame-Options", " DENY\n", HeaderMapForm::OfAnswers, Ok("Set DENY"));
        check("X-A", "a\nb", HeaderMapForm::OfAnswers, Err("more than one line"));
        check("Host", "", HeaderMapForm::OfRequests, Err("`Host`"));
        check("Host", "$host", HeaderMapForm::OfRequests, Ok("Set {host}"));
        check("Transfer-Encoding", "chunked", HeaderMapForm::OfAnswers, Err("framed"));
        check("X.Y", "a", HeaderMapForm::OfAnswers, Err("no name of a field"));
        check("", "a", HeaderMapForm::OfAnswers, Err("no name of a field"));
    }
}
