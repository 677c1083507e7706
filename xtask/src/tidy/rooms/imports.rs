//! What one Rust file says of modules: those it declares, the names it imports, and the paths it uses. Facts only;
//! `module_tree` says where they lead. What is compiled for tests alone does not count.

use crate::tidy::source::{Source, is_test_only};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// A path as it is written: `["crate", "pool", "Server"]`.
pub type Path = Vec<String>;

#[derive(Debug)]
pub struct FileFacts {
    /// From the root of the repository.
    pub path: String,
    pub lines: usize,
    /// The file itself under the empty path, and its inline modules under theirs.
    pub scopes: BTreeMap<Path, Scope>,
}

/// One module's own names, whether it is a file or stands inline.
#[derive(Debug, Default)]
pub struct Scope {
    /// Modules that are files of their own, with the value of `#[path]`.
    pub declared: BTreeMap<String, Option<String>>,
    /// What a `use` brings, by the name that it has here.
    pub imports: BTreeMap<String, Path>,
    /// A private import counts as a use; one that is passed on (`pub use`) counts for those who go through it.
    pub uses: BTreeSet<Path>,
    /// Methods that stand in an `impl` block of their own type.
    pub methods: BTreeSet<Method>,
    /// What such methods call on `self`: a type whose methods are spread over files needs no import to close a circle.
    pub self_calls: BTreeSet<Method>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Method {
    pub of_type: String,
    pub name: String,
}

impl FileFacts {
    pub fn of(source: &Source) -> FileFacts {
        let mut walk = ImportWalk { scopes: BTreeMap::new(), inside: Vec::new(), of_type: None };
        walk.scope();
        walk.visit_file(&source.file);
        FileFacts { path: source.path.to_owned(), lines: source.text.lines().count(), scopes: walk.scopes }
    }
}

struct ImportWalk {
    scopes: BTreeMap<Path, Scope>,
    /// The inline modules around the place that is looked at.
    inside: Path,
    /// The type whose own methods are looked at.
    of_type: Option<String>,
}

impl ImportWalk {
    fn scope(&mut self) -> &mut Scope {
        self.scopes.entry(self.inside.clone()).or_default()
    }

    fn import(&mut self, tree: &syn::UseTree, mut prefix: Path, is_private: bool) {
        let leaf = |walk: &mut ImportWalk, path: Path, name: Option<String>| {
            if is_private {
                walk.scope().uses.insert(path.clone());
            }
            if let Some(name) = name {
                walk.scope().imports.insert(name, path);
            }
        };
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(&path.tree, prefix, is_private);
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().cloned();
                leaf(self, prefix, last);
            }
            syn::UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                leaf(self, prefix, Some(name.ident.to_string()));
            }
            syn::UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    prefix.push(rename.ident.to_string());
                }
                leaf(self, prefix, Some(rename.rename.to_string()));
            }
            // What a glob brings is not known by name; that the module is used is.
            syn::UseTree::Glob(_) => leaf(self, prefix, None),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix.clone(), is_private);
                }
            }
        }
    }

    /// Macros get tokens and no paths: `a::b` in them is taken for one.
    fn tokens(&mut self, stream: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in stream {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.found(std::mem::take(&mut path));
                    }
                    colons = 0;
                    path.push(ident.to_string());
                }
                other => {
                    self.found(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.found(path);
    }

    fn found(&mut self, path: Path) {
        if path.len() > 1 {
            self.scope().uses.insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for ImportWalk {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_only(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        self.of_type = if block.trait_.is_none() { name_of_type(&block.self_ty) } else { None };
        visit::visit_item_impl(self, block);
        self.of_type = None;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if is_test_only(&function.attrs) {
            return;
        }
        if let Some(of_type) = self.of_type.clone() {
            self.scope().methods.insert(Method { of_type, name: function.sig.ident.to_string() });
        }
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_on_self = matches!(&*call.receiver, syn::Expr::Path(receiver) if receiver.path.is_ident("self"));
        if let Some(of_type) = self.of_type.clone().filter(|_| is_on_self) {
            self.scope().self_calls.insert(Method { of_type, name: call.method.to_string() });
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_none() {
            self.scope().declared.insert(name, path_attribute(&module.attrs));
            return;
        }
        self.inside.push(name);
        self.scope();
        visit::visit_item_mod(self, module);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        let is_private = matches!(import.vis, syn::Visibility::Inherited);
        self.import(&import.tree, Path::new(), is_private);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Path = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.scope().uses.insert(segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        visit::visit_macro(self, called);
        self.tokens(called.tokens.clone());
    }

    /// Neither attributes nor `pub(in path)` use what they name.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        // The enum is open; the other kinds of items (unions, `extern` blocks) do not occur here.
        _ => &[],
    }
}

fn name_of_type(of: &syn::Type) -> Option<String> {
    match of {
        syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// The file that `#[path = "…"]` names.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
    match &literal.lit {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}
