//! What users of other proxies write out of habit: in `requests` what is done with a request, in `servers` what it is
//! handed on to, in `process` where it comes in and what the process does. Help, and nothing that is read. Whole files
//! of others are known by `foreign`.

mod process;
mod requests;
mod servers;

use crate::language::Said;

/// Words of other proxies, and how the same is said here. Each stands in the spelling that is most common; how words
/// are joined, and capital letters, make no difference.
pub static SAID_OTHERWISE: &[&[Said]] = &[requests::SAID, servers::SAID, process::SAID];

#[cfg(test)]
mod tests {
    use super::SAID_OTHERWISE;
    use crate::directives::LANGUAGE;
    use crate::load::load_with;
    use crate::lowering::Environment;
    use std::path::Path;

    /// Blocks in which a line may stand, with what has to be around it.
    const AROUND: [&str; 10] = [
        "LINE\nsite \"localhost\" { respond 204 }",
        "LINE\n",
        "site \"localhost\" {\nLINE\nproxy \"10.0.0.4:80\"\n}",
        "site \"localhost\" {\nLINE\n}",
        "site \"localhost\" { tls {\nLINE\n}; respond 204; }",
        "site \"localhost\" { route {\nLINE\nproxy \"10.0.0.4:80\"\n}; }",
        "pool \"api\" {\nserver \"10.0.0.1:80\"\nLINE\n}\nsite \"localhost\" { proxy \"api\"; }",
        "pool \"api\" {\nserver \"https://10.0.0.1:443\"\nLINE\n}\nsite \"localhost\" { proxy \"api\"; }",
        "pool \"api\" {\nserver \"10.0.0.1:80\"\n}\nsite \"localhost\" {\nLINE\n}",
        "site \"localhost\" { fastcgi \"php:9000\" root=\"/srv/www\" {\nLINE\n}; }",
    ];

    fn faults(line: &str, around: &str) -> Vec<String> {
        let text = around.replace("LINE", line).replace("\"app\"", "\"api\"");
        let loaded = load_with("t.kdl", &text, Path::new("/nonexistent"), &Environment::Given([].into()));
        // Files that a line names are the reader's; all else has to be right.
        let is_about_a_file = |message: &str| message.starts_with("cannot read") || message.contains("/nonexistent");
        let faults = loaded.diagnostics.iter().filter(|fault| fault.is_error()).map(|fault| fault.message.to_string());
        faults.filter(|message| !is_about_a_file(message)).collect()
    }

    /// Whoever is told to write a line may write it as it is.
    #[test]
    fn every_line_that_is_told_is_right() {
        let of_directives = LANGUAGE.directives.iter().flat_map(|directive| directive.said_otherwise).map(|(_, help)| *help);
        let meant = LANGUAGE.directives.iter().map(|directive| directive.meant);
        let of_words = SAID_OTHERWISE.iter().copied().flatten().map(|(_, help)| *help);
        let mut count = 0;
        for help in of_words.chain(of_directives).chain(meant) {
            for line in help.split('`').skip(1).step_by(2) {
                let name = line.split(' ').next().unwrap_or_default();
                let is_whole = !LANGUAGE.places_of(name).is_empty() && line.contains(['"', '#', '{']) && !line.contains('…');
                if !is_whole {
                    continue;
                }
                count += 1;
                let seen: Vec<_> = AROUND.iter().map(|around| faults(line, around)).collect();
                assert!(seen.iter().any(Vec::is_empty), "`{line}` is not right in any block: {seen:?}\nin: {help}");
            }
        }
        assert!(count > 80, "only {count} lines are told");
    }
}
