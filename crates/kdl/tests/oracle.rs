//! The parser against another one, the `kdl` crate: both take the same texts and read the same in them. The texts are
//! words that mean something to KDL, in any order. Where the two disagree, the specification decides, and
//! `differs_on_purpose` says so.

use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};
use tidegate_kdl::{Entry, FileId, Literal, Node, TokenKind, Tokens, parse};

const WORDS: [&str; 65] = [
    "a",
    "b",
    "-",
    "+",
    ".",
    " ",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\u{2028}",
    "\u{85}",
    "{",
    "}",
    "{ ",
    " }",
    ";",
    "; ",
    " /-x=1 ",
    " /-{ y 1 } ",
    "\n/-n 1 { m }\n",
    "\\\n",
    "\\",
    "\\ // c\n",
    "\"x\"",
    "\"\"",
    "\"\\n\\u{41}\"",
    "\"\\\n  y\"",
    "\"",
    "#\"r\\\"#",
    "##\"r\"#\"##",
    "#\"",
    "\"#",
    "\"\"\"\n",
    "\"\"\"\n  l\n    m\n  \"\"\"",
    "#\"\"\"\n l\\n\n \"\"\"#",
    "\"\"\"",
    "=",
    "=",
    " = ",
    "x=1",
    "1",
    "-1",
    "0x1f",
    "1_0.5e-3",
    "+0b1_0",
    "1.",
    "0o8",
    "#true",
    "#null",
    "#inf",
    "true",
    "#",
    "(t)",
    "( t ) ",
    "(",
    ")",
    "// y\n",
    "/* z */",
    "/* /* z */ \n*/",
    "\u{e9}",
];

fn describe(nodes: &[Node]) -> String {
    let entry = |entry: &Entry| {
        let name = entry.name.as_ref().map(|name| format!("{:?}=", name.text)).unwrap_or_default();
        let value = match &entry.value.literal {
            Literal::Text(text) => format!("{text:?}"),
            Literal::Integer(integer) => integer.to_string(),
            Literal::Float(float) => format!("float {:x}", float.to_bits()),
            Literal::Switch(switch) => format!("#{switch}"),
            Literal::Null => "#null".into(),
        };
        format!("{name}{value} ")
    };
    let node = |node: &Node| {
        let children = node.children.as_ref().map(|children| format!("{{ {} }}", describe(children))).unwrap_or_default();
        format!("{:?} {}{children};", node.name.text, node.entries.iter().map(entry).collect::<String>())
    };
    nodes.iter().map(node).collect()
}

fn describe_other(nodes: &[KdlNode]) -> String {
    let entry = |entry: &KdlEntry| {
        let name = entry.name().map(|name| format!("{:?}=", name.value())).unwrap_or_default();
        let value = match entry.value() {
            KdlValue::String(text) => format!("{text:?}"),
            KdlValue::Integer(integer) => integer.to_string(),
            KdlValue::Float(float) => format!("float {:x}", float.to_bits()),
            KdlValue::Bool(switch) => format!("#{switch}"),
            KdlValue::Null => "#null".into(),
        };
        format!("{name}{value} ")
    };
    let node = |node: &KdlNode| {
        let children = node.children().map(|children| format!("{{ {} }}", describe_other(children.nodes()))).unwrap_or_default();
        format!("{:?} {}{children};", node.name().value(), node.entries().iter().map(entry).collect::<String>())
    };
    nodes.iter().map(node).collect()
}

fn seen(text: &str) -> (Option<String>, Option<String>) {
    let ours = parse(text, FileId(0)).ok().map(|nodes| describe(&nodes));
    (ours, KdlDocument::parse_v2(text).ok().map(|document| describe_other(document.nodes())))
}

/// Where the other parser takes less or more than the specification lets it. `without` is the text without what is
/// switched off.
fn differs_on_purpose(text: &str, without: &str, ours: Option<&str>, other: Option<&str>) -> bool {
    match (ours, other) {
        // The other parser refuses some texts where what is switched off is the first or the last thing of a block.
        (Some(ours), None) => seen(without).1.as_deref() == Some(ours),
        // Behind a keyword, the other parser needs no blank; and it takes `#"""` for the beginning of a text on one
        // line.
        (None, Some(_)) => Tokens::of(text).any(|token| {
            let written = &text[token.span];
            written.len() > 5 && written.starts_with(['#']) && (token.kind == TokenKind::Bare || written.contains("\"\"\""))
                || written == "-inf"
        }),
        (None, None) | (Some(_), Some(_)) => false,
    }
}

#[test]
fn both_parsers_read_the_same() {
    bolero::check!().with_type::<Vec<u8>>().for_each(|choices: &Vec<u8>| {
        let words = || choices.iter().take(12).map(|choice| WORDS[*choice as usize % WORDS.len()]);
        let text: String = words().collect();
        let without: String = words().map(|word| if word.contains("/-") { &word[..1] } else { word }).collect();
        let (ours, other) = seen(&text);
        assert!(
            ours == other || differs_on_purpose(&text, &without, ours.as_deref(), other.as_deref()),
            "for {text:?}: {ours:?}, the other parser {other:?}, {:?}",
            parse(&text, FileId(0)).err()
        );
    });
}

#[test]
fn what_is_refused_is_refused_quickly() {
    let check = |text: &str, expected: &str| assert_eq!(parse(text, FileId(0)).expect_err("refused").message, expected);
    check(&"a {".repeat(100_000), "blocks are nested more than 32 deep");
    check(&"a {\n/-b {\n".repeat(100_000), "blocks are nested more than 32 deep");
    check(&"/*".repeat(500_000), "this comment is never closed");
    check(&format!("a {}", "\\\n".repeat(500_000) + "="), "this cannot stand here");
    check(&format!("a \"\\{}", "\n".repeat(500_000)), "this text is not closed on its line");
    check(&format!("a {}", "#".repeat(1_000_000)), &format!("`{}` is no keyword", "#".repeat(1_000_000)));
    check(&format!("a {}\"{}", "#".repeat(300_000), "\"####".repeat(100_000)), "this text is not closed on its line");
    assert_eq!(parse(&format!("/{}/ a", "*".repeat(1_000_000)), FileId(0)).expect("a comment").len(), 1);
}

#[test]
fn no_text_makes_it_panic() {
    bolero::check!().with_type::<String>().for_each(|text: &String| {
        let _ = parse(text, FileId(0));
    });
}

#[test]
fn what_the_specification_says() {
    let check = |text: &str, expected: &str| {
        let seen = parse(text, FileId(0)).map_or_else(|fault| fault.message, |nodes| describe(&nodes));
        assert_eq!(seen, expected, "for {text:?}");
    };
    check("\u{feff}a", "\"a\" ;");
    check("a \u{feff}", "this word needs quotes");
    check("a/-1/-{}{b}/-{}", "\"a\" { \"b\" ; };");
    check("a {} b", "this cannot stand here");
    check("a {} {}", "this cannot stand here");
    check("a /-{} 1", "this cannot stand here");
    check("/-/-a", "a directive begins with its name");
    check("a; /-", "this `/-` switches nothing off");
    check("(t)a (u)1 b=(v)2", "\"a\" 1 \"b\"=2 ;");
    check("a ()1", "a type is missing here");
    check("a 1=2", "a property begins with its name");
    check("a -inf", "`-inf` needs a `#` in front");
    check("a .5", "this word needs quotes");
    check("a 170141183460469231731687303715884105728", "this word needs quotes");
    check("a \"\\u{d800}\"", "this `\\u` names no character");
    check("a \"\u{7f}\"", "the character U+007F cannot stand in a text as it is");
    check("a \"\"\"\n  b \\\n    c\n\n  \\n\n  \"\"\"", "\"a\" \"b c\\n\\n\\n\" ;");
    check("a \"\"\"\n  b\\\n  \"\"\"", "the last `\"\"\"` has to stand on a line of its own");
    check("a \"\"\"\n\"\"\"", "\"a\" \"\" ;");
    check("a \\ b", "a line break has to follow the `\\` in front of this");
    check("a \\ // c\n 1", "\"a\" 1 ;");
}
