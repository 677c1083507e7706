//! The list of what threads share, `tests/shared-words.md`: every atomic, lock and cell of the crates that a request
//! passes through stands there with who writes it and how often, so that a new one is a decision and no accident. What
//! each request writes belongs to one worker, and its type says by its alignment that no other's is on its cache lines.

use super::source::Source;
use crate::finding::Finding;
use crate::repository::{Repository, is_test};
use std::collections::BTreeMap;
use syn::visit::{self, Visit};

const RULE: &str = "shared-words";
const LIST: &str = "tests/shared-words.md";

/// Crates that a request passes through, or a connection before its first one.
const CRATES: &[&str] = &[
    "balancing",
    "cache",
    "certs",
    "coding",
    "exchange",
    "fastcgi",
    "files",
    "geo",
    "limiting",
    "message",
    "middleware",
    "model",
    "passwords",
    "proxy",
    "routing",
    "telemetry",
    "transport",
    "upstream",
    "wire",
];

/// Types that several threads may write, and our own that are made of them.
const SHARED_TYPES: &[&str] = &[
    "ArcSwap",
    "ArcSwapAny",
    "ArcSwapOption",
    "Barrier",
    "Condvar",
    "Counter",
    "Gauge",
    "Histogram",
    "LazyLock",
    "Mutex",
    "Notify",
    "OnceLock",
    "ReasonCounters",
    "RwLock",
    "Semaphore",
    "SharedNumber",
];

/// How often something is written, as the list has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// Once, and read from then on.
    Once,
    OnChange,
    /// When a connection opens or ends, or a handshake is made.
    PerConnection,
    /// When something goes wrong, waits, or is looked at now and then.
    Seldom,
    /// By requests of what was configured so, and no others.
    WhereAsked,
    /// By each request, and by one worker only.
    ByItsWorker,
}

impl Written {
    const ALL: [(&'static str, Written); 6] = [
        ("once", Written::Once),
        ("on a change", Written::OnChange),
        ("per connection", Written::PerConnection),
        ("seldom", Written::Seldom),
        ("where asked", Written::WhereAsked),
        ("by its worker", Written::ByItsWorker),
    ];

    fn of(cell: &str) -> Option<Written> {
        Written::ALL.iter().find(|(words, _)| *words == cell).map(|(_, written)| *written)
    }
}

/// An item of a file that holds something shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedItem {
    path: String,
    name: String,
    line: usize,
    /// Aligned so that nothing of another is on its cache lines.
    is_apart: bool,
}

/// What a file declares outside its tests.
pub fn items(source: &Source) -> Vec<SharedItem> {
    let is_on_the_way = CRATES.iter().any(|name| source.path.starts_with(&format!("crates/{name}/src/")));
    if !is_on_the_way || is_test(source.path) {
        return Vec::new();
    }
    let mut found = ItemsOfFile { path: source.path, items: Vec::new() };
    found.visit_file(&source.file);
    found.items
}

/// Items without a row, rows without an item, and rows that say what is not so.
pub fn check(repository: &Repository, items: &[SharedItem]) -> Vec<Finding> {
    check_list(repository.text(LIST).unwrap_or_default(), items)
}

fn check_list(list: &str, items: &[SharedItem]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rows: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
    for (index, line) in list.lines().enumerate() {
        let Some(cells) = line.strip_prefix("| `").and_then(|rest| rest.strip_suffix(" |")) else { continue };
        let cells: Vec<&str> = cells.split(" | ").collect();
        let place = cells[0].trim_end_matches('`');
        if rows.insert(place.to_owned(), (index + 1, cells)).is_some() {
            findings.push(Finding::at(LIST, index + 1, RULE, format!("`{place}` has two rows")));
        }
    }
    for item in items {
        let place = format!("{} {}", item.path.trim_start_matches("crates/"), item.name);
        match rows.remove(&place) {
            None => {
                let message = format!("{LIST} does not say who writes it, and how often: add a row `{place}`");
                findings.push(Finding::at(&item.path, item.line, RULE, message));
            }
            Some((line, cells)) => findings.extend(check_row(item, line, &cells)),
        }
    }
    findings.extend(
        rows.into_iter()
            .map(|(place, (line, _))| Finding::at(LIST, line, RULE, format!("nothing shared is declared as `{place}`"))),
    );
    findings
}

fn check_row(item: &SharedItem, line: usize, cells: &[&str]) -> Option<Finding> {
    let at = |message: String| Some(Finding::at(LIST, line, RULE, message));
    let [_, written, who] = cells else { return at("a row has a place, how often it is written, and by whom".to_owned()) };
    match Written::of(written) {
        None => {
            let known: Vec<&str> = Written::ALL.iter().map(|(words, _)| *words).collect();
            at(format!("`{written}` is none of: {}", known.join(", ")))
        }
        // What is a part of something stands apart with it.
        Some(Written::ByItsWorker) if !item.is_apart && !who.starts_with("a part of `") => at(format!(
            "each request writes `{}`: give it `#[repr(align(128))]`, or say which type it is \"a part of\"",
            item.name
        )),
        Some(Written::ByItsWorker | Written::Once | Written::OnChange | Written::PerConnection) => None,
        Some(Written::Seldom | Written::WhereAsked) => None,
    }
}

struct ItemsOfFile<'a> {
    path: &'a str,
    items: Vec<SharedItem>,
}

impl ItemsOfFile<'_> {
    fn note(&mut self, name: &syn::Ident, attributes: &[syn::Attribute], is_shared: bool) {
        if is_shared {
            let is_apart = attributes.iter().any(|attribute| {
                let argument = attribute.parse_args::<proc_macro2::TokenStream>();
                attribute.path().is_ident("repr") && argument.is_ok_and(|argument| argument.to_string().contains("align (128)"))
            });
            let (path, line) = (self.path.to_owned(), name.span().start().line);
            self.items.push(SharedItem { path, name: name.to_string(), line, is_apart });
        }
    }
}

impl<'ast> Visit<'ast> for ItemsOfFile<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let is_shared = item.fields.iter().any(|field| is_shared(&field.ty));
        self.note(&item.ident, &item.attrs, is_shared);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let is_shared = item.variants.iter().flat_map(|variant| &variant.fields).any(|field| is_shared(&field.ty));
        self.note(&item.ident, &item.attrs, is_shared);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.note(&item.ident, &item.attrs, is_shared(&item.ty));
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.note(&item.ident, &item.attrs, is_shared(&item.ty));
    }

    /// What a test declares no request reaches.
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|argument| argument == "test")
        });
        if !is_test {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Whether the type itself is or holds something shared; what it only refers to is its owner's.
fn is_shared(declared: &syn::Type) -> bool {
    struct Names(bool);
    impl<'ast> Visit<'ast> for Names {
        fn visit_path_segment(&mut self, segment: &'ast syn::PathSegment) {
            let name = segment.ident.to_string();
            self.0 |= SHARED_TYPES.contains(&name.as_str()) || name.starts_with("Atomic");
            visit::visit_path_segment(self, segment);
        }

        fn visit_type_reference(&mut self, _: &'ast syn::TypeReference) {}

        fn visit_type_bare_fn(&mut self, _: &'ast syn::TypeBareFn) {}
    }
    let mut names = Names(false);
    names.visit_type(declared);
    names.0
}

#[cfg(test)]
mod tests {
    use super::{SharedItem, check_list, items};
    use crate::tidy::source::Source;

    fn found(path: &str, text: &str) -> Vec<SharedItem> {
        items(&Source::parse(path, text).expect("valid Rust"))
    }

    #[test]
    fn what_threads_share_is_found_wherever_it_is_declared() {
        let check = |text: &str, expected: &[(&str, bool)]| {
            let seen = found("crates/proxy/src/a.rs", text);
            let seen: Vec<_> = seen.iter().map(|item| (item.name.as_str(), item.is_apart)).collect();
            assert_eq!(seen, expected, "for {text:?}");
        };
        check("struct A { x: u8 }", &[]);
        check("struct A { x: std::sync::Mutex<u8> }", &[("A", false)]);
        check("struct A(Arc<[AtomicU64; 4]>);", &[("A", false)]);
        check("#[repr(align(128))] struct A { x: Counter }", &[("A", true)]);
        check("#[repr(align(64))] struct A { x: Counter }", &[("A", false)]);
        check("enum A { B(u8), C { lock: parking_lot::RwLock<()> } }", &[("A", false)]);
        check("pub type A = ArcSwap<B>;", &[("A", false)]);
        check("fn f() { static ONCE: OnceLock<u8> = OnceLock::new(); }", &[("ONCE", false)]);
        check("struct A<'a> { x: &'a AtomicU64 } fn f(x: &Mutex<u8>) {}", &[]);
        check("#[cfg(test)] mod tests { struct A(Mutex<u8>); }", &[]);
        assert!(found("crates/admin/src/a.rs", "struct A(Mutex<u8>);").is_empty());
        assert!(found("crates/proxy/src/tests.rs", "struct A(Mutex<u8>);").is_empty());
    }

    #[test]
    fn each_has_a_row_that_is_true() {
        let plain = "struct A(Mutex<u8>);";
        let apart = "#[repr(align(128))] struct A(Counter);";
        let check = |text: &str, list: &str, expected: &[&str]| {
            let findings = check_list(list, &found("crates/proxy/src/a.rs", text));
            assert_eq!(findings.len(), expected.len(), "{list}: {findings:?}");
            for (finding, words) in findings.iter().zip(expected) {
                assert!(finding.message.contains(words), "{finding}");
            }
        };
        check(plain, "| `proxy/src/a.rs A` | on a change | the control thread |", &[]);
        check(plain, "", &["does not say who writes it"]);
        check("", "| `proxy/src/a.rs A` | on a change | the control thread |", &["nothing shared is declared"]);
        check(plain, "| `proxy/src/a.rs A` | often | everybody |", &["is none of"]);
        check(plain, "| `proxy/src/a.rs A` | on a change |", &["a row has"]);
        check(plain, "| `proxy/src/a.rs A` | by its worker | a worker |", &["align(128)"]);
        check(plain, "| `proxy/src/a.rs A` | by its worker | a part of `B` |", &[]);
        check(apart, "| `proxy/src/a.rs A` | by its worker | a worker |", &[]);
        let twice = "| `proxy/src/a.rs A` | once | x |\n| `proxy/src/a.rs A` | once | x |";
        check(plain, twice, &["has two rows"]);
    }
}
