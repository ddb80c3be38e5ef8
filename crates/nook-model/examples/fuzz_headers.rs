//! Runs many cases of damaged model files and tells how they ended: `cargo xtask fuzz`.
//!
//! `fuzz_headers [CASES [FIRST [SEED]]]`: a failing case is run alone as `fuzz_headers 1 INDEX`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that reports to a person")]

#[path = "../tests/common/fuzz.rs"]
mod fuzz;

use std::process::ExitCode;

use fuzz::{Fuzz, Tally};

const CASES: u64 = 1_000_000;
const SEED: u64 = 20_261_121;

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1);
    let numbers: Vec<u64> = words.map(|word| word.to_str().unwrap().parse().unwrap()).collect();
    let cases = numbers.first().copied().unwrap_or(CASES);
    let first = numbers.get(1).copied().unwrap_or(0);
    let fuzz = Fuzz::new(numbers.get(2).copied().unwrap_or(SEED));
    let mut tally = Tally::default();
    let started = nook_base::clock::now();
    for index in first..first + cases {
        fuzz.run(index, &mut tally);
        if index % (cases / 10).max(1) == 0 {
            println!("case {index}, {} s", started.elapsed().as_secs());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    for (ending, count) in &tally.endings {
        println!("{count:>9}  {ending}");
    }
    println!(
        "{cases} cases in {seconds:.0} s; most memory: {} KiB for a header, {} KiB for a model",
        tally.header_memory >> 10,
        tally.model_memory >> 10
    );
    for failure in &tally.failures {
        println!("!!! {failure}");
    }
    if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
