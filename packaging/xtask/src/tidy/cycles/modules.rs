//! The modules of a crate as its files declare them, and the paths that each one writes.
//!
//! [`read`] starts at the root file of a target and follows every `mod child;`. Items behind
//! `#[cfg(test)]` or `#[test]` are left out. What the paths mean is found by [`super::paths`].

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::tidy::sizes::{is_for_tests, lines_without_tests};
use crate::tidy::tree::Tree;

/// One module of a target. An inline `mod name { … }` has an entry of its own and shares the
/// file of the module around it.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Its file.
    pub(super) file: String,
    /// Lines of that file without tests; 0 for an inline module.
    pub(super) lines: usize,
    /// The module around it; `None` for the root of a target.
    pub(super) parent: Option<usize>,
    /// Modules that it declares, by name. `#[cfg]` may give one name to several files.
    pub(super) children: BTreeMap<String, Vec<usize>>,
    /// Names of the items that it defines itself.
    pub(super) items: BTreeSet<String>,
    /// Its `use` declarations, one for each leaf.
    pub(super) imports: Vec<Import>,
    /// All other paths in its code.
    pub(super) mentions: Vec<Mention>,
}

/// One leaf of a `use` declaration.
#[derive(Debug)]
pub(super) struct Import {
    /// The name that it gives to the module; `None` for `*` and `as _`.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
    pub(super) kind: ImportKind,
    pub(super) line: usize,
}

/// What a `use` declaration does with the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImportKind {
    /// `use a::b;`: for this module's own code.
    Private,
    /// `pub use a::b;`, also with a restricted visibility: for others.
    Reexport,
    /// `use a::*;`, of any visibility.
    Glob,
}

/// A path in an expression, a type, a pattern or the tokens of a macro call.
#[derive(Debug)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// The modules of the target whose root file is `root`; the root is the first.
pub(super) fn read(tree: &Tree, root: &str) -> Vec<Module> {
    let mut modules = Vec::new();
    read_file(tree, root, Owner::Root, &mut modules);
    modules
}

/// Who declares a module.
#[derive(Debug, Clone, Copy)]
enum Owner {
    Root,
    Module(usize),
}

fn read_file(tree: &Tree, path: &str, owner: Owner, modules: &mut Vec<Module>) -> Option<usize> {
    let file = tree.files.iter().find(|file| file.path == path)?;
    let rust = file.rust()?;
    let parent = match owner {
        Owner::Root => None,
        Owner::Module(parent) => Some(parent),
    };
    let lines = lines_without_tests(file, rust);
    let at = modules.len();
    modules.push(Module { file: path.to_owned(), lines, parent, ..Module::default() });
    let folder = match owner {
        Owner::Root => folder_of(path).to_owned(),
        Owner::Module(_) => path.trim_end_matches("/mod.rs").trim_end_matches(".rs").to_owned(),
    };
    read_items(tree, &rust.items, &folder, at, modules);
    Some(at)
}

/// Reads what a module holds; the files of its children lie in `folder`.
fn read_items(
    tree: &Tree,
    items: &[syn::Item],
    folder: &str,
    at: usize,
    modules: &mut Vec<Module>,
) {
    for item in items.iter().filter(|item| !is_test_item(item)) {
        let syn::Item::Mod(declared) = item else {
            Collector(&mut modules[at]).visit_item(item);
            continue;
        };
        let name = declared.ident.unraw().to_string();
        let inside = format!("{folder}/{name}");
        let child = if let Some((_, items)) = &declared.content {
            let child = modules.len();
            let file = modules[at].file.clone();
            modules.push(Module { file, parent: Some(at), ..Module::default() });
            read_items(tree, items, &inside, child, modules);
            Some(child)
        } else {
            let around = folder_of(&modules[at].file);
            let named = path_attribute(&declared.attrs).map(|path| format!("{around}/{path}"));
            let files = [named, Some(format!("{inside}.rs")), Some(format!("{inside}/mod.rs"))];
            files
                .iter()
                .flatten()
                .find_map(|file| read_file(tree, file, Owner::Module(at), modules))
        };
        modules[at].children.entry(name).or_default().extend(child);
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

fn is_test_item(item: &syn::Item) -> bool {
    attributes_of(item).iter().any(is_for_tests)
}

fn attributes_of(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Collects names, imports and paths of one module.
struct Collector<'a>(&'a mut Module);

impl Collector<'_> {
    fn define(&mut self, name: &syn::Ident) {
        self.0.items.insert(name.unraw().to_string());
    }

    fn mention(&mut self, path: Vec<String>, line: usize) {
        self.0.mentions.push(Mention { path, line });
    }

    /// Every `a::b` in the tokens of a macro call. A name after a dot is a field or a method.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens = tokens.into_iter().collect::<Vec<_>>();
        let is = |at: usize, sign: char| matches!(tokens.get(at), Some(TokenTree::Punct(it)) if it.as_char() == sign);
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Ident(first) if at == 0 || !is(at - 1, '.') => {
                    let mut path = vec![first.unraw().to_string()];
                    while is(at + 1, ':') && is(at + 2, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(at + 3) else { break };
                        path.push(next.unraw().to_string());
                        at += 3;
                    }
                    self.mention(path, first.span().start().line);
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn import(&mut self, tree: &syn::UseTree, path: &mut Vec<String>, kind: ImportKind) {
        let line = tree.span().start().line;
        let mut push = |name: Option<String>, path: &[String], kind| {
            self.0.imports.push(Import { name, path: path.to_vec(), kind, line });
        };
        match tree {
            syn::UseTree::Path(step) => {
                path.push(step.ident.unraw().to_string());
                self.import(&step.tree, path, kind);
                path.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path, kind);
                }
            }
            syn::UseTree::Glob(_) => push(None, path, ImportKind::Glob),
            syn::UseTree::Name(leaf) if leaf.ident == "self" => {
                push(path.last().cloned(), path, kind);
            }
            syn::UseTree::Name(leaf) => {
                let name = leaf.ident.unraw().to_string();
                let full = [path.as_slice(), std::slice::from_ref(&name)].concat();
                push(Some(name), &full, kind);
            }
            syn::UseTree::Rename(leaf) => {
                let full = match leaf.ident == "self" {
                    true => path.clone(),
                    false => [path.as_slice(), &[leaf.ident.unraw().to_string()]].concat(),
                };
                let name = Some(leaf.rename.unraw().to_string()).filter(|name| name != "_");
                push(name, &full, kind);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_item(item) {
            return;
        }
        match item {
            syn::Item::Const(it) => self.define(&it.ident),
            syn::Item::Enum(it) => self.define(&it.ident),
            syn::Item::Fn(it) => self.define(&it.sig.ident),
            syn::Item::Static(it) => self.define(&it.ident),
            syn::Item::Struct(it) => self.define(&it.ident),
            syn::Item::Trait(it) => self.define(&it.ident),
            syn::Item::Type(it) => self.define(&it.ident),
            syn::Item::Union(it) => self.define(&it.ident),
            syn::Item::Macro(it) => it.ident.iter().for_each(|name| self.define(name)),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let kind = match item.vis {
            syn::Visibility::Inherited => ImportKind::Private,
            _ => ImportKind::Reexport,
        };
        self.import(&item.tree, &mut Vec::new(), kind);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.unraw().to_string());
        self.mention(names.collect(), path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.scan(call.tokens.clone());
    }

    // Neither says what the code uses.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}
