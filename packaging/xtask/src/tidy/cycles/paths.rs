//! Which modules of its own crate a module uses: what the paths that it writes lead to.
//!
//! A path is followed through `pub use` and `use`, as the compiler does, to the module that defines
//! the name. A path that leaves the crate, or whose first name is unknown (a variable, the
//! prelude), leads nowhere. A name that no file defines (an associated item, a variant, the
//! product of a macro) belongs to the last module on its way.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Import, ImportKind, Module};

/// Re-exports that a path may lead through, one behind the other.
const REEXPORTS_MAX: usize = 16;

/// The modules that each module uses, with the first line that shows it.
pub(super) type Uses = BTreeMap<(usize, usize), usize>;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The module itself.
    Module(usize),
    /// Something that this module defines.
    ItemOf(usize),
}

/// All uses within one target.
pub(super) fn uses(modules: &[Module]) -> Uses {
    let mut uses = Uses::new();
    for (from, module) in modules.iter().enumerate() {
        let mut add = |target: Target, line: usize| {
            let (Target::Module(to) | Target::ItemOf(to)) = target;
            let first = uses.entry((from, to)).or_insert(line);
            *first = line.min(*first);
        };
        for import in &module.imports {
            for target in targets(modules, from, &import.path) {
                if !hands_on_only(modules, from, import, target) {
                    add(target, import.line);
                }
            }
        }
        for mention in &module.mentions {
            for target in targets(modules, from, &mention.path) {
                // One name alone that fits a module is a variable.
                if mention.path.len() > 1 || matches!(target, Target::ItemOf(_)) {
                    add(target, mention.line);
                }
            }
        }
    }
    uses
}

/// Whether an import only offers to others what a module inside this one defines. Offering what
/// lies elsewhere is a use.
fn hands_on_only(modules: &[Module], from: usize, import: &Import, target: Target) -> bool {
    let (Target::Module(to) | Target::ItemOf(to)) = target;
    let mut around = std::iter::successors(Some(to), |&at| modules[at].parent);
    import.kind != ImportKind::Private && around.any(|at| at == from)
}

fn targets(modules: &[Module], from: usize, path: &[String]) -> BTreeSet<Target> {
    let mut search = Search { modules, found: BTreeSet::new() };
    search.follow(from, path, REEXPORTS_MAX);
    search.found
}

struct Search<'a> {
    modules: &'a [Module],
    found: BTreeSet<Target>,
}

impl Search<'_> {
    /// Follows a path as `from` writes it; whether its first name is known there.
    fn follow(&mut self, from: usize, path: &[String], left: usize) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        let parent = self.modules[from].parent;
        match first.as_str() {
            "crate" => self.walk(0, rest, left),
            "self" => self.walk(from, rest, left),
            "super" => parent.is_some_and(|parent| match rest.first() {
                Some(next) if next == "super" => self.follow(parent, rest, left),
                _ => self.walk(parent, rest, left),
            }),
            _ => self.name(from, first, rest, left),
        }
    }

    /// Follows what is left of a path inside `module`.
    fn walk(&mut self, module: usize, path: &[String], left: usize) -> bool {
        let Some((first, rest)) = path.split_first() else {
            self.found.insert(Target::Module(module));
            return true;
        };
        if !self.name(module, first, rest, left) {
            self.found.insert(Target::ItemOf(module));
        }
        true
    }

    /// Looks `name` up in `module`; whether it is there.
    fn name(&mut self, module: usize, name: &str, rest: &[String], left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else {
            return true;
        };
        let modules = self.modules;
        let about = &modules[module];
        let mut is_known = false;
        for &child in about.children.get(name).into_iter().flatten() {
            is_known = self.walk(child, rest, left);
        }
        if about.items.contains(name) {
            self.found.insert(Target::ItemOf(module));
            is_known = true;
        }
        let named = |import: &&Import| import.name.as_deref() == Some(name);
        for import in about.imports.iter().filter(named) {
            // What was imported under its own name (`use serde;`) is not looked for here again.
            if import.path.first().is_none_or(|first| first != name) || import.path.len() > 1 {
                self.follow(module, &[&import.path, rest].concat(), left);
            }
            is_known = true;
        }
        is_known || self.in_globs(module, name, rest, left)
    }

    fn in_globs(&mut self, module: usize, name: &str, rest: &[String], left: usize) -> bool {
        let modules = self.modules;
        let globs = modules[module].imports.iter().filter(|it| it.kind == ImportKind::Glob);
        for glob in globs {
            let mut behind = Search { modules, found: BTreeSet::new() };
            behind.follow(module, &glob.path, left);
            for target in behind.found {
                if let Target::Module(other) = target
                    && other != module
                    && self.name(other, name, rest, left)
                {
                    return true;
                }
            }
        }
        false
    }
}
