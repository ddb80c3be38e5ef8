//! Import cycles between the modules of one crate.
//!
//! Module `a` uses module `b` when code of `a` outside tests names something that `b` defines: in a
//! `use`, a type, an expression, a pattern or the tokens of a macro call. Names are followed
//! through re-exports to the file that defines them, so `use crate::Name` is a use of that file,
//! not of `lib.rs`. A module that only declares children and re-exports what they define does not
//! use them by that alone. An inline `mod` belongs to its file.
//!
//! The rule looks at one level at a time: at the modules that one parent declares, each with all
//! that it contains. The root file of a crate is one more module of its level; deeper down, a
//! parent and its children may use each other as they like. Modules of one level that use each
//! other, directly or around others, are one cycle (a strongly connected component).
//!
//! Methods are not followed: `state.open()` counts through the import of its type, not through the
//! file of the `impl` block.

use std::collections::{BTreeMap, BTreeSet};

use crate::say;
use crate::tidy::Finding;
use crate::tidy::tree::Tree;

mod modules;
mod paths;

const RULE: &str = "cycles";

/// Modules of one level that may use each other in a circle.
const CYCLE_MODULES_MAX: usize = 3;

/// A file that is a module.
#[derive(Debug)]
struct Module {
    file: String,
    lines: usize,
    /// The file that declares it; `None` for the root of a target.
    parent: Option<usize>,
}

/// The modules of a package and how they use each other.
#[derive(Debug)]
struct Package {
    folder: String,
    modules: Vec<Module>,
    uses: Uses,
}

/// Who uses whom, by their place in [`Package::modules`], and where that is seen first.
type Uses = BTreeMap<(usize, usize), Place>;

/// A line of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    module: usize,
    line: usize,
}

/// The modules that one parent declares, with the uses between them and what they contain.
#[derive(Debug)]
struct Level {
    /// Whether it is that of a crate's root.
    is_top: bool,
    modules: BTreeSet<usize>,
    uses: Uses,
}

/// Modules of one level that reach each other.
type Cycle = Vec<usize>;

/// Cycles that are too large, and exceptions that are not exact.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let packages = packages(tree);
    let mut findings = Vec::new();
    for package in &packages {
        for level in package.levels() {
            let cycles = cycles(&level.modules, &level.uses).into_iter();
            let too_long = cycles.filter(|cycle| cycle.len() > CYCLE_MODULES_MAX);
            findings.extend(too_long.map(|cycle| too_large(package, &level, &cycle)));
        }
    }
    findings
}

fn too_large(package: &Package, level: &Level, cycle: &Cycle) -> Finding {
    let circle = shortest_circle(cycle[0], &level.uses);
    let steps = circle.iter().map(|&at| package.short_name(at)).collect::<Vec<_>>().join(" → ");
    let sentence = format!(
        "{} modules use each other in a circle, at most {CYCLE_MODULES_MAX}; one way round: {steps} \
         (`cargo xtask tidy --cycles` lists all)",
        cycle.len()
    );
    Finding::new(RULE, &package.modules[cycle[0]].file, 0, sentence)
}

/// `cargo xtask tidy --cycles`: the figures of every crate, and the modules of every cycle that is
/// larger than the rule allows.
pub(crate) fn list(tree: &Tree) {
    say::line(HEADING);
    say::line("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let packages = packages(tree);
    for package in packages.iter().filter(|package| !package.modules.is_empty()) {
        say::line(&package.row());
    }
    for package in &packages {
        for level in package.levels() {
            for cycle in cycles(&level.modules, &level.uses) {
                if cycle.len() > CYCLE_MODULES_MAX {
                    say::line(&format!("\n{}: {} modules", package.folder, cycle.len()));
                    package.uses_within(&level, &cycle).iter().for_each(|line| say::line(line));
                }
            }
        }
    }
}

const HEADING: &str = "| crate | files | lines | modules at the top | largest cycle there | its lines \
                       | largest cycle at any level | largest cycle of single files |";

impl Package {
    fn short_name(&self, at: usize) -> &str {
        let file = &self.modules[at].file;
        file.strip_prefix(&format!("{}/src/", self.folder)).unwrap_or(file)
    }

    /// The module itself, what declares it, what declares that, up to the root.
    fn ancestry(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(at), |&at| self.modules[at].parent)
    }

    fn levels(&self) -> Vec<Level> {
        (0..self.modules.len()).map(|parent| self.level(parent)).collect()
    }

    /// The level of the modules that `parent` declares.
    fn level(&self, parent: usize) -> Level {
        let is_top = self.modules[parent].parent.is_none();
        let member = |at: usize| {
            let is_root = (is_top && at == parent).then_some(at);
            is_root
                .or_else(|| self.ancestry(at).find(|&up| self.modules[up].parent == Some(parent)))
        };
        let mut uses = Uses::new();
        for (&(from, to), &place) in &self.uses {
            if let (Some(from), Some(to)) = (member(from), member(to)) {
                add_use(&mut uses, (from, to), place);
            }
        }
        Level { is_top, modules: (0..self.modules.len()).filter_map(member).collect(), uses }
    }

    fn row(&self) -> String {
        let all_lines = self.modules.iter().map(|module| module.lines).sum::<usize>();
        let levels = self.levels();
        let top = levels.iter().filter(|level| level.is_top);
        let top_modules = top.clone().map(|level| level.modules.len()).sum::<usize>();
        let largest_of = |level: &Level| cycles(&level.modules, &level.uses).into_iter().next();
        let largest_top = top.filter_map(largest_of).max_by_key(Vec::len).unwrap_or_default();
        // A root is a module beside those that it declares, not around them.
        let inside = (0..self.modules.len()).filter(|&at| match self.modules[at].parent {
            None => largest_top.contains(&at),
            Some(_) => self
                .ancestry(at)
                .any(|up| largest_top.contains(&up) && self.modules[up].parent.is_some()),
        });
        let top_lines = inside.map(|at| self.modules[at].lines).sum::<usize>();
        let anywhere = levels.iter().filter_map(largest_of).map(|it| it.len()).max().unwrap_or(0);
        let files = cycles(&(0..self.modules.len()).collect(), &self.uses);
        let files = files.first().map_or(0, Vec::len);
        format!(
            "| {} | {} | {all_lines} | {top_modules} | {} | {top_lines} | {anywhere} | {files} |",
            self.folder,
            self.modules.len(),
            largest_top.len(),
        )
    }

    /// For each module of a cycle, which others of it it uses and where.
    fn uses_within(&self, level: &Level, cycle: &Cycle) -> Vec<String> {
        let told = |&from: &usize| {
            let used = used_by(from, &level.uses).filter(|(to, _)| cycle.contains(to));
            let used = used.map(|(to, place)| {
                let (to, user) = (self.short_name(to), self.short_name(place.module));
                format!("{to} ({user}:{})", place.line)
            });
            format!("  {} uses {}", self.short_name(from), used.collect::<Vec<_>>().join(", "))
        };
        cycle.iter().map(told).collect()
    }
}

fn add_use(uses: &mut Uses, edge: (usize, usize), place: Place) {
    if edge.0 != edge.1 {
        let first = uses.entry(edge).or_insert(place);
        *first = place.min(*first);
    }
}

/// Every package of the tree with its targets under `src/`.
fn packages(tree: &Tree) -> Vec<Package> {
    let manifests = tree.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    manifests.map(|folder| package(tree, folder)).collect()
}

fn package(tree: &Tree, folder: &str) -> Package {
    let mut package = Package { folder: folder.to_owned(), modules: Vec::new(), uses: Uses::new() };
    let roots = tree.files.iter().filter(|file| is_root(&file.path, folder));
    for root in roots {
        add_target(&mut package, &modules::read(tree, &root.path));
    }
    package
}

/// Adds the modules of one target. An inline module is a part of its file.
fn add_target(package: &mut Package, modules: &[modules::Module]) {
    let mut of_file = BTreeMap::new();
    let mut places: Vec<usize> = Vec::new();
    for module in modules {
        let place = *of_file.entry(&module.file).or_insert_with(|| {
            let parent = module.parent.map(|parent| places[parent]);
            package.modules.push(Module { file: module.file.clone(), lines: 0, parent });
            package.modules.len() - 1
        });
        package.modules[place].lines += module.lines;
        places.push(place);
    }
    for ((from, to), line) in paths::uses(modules) {
        let (module, to) = (places[from], places[to]);
        add_use(&mut package.uses, (module, to), Place { module, line });
    }
}

/// Whether a target of the package in `folder` begins with this file.
fn is_root(path: &str, folder: &str) -> bool {
    let inside = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix("/src/"));
    inside.is_some_and(|inside| match inside.strip_prefix("bin/") {
        Some(program) => match program.split_once('/') {
            Some((_, file)) => file == "main.rs",
            None => program.ends_with(".rs"),
        },
        None => matches!(inside, "lib.rs" | "main.rs"),
    })
}

/// Sets of at least two that reach each other, the largest first.
fn cycles(modules: &BTreeSet<usize>, uses: &Uses) -> Vec<Cycle> {
    let reach: BTreeMap<usize, BTreeSet<usize>> =
        modules.iter().map(|&from| (from, reached(from, uses))).collect();
    let mut placed = BTreeSet::new();
    let mut cycles = Vec::new();
    for (at, reached) in &reach {
        let cycle = reached.iter().copied().filter(|to| reach[to].contains(at));
        let cycle = cycle.collect::<Cycle>();
        if cycle.len() > 1 && !placed.contains(at) {
            placed.extend(cycle.iter().copied());
            cycles.push(cycle);
        }
    }
    cycles.sort_by_key(|cycle| std::cmp::Reverse(cycle.len()));
    cycles
}

/// All that `from` uses, directly or around others.
fn reached(from: usize, uses: &Uses) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(used_by(at, uses).map(|(to, _)| to).filter(|&to| reached.insert(to)));
    }
    reached
}

fn used_by(from: usize, uses: &Uses) -> impl Iterator<Item = (usize, Place)> {
    uses.range((from, 0)..=(from, usize::MAX)).map(|(&(_, to), &place)| (to, place))
}

/// A shortest way from `start` back to itself.
fn shortest_circle(start: usize, uses: &Uses) -> Vec<usize> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for (to, _) in way.last().into_iter().flat_map(|&last| used_by(last, uses)) {
                let way = [way.as_slice(), &[to]].concat();
                if to == start {
                    return way;
                }
                if seen.insert(to) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    vec![start]
}

#[cfg(test)]
mod tests;
