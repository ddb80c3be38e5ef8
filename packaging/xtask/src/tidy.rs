//! `cargo xtask tidy`: the shape of the source as rules.
//!
//! [`tree::Tree`] reads the files once; each rule is a pure function from the tree (and the edges
//! between packages) to findings, and has a test that sees it red. The last test of this file runs
//! all rules on this very checkout.

use anyhow::{Result, bail};
use clap::Args;

use crate::places::Places;
use crate::say;
use crate::tidy::layers::Edge;
use crate::tidy::tree::Tree;

mod actions;
mod bans;
mod cycles;
mod danger;
mod documents;
mod headers;
pub(crate) mod hostile;
mod layers;
mod links;
mod logging;
mod sizes;
mod toplevel;
pub(crate) mod tree;
mod window;
mod words;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, from the top of the repository.
    path: String,
    /// Line, from 1; 0 when the whole file is meant.
    line: usize,
    /// The rule.
    rule: &'static str,
    /// What is wrong and what to do.
    sentence: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, sentence: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, sentence: sentence.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.sentence, self.rule)
    }
}

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct TidyOptions {
    /// Check nothing; list the modules, lines and import cycles of every crate
    #[arg(long)]
    cycles: bool,
}

/// `cargo xtask tidy`.
pub(crate) fn command(places: &Places, options: &TidyOptions) -> Result<()> {
    if options.cycles {
        cycles::list(&Tree::read(places)?);
        return Ok(());
    }
    run(places)
}

/// Runs all rules and says what they found.
pub(crate) fn run(places: &Places) -> Result<()> {
    let findings = check(places)?;
    for finding in &findings {
        say::line(&finding.to_string());
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    say::line("tidy: nothing to say");
    Ok(())
}

fn check(places: &Places) -> Result<Vec<Finding>> {
    let tree = Tree::read(places)?;
    let edges = layers::edges(places)?;
    Ok(findings(&tree, &edges))
}

fn findings(tree: &Tree, edges: &[Edge]) -> Vec<Finding> {
    let mut findings = [
        layers::check(edges),
        cycles::check(tree),
        sizes::check(tree),
        headers::check(tree),
        bans::check(tree),
        danger::check(tree),
        words::check(tree),
        logging::check(tree),
        toplevel::check(tree),
        documents::check(tree),
        links::check(tree),
        window::check(tree),
        actions::check(tree),
        hostile::check(tree),
    ]
    .concat();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&Places::find().unwrap()).unwrap();
        let list = findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n");
        assert!(findings.is_empty(), "{} findings:\n{list}", findings.len());
    }
}
