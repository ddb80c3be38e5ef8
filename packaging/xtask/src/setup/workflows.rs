//! Checks of the definitions that a public forge reads: their form, and what a stranger could do
//! through them. Both programs come as Python packages and ask no server.

use anyhow::{Context as _, Result};

use crate::places::Places;
use crate::process::Program;
use crate::setup::python;

/// check-jsonschema holds the files against the schema that it brings; zizmor looks for holes.
const REQUIREMENTS: &str = "\
attrs==26.1.0
certifi==2026.10.18
charset-normalizer==3.5.3
check-jsonschema==0.39.0
click==8.5.1
idna==3.20
jsonschema==4.26.0
jsonschema-specifications==2025.9.1
referencing==0.37.0
regress==2026.9.1
requests==2.34.2
rpds-py==2026.9.1
ruamel.yaml==0.19.1
typing_extensions==4.16.0
urllib3==2.8.0
zizmor==1.32.0
";

/// Where the definitions lie.
const FOLDER: &str = ".github/workflows";

/// Holds every definition against both; returns how many there are.
pub(crate) fn check(places: &Places) -> Result<usize> {
    let interpreter = python::environment_of(places, "workflows", REQUIREMENTS)?;
    let tool = |name| Program::new(python::program(&interpreter, name), &places.root);
    let folder = places.root.join(FOLDER);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        files.push(entry?.path());
    }
    files.sort();
    tool("check-jsonschema")
        .args(["--builtin-schema", "vendor.github-workflows"])
        .args(&files)
        .test()?;
    tool("zizmor")
        .args(["--offline", "--no-progress", "--persona", "regular"])
        .args(&files)
        .test()?;
    Ok(files.len())
}
