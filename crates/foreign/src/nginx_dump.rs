//! What `nginx -T` prints: all files of a configuration in one text, each behind a line with its name. Includes are
//! looked for among them, so that nothing else is read.

use crate::gather::NamedText;

const MARK: &str = "# configuration file ";

/// The files of a dump, the main one first; `None` where a text is none.
pub fn files(text: &str) -> Option<Vec<NamedText>> {
    let mut files: Vec<NamedText> = Vec::new();
    let mut rest = text;
    let first = marks(text).next()?;
    // Only what nginx itself says of its test stands in front.
    let is_said = |line: &str| line.trim().is_empty() || line.starts_with("nginx:");
    if !text[..first.0].lines().all(is_said) {
        return None;
    }
    for (at, name) in marks(text).collect::<Vec<_>>().into_iter().rev() {
        let behind = rest[at..].find('\n').map_or(rest.len(), |length| at + length + 1);
        let own = rest[behind..].to_owned();
        rest = &rest[..at];
        files.push(NamedText { name: name.to_owned(), text: own });
    }
    files.reverse();
    Some(files)
}

/// Where the marks stand, each with the name of its file.
fn marks(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    starts.filter_map(move |at| {
        let line = text[at..].lines().next().unwrap_or_default();
        Some((at, line.strip_prefix(MARK)?.trim_end().strip_suffix(':')?))
    })
}

/// The files of the dump that a pattern behind `include` stands for.
pub fn included(files: &[NamedText], pattern: &str) -> Result<Vec<NamedText>, String> {
    let folder = files.first().and_then(|main| main.name.rsplit_once('/')).map_or("", |(folder, _)| folder);
    let whole = if pattern.starts_with('/') { pattern.to_owned() } else { format!("{folder}/{pattern}") };
    let mut found: Vec<NamedText> =
        files.iter().skip(1).filter(|file| fits(whole.as_bytes(), file.name.as_bytes())).cloned().collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    if found.is_empty() && !pattern.contains(['*', '?', '[']) {
        return Err(format!("`{whole}` is not in what `nginx -T` has printed"));
    }
    Ok(found)
}

/// Whether a name fits a pattern with `*` and `?`, which stop at a slash.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(b'?') if name[seen] != b'/' => {
                at += 1;
                seen += 1;
            }
            Some(byte) if *byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((star_at, star_seen)) if name[star_seen] != b'/' => {
                    at = star_at + 1;
                    seen = star_seen + 1;
                    star = Some((star_at, seen));
                }
                _ => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{files, fits, included};

    const DUMP: &str = "nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\n\
        nginx: configuration file /etc/nginx/nginx.conf test is successful\n\
        # configuration file /etc/nginx/nginx.conf:\n\
        http { include sites/*; include mime.types; }\n\
        # configuration file /etc/nginx/sites/b:\n\
        server { listen 81; }\n\
        # configuration file /etc/nginx/sites/a:\n\
        # mine\n\
        server { listen 80; }\n";

    #[test]
    fn a_dump_is_its_files() {
        let all = files(DUMP).expect("a dump");
        let names: Vec<&str> = all.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["/etc/nginx/nginx.conf", "/etc/nginx/sites/b", "/etc/nginx/sites/a"]);
        assert_eq!(all[2].text, "# mine\nserver { listen 80; }\n");
        let sites: Vec<String> = included(&all, "sites/*").expect("both").into_iter().map(|file| file.name).collect();
        assert_eq!(sites, ["/etc/nginx/sites/a", "/etc/nginx/sites/b"]);
        assert!(included(&all, "mime.types").is_err());
        assert!(files("server { listen 80; }\n# configuration file /x:\n").is_none());
        assert!(files("server { listen 80; }").is_none());
    }

    #[test]
    fn a_star_stops_at_a_slash() {
        let check = |pattern: &str, name: &str, expected: bool| {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} for {name}");
        };
        check("/a/*.conf", "/a/b.conf", true);
        check("/a/*.conf", "/a/b/c.conf", false);
        check("/a/*", "/a/", true);
        check("/a/?.conf", "/a/b.conf", true);
        check("/*/b*d", "/a/bxdxd", true);
        check("/a/b", "/a/bc", false);
    }
}
