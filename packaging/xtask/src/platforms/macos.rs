//! macOS from Linux: the Rust code is checked, C parts are compiled by zig.
//!
//! zig comes as a Python package into an environment of its own. Cargo's build scripts call the
//! compiler with Apple's flags, which zig does not know; small wrapper scripts drop those.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::platforms::{Attempt, Crossing};
use crate::setup::python;

const TRIPLE: &str = "aarch64-apple-darwin";
/// The Python package that holds zig, pinned.
const REQUIREMENTS: &str = "ziglang==0.16.0\n";

/// Checks everything but the tray app.
pub(crate) fn attempts(crossing: &Crossing<'_>, attempts: &mut Vec<Attempt>) {
    attempts.push(Attempt::of("macOS: everything but the tray app", true, || check(crossing)));
}

fn check(crossing: &Crossing<'_>) -> Result<String> {
    crossing.ensure_target(TRIPLE)?;
    let interpreter = python::environment_of(crossing.places, "zig", REQUIREMENTS)?;
    let wrappers = crossing.places.made("platforms/zig")?;
    let cc = write_script(&wrappers, "cc", &compiler_script(&interpreter, "cc"))?;
    let cxx = write_script(&wrappers, "c++", &compiler_script(&interpreter, "c++"))?;
    let ar = write_script(&wrappers, "ar", &archiver_script(&interpreter))?;
    crossing
        .cargo()
        .args(["check", "--target", TRIPLE])
        .args(crossing.selection())
        .env("CC_aarch64_apple_darwin", cc)
        .env("CXX_aarch64_apple_darwin", cxx)
        .env("AR_aarch64_apple_darwin", ar)
        .run()?;
    Ok("checked, not linked".to_owned())
}

fn compiler_script(interpreter: &Path, language: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Apple's flags that zig does not know are dropped; the system is named zig's way.\n\
         set -eu\n\
         for word do\n\
         \x20   shift\n\
         \x20   case \"${{skip:-}}$word\" in\n\
         \x20       --target=*|-mmacosx-version-min=*) ;;\n\
         \x20       -arch) skip=1 ;;\n\
         \x20       1*) skip= ;;\n\
         \x20       *) set -- \"$@\" \"$word\" ;;\n\
         \x20   esac\n\
         done\n\
         exec '{}' -m ziglang {language} -target aarch64-macos \"$@\"\n",
        interpreter.display()
    )
}

fn archiver_script(interpreter: &Path) -> String {
    format!("#!/bin/sh\nexec '{}' -m ziglang ar \"$@\"\n", interpreter.display())
}

fn write_script(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let script = folder.join(name);
    std::fs::write(&script, text)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    }
    Ok(script)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::process::Program;

    #[test]
    fn the_wrapper_drops_the_flags_that_zig_does_not_know() {
        let folder = std::env::temp_dir().join(format!("inglenook-wrapper-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let echo = write_script(&folder, "echo", "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
        let cc = write_script(&folder, "cc", &compiler_script(&echo, "cc")).unwrap();
        let args = ["--target=arm64-apple-macosx", "-arch", "arm64", "-c", "a b.c", "-O2"];
        let said = Program::new(cc, &folder)
            .args(args)
            .args(["-mmacosx-version-min=11.0"])
            .output()
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(said, "<-m><ziglang><cc><-target><aarch64-macos><-c><a b.c><-O2>");
    }
}
