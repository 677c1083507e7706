//! Words that say nothing about what a thing is: managers, helpers, utilities, `Impl`, `get_`.
//! Only names that are declared count; what a foreign trait or library calls its things is not ours to choose.

use super::allow::{AllowList, NAME};
use super::source::Source;
use crate::finding::Finding;
use syn::visit::{self, Visit};

const BANNED_WORDS: &[&str] = &["manager", "managers", "helper", "helpers", "util", "utils"];

pub fn check(source: &Source, allow: &AllowList) -> Vec<Finding> {
    let mut declared = Declared { faults: Vec::new() };
    declared.visit_file(&source.file);
    let unexcused = declared.faults.into_iter().filter(|fault| !allow.permits(NAME, &format!("{}::{}", source.path, fault.name)));
    unexcused.map(|fault| Finding::at(source.path, fault.line, NAME, format!("`{}`: {}", fault.name, fault.why))).collect()
}

struct Declared {
    faults: Vec<Fault>,
}

struct Fault {
    name: String,
    line: usize,
    why: String,
}

impl Declared {
    fn any(&mut self, name: &syn::Ident) {
        let text = name.to_string();
        if let Some(word) = words(&text).iter().find(|word| BANNED_WORDS.contains(&word.as_str())) {
            self.fault(name, format!("`{word}` does not say what it does"));
        }
    }

    fn type_name(&mut self, name: &syn::Ident) {
        self.any(name);
        let words = words(&name.to_string());
        if words.len() > 1 && words.last().is_some_and(|word| word == "impl") {
            self.fault(name, "`Impl` says only that there is an interface; say which kind it is".into());
        }
    }

    fn function(&mut self, name: &syn::Ident) {
        self.any(name);
        if name.to_string().starts_with("get_") {
            self.fault(name, "a function that returns a thing is named after the thing, without `get_`".into());
        }
    }

    fn fault(&mut self, name: &syn::Ident, why: String) {
        self.faults.push(Fault { name: name.to_string(), line: name.span().start().line, why });
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.type_name(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.any(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.any(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.any(&item.ident);
        visit::visit_item_static(self, item);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.any(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.any(name);
        }
        visit::visit_field(self, field);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        // The names in `impl Trait for Type` are the trait's.
        if item.trait_.is_none() {
            for member in &item.items {
                if let syn::ImplItem::Fn(function) = member {
                    self.function(&function.sig.ident);
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.function(&function.sig.ident);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.function(&function.sig.ident);
        visit::visit_item_fn(self, function);
    }
}

/// The words of `SnakeOrCamel` and `snake_or_camel`, in lower case; `HTTPHead` is two words.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (position, letter) in letters.iter().enumerate() {
        let before = position.checked_sub(1).map(|before| letters[before]);
        let after = letters.get(position + 1);
        let follows_lower = before.is_some_and(|before| !before.is_uppercase());
        let leads_lower = after.is_some_and(|after| after.is_lowercase());
        if *letter == '_' || (letter.is_uppercase() && (follows_lower || leads_lower)) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| *letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::{AllowList, Source, check, words};

    fn check_names(text: &str, expected: &[&str]) {
        let source = Source::parse("a.rs", text).expect("valid Rust");
        let findings = check(&source, &AllowList::default());
        let seen: Vec<&str> = findings.iter().map(|finding| finding.message.split(':').next().unwrap_or_default()).collect();
        assert_eq!(seen, expected, "for {text:?}");
    }

    #[test]
    fn words_that_say_nothing_are_found_where_they_are_declared() {
        check_names("struct PoolManager;", &["`PoolManager`"]);
        check_names("enum Helper { A }", &["`Helper`"]);
        check_names("mod utils {}", &["`utils`"]);
        check_names("struct A { socket_manager: u8 }", &["`socket_manager`"]);
        check_names("enum A { UtilB }", &["`UtilB`"]);
        check_names("fn check_helper() {}", &["`check_helper`"]);
        check_names("const POOL_MANAGER: u8 = 1;", &["`POOL_MANAGER`"]);
        check_names("use a::FileManager; fn f(manager: FileManager) {}", &[]);
        check_names("struct Utility; struct Management; fn future() {}", &[]);
    }

    #[test]
    fn impl_is_no_suffix_and_get_no_prefix() {
        check_names("struct StoreImpl; trait AImpl {} type BImpl = u8;", &["`StoreImpl`", "`AImpl`", "`BImpl`"]);
        check_names("struct Impl; struct Simple; struct Implied;", &[]);
        check_names("fn get_host() {}", &["`get_host`"]);
        check_names("impl A { fn get_host(&self) {} fn get(&self) {} fn target(&self) {} }", &["`get_host`"]);
        check_names("trait A { fn get_host(&self); }", &["`get_host`"]);
        check_names("impl Foreign for A { fn get_host(&self) {} }", &[]);
    }

    #[test]
    fn names_fall_into_words() {
        let check = |name: &str, expected: &[&str]| assert_eq!(words(name), expected, "for {name}");
        check("PoolName", &["pool", "name"]);
        check("HTTPHead", &["http", "head"]);
        check("AImpl", &["a", "impl"]);
        check("H2Stream", &["h2", "stream"]);
        check("body_bytes_max", &["body", "bytes", "max"]);
        check("__A", &["a"]);
        check("POOL_NAME", &["pool", "name"]);
    }

    #[test]
    fn an_exception_names_the_file_and_the_thing() {
        let source = Source::parse("a.rs", "fn get_random() {}").expect("valid Rust");
        let (allow, _) = AllowList::parse("allow.txt", "name a.rs::get_random the system call has that name");
        assert!(check(&source, &allow).is_empty());
    }
}
