//! Where things lie: the repository and the one target folder.
//!
//! Everything that xtask makes (Python environment, tools, cross builds, test output) goes under
//! the target folder, so that one cached folder makes the next run fast and deleting it undoes all.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::outside;

/// The folders of one checkout.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
}

impl Places {
    /// The checkout that this xtask belongs to.
    pub(crate) fn find() -> Result<Self> {
        // `cargo run` sets the variable; the compiled-in folder serves a binary started by hand.
        let manifest = outside::variable("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .join("../..")
            .canonicalize()
            .with_context(|| format!("no repository around {}", manifest.display()))?;
        let target = match outside::variable("CARGO_TARGET_DIR") {
            Some(folder) => std::path::absolute(folder)?,
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// The window's pages.
    pub(crate) fn ui(&self) -> PathBuf {
        self.root.join("ui")
    }

    /// The tests that are written in Python.
    pub(crate) fn python_tests(&self) -> PathBuf {
        self.root.join("tests/python")
    }

    /// The tests that are written for Node.
    pub(crate) fn node_tests(&self) -> PathBuf {
        self.root.join("tests/node")
    }

    /// A folder under the target folder, made when missing.
    pub(crate) fn made(&self, inside: impl AsRef<Path>) -> Result<PathBuf> {
        let folder = self.target.join(inside);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }
}
