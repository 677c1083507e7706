//! The bounds that the page on security defaults promises, against those of a configuration that says nothing of them.

use std::path::Path;
use tidegate_config::load_text;
use tidegate_config::writing::{WrittenSetting, of_limits, of_pool};

#[test]
fn documented_bounds_are_those_that_hold() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security-defaults.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let text = "site \"http://a.test\" { proxy \"app\" }\npool \"app\" { server \"127.0.0.1:1\" }";
    let configuration = load_text("t.kdl", text, Path::new("/")).configuration.expect("it is accepted");
    let limits = of_limits(&configuration.limits, &configuration.filled).into_iter();
    let held: Vec<WrittenSetting> = limits.chain(of_pool(&configuration.pools[0], &configuration.filled)).collect();
    let bounds =
        page.split("| Bound | Default |").nth(1).expect("the table").lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut seen = Vec::new();
    for row in bounds {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (default, setting) = (cells[2], cells[3].trim_matches('`'));
        // A bound that nobody can set has its own test.
        if setting == "–" {
            continue;
        }
        // `limits { header-bytes }` and `timeout connect=`
        let name = match setting.strip_prefix("limits { ") {
            Some(behind) => behind.trim_end_matches(" }").to_owned(),
            None => setting.trim_end_matches('=').to_owned(),
        };
        let Some(held) = held.iter().find(|setting| setting.name == name) else {
            assert_eq!(default, "none", "{row} names a setting that nothing writes: {held:?}");
            continue;
        };
        assert_eq!(plain(default), plain(&held.value), "{row}");
        seen.push(name);
    }
    assert!(seen.len() >= 9, "{seen:?}");
}

/// `64 KiB` as `64KiB`, `100 bytes/s` as `100B/s`, `60 s` as `1m`, `10,000` as `10000`.
fn plain(value: &str) -> String {
    let plain = value.replace([' ', ','], "").replace("bytes", "B");
    if plain == "60s" { "1m".to_owned() } else { plain }
}
