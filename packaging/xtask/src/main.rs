//! Everything that a person or CI runs on this repository: `cargo xtask …`.
//!
//! This file holds the commands and hands each to its module; [`places`] knows the folders,
//! [`process`] runs programs, [`say`] is the only module that prints.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod bundle;
mod deny;
mod fuzz;
mod goldens;
mod hostile;
mod launch;
mod markdown;
mod mutants;
mod outside;
mod places;
mod platforms;
mod process;
mod release;
mod running;
mod sanitize;
mod say;
mod setup;
mod simulate;
mod site;
mod soak;
mod spent;
mod stages;
mod tidy;

/// Everything that a person or CI runs on Inglenook.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Line {
    #[command(subcommand)]
    order: Order,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// Set everything up and start the tray app; without a display, a whole household (`nook
    /// house`)
    Run(launch::RunOptions),
    /// Run every check and test, stage by stage
    Test(stages::TestOptions),
    /// Install what building and testing need
    Setup(setup::SetupOptions),
    /// Check the shape of the source: layers, cycles, sizes, headers, bans, documents
    Tidy(tidy::TidyOptions),
    /// Make the packages for Linux (.deb, .rpm, .tar.gz) and say how large they are
    Bundle(bundle::BundleOptions),
    /// Make and sign a release: packages, list of versions, parts list, checksums
    Release(release::ReleaseOptions),
    /// Sign the list of models alone, to renew it between two releases
    Catalogue(release::CatalogueOptions),
    /// Make the site of a release: the download page, and the documents as pages beside it
    Site,
    /// Measure: `bench walk …`, `bench home …`, `bench engine …`
    Bench(bench::BenchOptions),
    /// Plan for hundreds of made-up households and check every plan
    Simulate(simulate::SimulateOptions),
    /// Kill, freeze and drain the nodes of a household while they answer, and look for what is left
    /// over
    Soak(soak::SoakOptions),
    /// Run the tests of hostile input and faults, and list what came of each row
    Hostile(hostile::HostileOptions),
    /// Feed a million damaged model files to the readers; none may do harm
    Fuzz(fuzz::FuzzOptions),
    /// Change what keeps strangers out, one place at a time, and see whether its tests notice; needs
    /// cargo-mutants
    Mutants(mutants::MutantOptions),
    /// Run the tests of kernels and models with AddressSanitizer, or under valgrind
    ///
    /// AddressSanitizer is used where its runtime came with the toolchain (`librustc-*_rt.asan.*`
    /// among the target's libraries); it runs every instruction set that the processor has. Else
    /// valgrind, where it is installed, runs the kernels' tests on the plain and AVX2 paths.
    /// Neither is part of `cargo xtask test`: the build and the run take minutes. What could not be
    /// run is said at the end.
    Sanitize(sanitize::SanitizeOptions),
    /// Cross-build for Windows (and answer under wine), check for macOS
    Platforms(platforms::PlatformOptions),
    /// Rewrite golden files from what the code yields now; review the diff
    Goldens,
    /// A whole household on this machine: `house --prompt "Once upon a time"`
    House(launch::NodeOptions),
}

fn main() -> ExitCode {
    match obey(Line::parse().order) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::loud(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn obey(order: Order) -> Result<()> {
    let places = places::Places::find()?;
    match order {
        Order::Run(options) => launch::run(&places, &options),
        Order::Test(options) => stages::test(places, &options),
        Order::Setup(options) => setup::setup(&places, &options),
        Order::Tidy(options) => tidy::command(&places, &options),
        Order::Bundle(options) => bundle::command(&places, &options),
        Order::Release(options) => release::command(&places, &options),
        Order::Catalogue(options) => release::catalogue_command(&places, &options),
        Order::Site => site::command(&places),
        Order::Bench(options) => bench::bench(&places, &options),
        Order::Simulate(options) => simulate::simulate(&places, &options),
        Order::Soak(options) => soak::soak(&places, &options),
        Order::Hostile(options) => hostile::command(&places, &options),
        Order::Fuzz(options) => fuzz::fuzz(&places, &options),
        Order::Mutants(options) => mutants::mutants(&places, &options),
        Order::Sanitize(options) => sanitize::sanitize(&places, &options),
        Order::Platforms(options) => platforms::platforms(&places, &options),
        Order::Goldens => goldens::rewrite(&places),
        Order::House(options) => launch::house(&places, &options.args),
    }
}
