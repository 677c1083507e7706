//! Lists of users, as the step that asks for one of them.

use super::lexer::{HaProxyLine, Sections};
use std::collections::BTreeSet;
use tidegate_kdl::quoted;

const IN_PLAIN: &str = "passwords stand there as plain text, and are never taken so: `tidegate hash-password` makes a hash of each, for `user` \
                        in the block of `basic-auth`";

/// `basic-auth` for the users of a list, of one of these groups where some are named.
pub fn step(
    sections: &Sections,
    list: &str,
    groups: &[String],
    realm: &str,
    places: &mut BTreeSet<usize>,
) -> Result<String, String> {
    let section = sections.all.iter().find(|section| section.kind == "userlist" && section.name == list);
    let section = section.ok_or("the list of its users is not in this file")?;
    let of_group = |name: &str, line: &HaProxyLine| {
        let own = line.behind("groups").is_some_and(|own| own.split(',').any(|group| groups.iter().any(|one| one == group)));
        let listed = section.lines_of("group").filter(|group| groups.iter().any(|one| one == group.word(1)));
        let is_listed = listed.filter_map(|group| group.behind("users")).any(|users| users.split(',').any(|user| user == name));
        groups.is_empty() || own || is_listed
    };
    let mut users = Vec::new();
    for line in section.lines_of("user").filter(|line| of_group(line.word(1), line)) {
        let Some(hash) = line.behind("password") else { return Err(IN_PLAIN.to_owned()) };
        let is_known = ["$2", "$5$", "$6$", "$apr1$", "$argon2"].iter().any(|kind| hash.starts_with(kind));
        if !is_known {
            return Err("hashes as `crypt` made them once are not taken: `tidegate hash-password` makes a good one".to_owned());
        }
        places.insert(line.start());
        users.push(format!("user {} {}", quoted(line.word(1)), quoted(&crate::texts::literal(hash))));
    }
    if users.is_empty() {
        return Err("nobody is in the list that it asks for".to_owned());
    }
    places.extend(section.lines_of("group").map(HaProxyLine::start));
    let realm: String = realm.chars().filter(|c| *c != '"' && *c != '\\' && !c.is_control()).collect();
    let realm = if realm.is_empty() { String::new() } else { format!(" realm={}", quoted(&crate::texts::literal(&realm))) };
    Ok(format!("basic-auth{realm} {{ {}; }}", users.join("; ")))
}
