//! What holds whatever stands in a snippet.

use super::{BranchEnd, Ground, Read, Snippet, SnippetPlace, planned, read};
use tidegate_model::{Condition, HostPattern};

const PLACES: [SnippetPlace; 3] = [SnippetPlace::Server, SnippetPlace::Location, SnippetPlace::Auth];

fn ground(host: &HostPattern) -> Ground<'_> {
    Ground { host, believes: true, is_asked: true, has_login: false, rewrites: false, has_networks: false }
}

/// Nothing makes it panic, and what it comes to is bounded; no request is in two of its branches.
fn check(text: &str) {
    let reads = PLACES.map(|place| read(text, place));
    let [Read { snippet: server, .. }, Read { snippet: location, .. }, _] = &reads;
    let Ok(all) = planned(server, location, ground(&HostPattern::Any)) else { return };
    assert!(!all.is_empty() && all.len() <= 32, "{text}");
    for (index, (branch, _)) in all.iter().enumerate() {
        let is_apart = |other: &[Condition]| {
            let contradicts = |one: &Condition| other.iter().any(|own| own.kind == one.kind && own.negated != one.negated);
            branch.conditions.iter().any(contradicts)
        };
        assert!(all[index + 1..].iter().all(|(other, _)| is_apart(&other.conditions)), "{text}");
    }
}

#[test]
fn any_text_is_read() {
    bolero::check!().with_type::<String>().for_each(|text: &String| check(text));
}

#[test]
fn statements_in_any_order_are_read() {
    const WORDS: [&str; 32] = [
        "if",
        "($http_a",
        "=",
        "!=",
        "~",
        "b)",
        "($request_method",
        "(",
        ")",
        "{",
        "}",
        ";",
        "set",
        "$a",
        "$b",
        "${a}c",
        "return",
        "403",
        "301",
        "https://a/$1",
        "rewrite",
        "^/a(.*)$",
        "/b$1",
        "break",
        "permanent",
        "add_header",
        "X-A",
        "always",
        "more_set_headers",
        "-s",
        "\"",
        "\n",
    ];
    bolero::check!().with_type::<Vec<u8>>().for_each(|bytes: &Vec<u8>| {
        let words: Vec<&str> = bytes.iter().map(|byte| WORDS[usize::from(*byte) % WORDS.len()]).collect();
        check(&words.join(" "));
    });
}

#[test]
fn what_answers_ends_its_branch() {
    let all = |text: &str| {
        let read = read(text, SnippetPlace::Location);
        assert!(read.unknown.is_empty(), "{text}: {:?}", read.unknown);
        let (host, nothing) = (HostPattern::Any, Snippet::default());
        let ends = planned(&nothing, &read.snippet, ground(&host)).expect("branches");
        ends.iter().map(|(branch, _)| matches!(branch.end, BranchEnd::Answered(_))).collect::<Vec<_>>()
    };
    assert_eq!(all(""), [false]);
    assert_eq!(all("return 403; if ($http_a) { return 200; }"), [true]);
    assert_eq!(all("if ($http_a) { return 200; } return 403;"), [true, true]);
    assert_eq!(all("break; return 403;"), [false]);
    assert_eq!(all("if ($http_a) { break; return 200; } return 403;"), [false, true]);
    assert_eq!(all("if ($http_a) { set $b 1; } if ($b) { return 403; }"), [true, false]);
    assert_eq!(all("set $b 0; if ($b) { return 403; }"), [false]);
}
