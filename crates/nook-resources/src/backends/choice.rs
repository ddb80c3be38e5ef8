//! Which device answers sooner: a function of what was measured, and of nothing else.
//!
//! No name, maker or size of a card is looked at. What was not measured is not chosen.

use std::time::Duration;

use nook_plan::Line;

/// A usual reply: so many tokens in, so many out.
const TOKENS_IN: u64 = 200;
/// See [`TOKENS_IN`].
const TOKENS_OUT: u32 = 200;

/// A GPU is taken where a usual reply ends at least so much sooner, in percent of the CPU's time.
/// What is measured on a machine that people use differs by less from one time to the next.
const SOONER_PERCENT: u32 = 20;

/// How fast a device computes the layers of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// One token; the unit is a layer.
    pub decode: Line,
    /// A prompt; the unit is a layer and token.
    pub prefill: Line,
}

impl Pace {
    /// How long a usual reply takes over `layers`, without embedding and head, which both devices
    /// compute in addition.
    #[must_use]
    pub fn usual_reply(&self, layers: u32) -> Duration {
        let prompt = self.prefill.at(u64::from(layers).saturating_mul(TOKENS_IN));
        let tokens = self.decode.at(u64::from(layers)).saturating_mul(TOKENS_OUT);
        prompt.saturating_add(tokens)
    }

    /// Tokens of a usual reply in a second of it, prompt included.
    #[must_use]
    pub fn tokens_per_second(&self, layers: u32) -> f64 {
        f64::from(TOKENS_OUT) / self.usual_reply(layers).as_secs_f64().max(1e-9)
    }
}

/// The device of `gpus` that is to compute a model of `layers`; `None`: the CPU.
pub(crate) fn sooner(cpu: &Pace, gpus: &[(u32, Pace)], layers: u32) -> Option<u32> {
    let (number, pace) = fastest(gpus, layers)?;
    let limit = cpu.usual_reply(layers).saturating_mul(100 - SOONER_PERCENT) / 100;
    (pace.usual_reply(layers) <= limit).then_some(number)
}

/// The fastest of `gpus`; of equals the first.
pub(crate) fn fastest(gpus: &[(u32, Pace)], layers: u32) -> Option<(u32, Pace)> {
    gpus.iter().copied().min_by_key(|(number, pace)| (pace.usual_reply(layers), *number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: u32 = 32;

    /// Takes so many microseconds for a layer of one token, and of a prompt's token.
    fn pace(decode: u64, prefill: u64) -> Pace {
        let line = |slope| Line { fixed: Duration::ZERO, slope: Duration::from_micros(slope) };
        Pace { decode: line(decode), prefill: line(prefill) }
    }

    #[test]
    fn the_slower_device_is_never_chosen() {
        let speeds = [1, 30, 79, 80, 81, 100, 120, 500];
        for decode in speeds {
            for prefill in speeds {
                for (other_decode, other_prefill) in [(90, 90), (20, 300), (300, 20)] {
                    let (cpu, gpu) = (pace(100, 100), pace(decode, prefill));
                    let other = pace(other_decode, other_prefill);
                    let chosen = sooner(&cpu, &[(3, gpu), (4, other)], LAYERS);
                    let time = |pace: &Pace| pace.usual_reply(LAYERS);
                    let best = time(&gpu).min(time(&other));
                    match chosen {
                        None => assert!(best.as_nanos() * 5 > time(&cpu).as_nanos() * 4),
                        Some(3) => assert!(time(&gpu) == best && best < time(&cpu)),
                        Some(_) => assert!(time(&other) == best && best < time(&cpu)),
                    }
                }
            }
        }
    }

    #[test]
    fn a_gpu_is_chosen_from_a_fifth_on() {
        let cpu = pace(100, 100);
        for (gpu, chosen) in [(79, Some(0)), (80, Some(0)), (81, None), (100, None), (200, None)] {
            assert_eq!(sooner(&cpu, &[(0, pace(gpu, gpu))], LAYERS), chosen, "{gpu}");
        }
        assert_eq!(sooner(&cpu, &[], LAYERS), None, "what was not measured is not chosen");
    }

    #[test]
    fn fast_prompts_do_not_make_up_for_slow_tokens() {
        let cpu = pace(1_000, 200);
        // Ten times as fast at prompts, half as fast at tokens: an integrated GPU.
        assert_eq!(sooner(&cpu, &[(0, pace(2_000, 20))], LAYERS), None);
        assert_eq!(sooner(&cpu, &[(0, pace(900, 20))], LAYERS), Some(0));
    }

    #[test]
    fn what_each_step_costs_beside_its_layers_counts_in_small_models() {
        let cpu = pace(10, 10);
        let slow_to_start =
            Line { fixed: Duration::from_millis(1), slope: Duration::from_micros(1) };
        let gpu = Pace { decode: slow_to_start, prefill: slow_to_start };
        assert_eq!(sooner(&cpu, &[(0, gpu)], 4), None);
        assert_eq!(sooner(&cpu, &[(0, gpu)], 400), Some(0));
    }
}
