//! `cargo xtask run` and `cargo xtask house`: starts the product from source.
//!
//! With a display the tray app is built and started; without one a whole household runs on this
//! machine, which shows the same walk in a terminal.

use anyhow::{Result, bail};
use clap::Args;

use crate::places::Places;
use crate::process::{Program, cargo};
use crate::setup::{self, Purpose, SetupOptions};
use crate::spent::{Meter, Spent};
use crate::{outside, say, stages};

/// File name of the command-line program.
pub(crate) const NOOK: &str = if cfg!(windows) { "nook.exe" } else { "nook" };
/// File name of the tray app.
pub(crate) const TRAY_APP: &str = if cfg!(windows) { "inglenook.exe" } else { "inglenook" };
/// What the household is asked when nobody says otherwise.
const FIRST_PROMPT: [&str; 2] = ["--prompt", "Once upon a time"];

/// How to start the product.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// Build with optimisation (slower to build, much faster to answer)
    #[arg(long)]
    release: bool,
    /// Install missing system packages without asking
    #[arg(long)]
    yes: bool,
    /// Passed on to the program that is started
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// What to ask the household.
#[derive(Debug, Args)]
pub(crate) struct NodeOptions {
    /// Passed on to `nook house`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

/// The profile of what is built to be tried once; see `Cargo.toml`.
const DEMO: &str = "demo";
/// The profile of what is shipped.
const RELEASE: &str = "release";

/// Sets up, builds, starts.
pub(crate) fn run(places: &Places, options: &RunOptions) -> Result<()> {
    let setting_up = Meter::start();
    let setup = SetupOptions { yes: options.yes };
    if !outside::has_display() {
        say::loud("no display (DISPLAY and WAYLAND_DISPLAY are unset): no tray app here");
        say::line("Starting a whole household on this machine instead: `nook house`.");
        setup::ensure(places, Purpose::House, &setup)?;
        say_spent("set-up", setting_up.read());
        let profile = if options.release { RELEASE } else { DEMO };
        return household(places, profile, &options.args);
    }
    setup::ensure(places, Purpose::Run, &setup)?;
    say_spent("set-up", setting_up.read());
    tray_app(places, options)
}

fn tray_app(places: &Places, options: &RunOptions) -> Result<()> {
    if !stages::ui::is_there(places) || !places.root.join("src-tauri/tauri.conf.json").exists() {
        bail!(
            "the tray app is not there yet; `cargo xtask house` runs the same walk in a terminal"
        );
    }
    let building = Meter::start();
    stages::ui::build_pages(places)?;
    let mut build = cargo(&places.root).args(["build", "--package", "inglenook"]);
    build = build.args(stages::build::features(places)?);
    if options.release {
        build = build.args(["--release"]);
    }
    build.run()?;
    say_spent("the build", building.read());
    let profile = if options.release { "release" } else { "debug" };
    let program = places.target.join(profile).join(TRAY_APP);
    say::line("Inglenook is starting; look for its icon in the tray. Ctrl+C ends it.");
    Program::new(program, &places.root).args(&options.args).with_keyboard().run()
}

/// Builds `nook` for a demonstration and runs `nook house`.
pub(crate) fn house(places: &Places, args: &[String]) -> Result<()> {
    household(places, DEMO, args)
}

fn household(places: &Places, profile: &str, args: &[String]) -> Result<()> {
    let building = Meter::start();
    let build = ["build", "--profile", profile, "--package", "nook-cli", "--bin", "nook"];
    cargo(&places.root).args(build).run()?;
    say_spent("the build", building.read());
    let running = Meter::start();
    let nook = Program::new(places.target.join(profile).join(NOOK), &places.root).args(["house"]);
    let nook = if args.iter().any(|arg| arg.starts_with("--prompt")) {
        nook.args(args)
    } else {
        nook.args(FIRST_PROMPT).args(args)
    };
    nook.with_keyboard().run()?;
    say_spent("from the start of the household to its end", running.read());
    Ok(())
}

fn say_spent(what: &str, spent: Spent) {
    say::line(&format!("{what} took {spent}"));
}
