//! Mixtures of experts: each row goes through a few of many feed-forward layers (Shazeer et al.
//! 2017, Fedus et al. 2021).
//!
//! Rows are gathered by expert, so that a batch reads each expert's weights once. A row's results
//! are added in the order of its experts' numbers, whatever rows are beside it.

use nook_kernels::{Compute, Product, multiply, vector};

use super::buffers::{Choice, Gathered};
use super::{Activation, Broken, Buffers, Dense, Linear, Step, sized};
use crate::error::Fault;
use crate::weights::{Held, Named, Part, Source, Weights};

/// The feed-forward part of a layer with experts.
#[derive(Debug)]
pub(crate) struct Mixture<W: Weights> {
    /// (experts, hidden)
    pub(crate) router: Linear<W>,
    /// (experts): what scores are raised by for the choice alone (DeepSeek-V3).
    pub(crate) choice_bias: Option<W::Numbers>,
    /// The narrower space that the chosen experts compute in; "hidden" below is its width then.
    pub(crate) latent: Option<LatentSpace<W>>,
    /// For each expert (`feed_forward`, hidden); absent where experts have no gate.
    pub(crate) gate: Option<W::Stack>,
    /// For each expert (`feed_forward`, hidden).
    pub(crate) up: W::Stack,
    /// For each expert (hidden, `feed_forward`).
    pub(crate) down: W::Stack,
    /// What is added to the products with them (gpt-oss).
    pub(crate) biases: Option<ExpertBiases<W>>,
    /// (experts): what the weights of the chosen are multiplied with at the end (Gemma 4).
    pub(crate) weight_scales: Option<W::Numbers>,
    pub(crate) activation: Activation,
    pub(crate) routing: Routing,
    /// An expert that every row goes through.
    pub(crate) shared: Option<SharedExpert<W>>,
}

/// The way into a narrower space and back out of it (Nemotron 3 Super). The router and the shared
/// expert stay in the wide one.
#[derive(Debug)]
pub(crate) struct LatentSpace<W: Weights> {
    /// (latent, hidden): what goes into all experts.
    pub(crate) down: Linear<W>,
    /// (hidden, latent): takes the weighed sum of the experts.
    pub(crate) up: Linear<W>,
}

/// Biases of all experts.
#[derive(Debug)]
pub(crate) struct ExpertBiases<W: Weights> {
    /// (experts, `feed_forward`)
    pub(crate) gate: W::Vector,
    /// (experts, `feed_forward`)
    pub(crate) up: W::Vector,
    /// (experts, hidden)
    pub(crate) down: W::Vector,
}

/// The expert that every row goes through.
#[derive(Debug)]
pub(crate) struct SharedExpert<W: Weights> {
    pub(crate) expert: Dense<W>,
    /// (1, hidden): the sigmoid of it weighs the result (Qwen2-MoE).
    pub(crate) gate: Option<Linear<W>>,
}

/// How rows choose. Most of it is in no file: constants of the family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Routing {
    /// Experts of each row.
    pub(crate) used: usize,
    pub(crate) scores: Scores,
    /// Whether the weights of the chosen are made to add up to 1.
    pub(crate) renormalise: bool,
    /// What their sum is raised by before they are divided by it (LFM2).
    pub(crate) sum_offset: f32,
    /// What the weights are multiplied with.
    pub(crate) scale: f32,
    /// Whether weights apply to what goes into an expert, not to what comes out (Llama 4).
    pub(crate) weigh_input: bool,
    /// Groups of experts, and of how many of them a row may choose.
    pub(crate) groups: Option<(usize, usize)>,
}

/// What belongs to the experts of one mixture, for the choice among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChoiceNumbers<'a> {
    /// Raises scores for the choice alone.
    bias: Option<&'a [f32]>,
    /// What the weights of the chosen are multiplied with at the end.
    scales: Option<&'a [f32]>,
}

/// What makes weights of the router's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scores {
    Softmax,
    Sigmoid,
}

impl<W: Weights> Mixture<W> {
    /// What of it candle has no code for, in words.
    pub(super) fn needs_processor(&self) -> Option<&'static str> {
        let shared = self.shared.as_ref().map(|shared| shared.expert.activation());
        match self {
            Self { biases: Some(_), .. } => Some("biases of experts"),
            Self { gate: None, .. } => Some("experts without a gate"),
            Self { latent: Some(_), .. } => Some("experts in a latent space"),
            _ => self.activation.needs_processor().or_else(|| shared?.needs_processor()),
        }
    }
}

impl Part for Mixture<Named> {
    type With<W: Weights> = Mixture<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<Mixture<S::Into>, Fault> {
        Ok(Mixture {
            router: self.router.read(source)?,
            choice_bias: match &self.choice_bias {
                Some(bias) => Some(source.numbers(bias)?),
                None => None,
            },
            latent: self.latent.read(source)?,
            gate: self.gate.as_ref().map(|gate| source.stack(gate)).transpose()?,
            up: source.stack(&self.up)?,
            down: source.stack(&self.down)?,
            biases: self.biases.read(source)?,
            weight_scales: match &self.weight_scales {
                Some(scales) => Some(source.numbers(scales)?),
                None => None,
            },
            activation: self.activation,
            routing: self.routing,
            shared: self.shared.read(source)?,
        })
    }
}

impl Part for LatentSpace<Named> {
    type With<W: Weights> = LatentSpace<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<LatentSpace<S::Into>, Fault> {
        Ok(LatentSpace { down: self.down.read(source)?, up: self.up.read(source)? })
    }
}

impl Part for ExpertBiases<Named> {
    type With<W: Weights> = ExpertBiases<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<ExpertBiases<S::Into>, Fault> {
        Ok(ExpertBiases {
            gate: source.vector(&self.gate)?,
            up: source.vector(&self.up)?,
            down: source.vector(&self.down)?,
        })
    }
}

impl Part for SharedExpert<Named> {
    type With<W: Weights> = SharedExpert<W>;

    fn read<S: Source>(&self, source: &mut S) -> Result<SharedExpert<S::Into>, Fault> {
        Ok(SharedExpert { expert: self.expert.read(source)?, gate: self.gate.read(source)? })
    }
}

impl<W: Weights<Numbers = Vec<f32>>> Mixture<W> {
    /// What the choice among the experts needs to know of them.
    pub(crate) fn numbers(&self) -> ChoiceNumbers<'_> {
        let (bias, scales) = (self.choice_bias.as_deref(), self.weight_scales.as_deref());
        ChoiceNumbers { bias, scales }
    }
}

impl Mixture<Held> {
    /// Rows `x` (n, hidden) into `out` (n, hidden).
    pub(crate) fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        self.forward_chosen(x, x, out, step, buffers)
    }

    /// As [`Self::forward`], where the router looks at `routed` (n, hidden).
    pub(super) fn forward_chosen(
        &self,
        routed: &[f32],
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        self.choose(routed, step, buffers)?;
        match &self.latent {
            Some(latent) => self.in_latent_space(latent, x, out, step, buffers)?,
            None => self.chosen(x, out, step, buffers)?,
        }
        match &self.shared {
            Some(shared) => shared.forward(x, out, step, buffers),
            None => Ok(()),
        }
    }

    /// What the chosen experts make of rows `x` (n, hidden) by way of `latent`, into `out` (n,
    /// hidden).
    fn in_latent_space(
        &self,
        latent: &LatentSpace<Held>,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        // The experts use `buffers` themselves; these two are taken out for the while.
        let (mut inputs, mut sums) =
            (std::mem::take(&mut buffers.latent), std::mem::take(&mut buffers.spare));
        let numbers = step.rows() * latent.down.rows();
        let (input, sum) = (sized(&mut inputs, numbers), sized(&mut sums, numbers));
        latent.down.forward(step.compute, &mut buffers.scratch, x, input)?;
        self.chosen(input, sum, step, buffers)?;
        latent.up.forward(step.compute, &mut buffers.scratch, sum, out)?;
        (buffers.latent, buffers.spare) = (inputs, sums);
        Ok(())
    }

    /// The weighed sum of what the chosen experts make of rows `x`, into `out`: both are as wide as
    /// what the experts compute in.
    fn chosen(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        out.fill(0.0);
        let mut from = 0;
        while let Some(first) = buffers.experts.choices.get(from) {
            let expert = first.expert;
            let same = &buffers.experts.choices[from..];
            let count = same.iter().take_while(|choice| choice.expert == expert).count();
            self.expert(expert, from..from + count, x, out, step, buffers)?;
            from += count;
        }
        Ok(())
    }

    /// Fills `choices`.
    fn choose(&self, x: &[f32], step: &Step<'_>, buffers: &mut Buffers) -> Result<(), Broken> {
        let experts = self.router.rows();
        let Buffers { scratch, experts: gathered, .. } = buffers;
        let Gathered { scores, choices, ranking, .. } = gathered;
        let scores = sized(scores, step.rows() * experts);
        self.router.forward(step.compute, scratch, x, scores)?;
        let numbers = self.numbers();
        self.routing.choose(step.compute, scores, experts, numbers, ranking, choices);
        Ok(())
    }

    /// Adds what `expert` makes of the rows that chose it.
    fn expert(
        &self,
        expert: usize,
        choices: std::ops::Range<usize>,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        let (Some(up), Some(down)) = (self.up.get(expert), self.down.get(expert)) else {
            return Err(Broken::new("an expert that is not there"));
        };
        let Buffers { scratch, gate: gates, up: ups, mixed, experts, .. } = buffers;
        let Gathered { choices: all, input, output, .. } = experts;
        let choices = &all[choices];
        let (n, hidden) = (choices.len(), up.columns());
        let input = sized(input, n * hidden);
        for (choice, input) in choices.iter().zip(input.chunks_exact_mut(hidden)) {
            input.copy_from_slice(&x[choice.row * hidden..(choice.row + 1) * hidden]);
            if self.routing.weigh_input {
                input.iter_mut().for_each(|number| *number *= choice.weight);
            }
        }
        let biases = self.biases.as_ref();
        let ups = sized(ups, n * up.rows());
        let inner = match self.gate.as_ref().map(|stack| stack.get(expert)) {
            Some(Some(gate)) => {
                let gates = sized(gates, ups.len());
                let mut products = [
                    Product { matrix: gate, out: &mut *gates },
                    Product { matrix: up, out: &mut *ups },
                ];
                multiply(step.compute, scratch, input, &mut products)?;
                add_bias(step, gates, biases.map(|biases| &biases.gate), expert, gate.rows());
                add_bias(step, ups, biases.map(|biases| &biases.up), expert, up.rows());
                let inner = sized(mixed, gates.len());
                self.activation.times(step.compute, gates, ups, inner);
                inner
            }
            Some(None) => return Err(Broken::new("an expert that is not there")),
            None => {
                let mut products = [Product { matrix: up, out: &mut *ups }];
                multiply(step.compute, scratch, input, &mut products)?;
                add_bias(step, ups, biases.map(|biases| &biases.up), expert, up.rows());
                self.activation.alone(step.compute, ups);
                ups
            }
        };
        let output = sized(output, n * hidden);
        let mut products = [Product { matrix: down, out: &mut *output }];
        multiply(step.compute, scratch, inner, &mut products)?;
        add_bias(step, output, biases.map(|biases| &biases.down), expert, hidden);
        for (choice, output) in choices.iter().zip(output.chunks_exact(hidden)) {
            let weight = if self.routing.weigh_input { 1.0 } else { choice.weight };
            let out = &mut out[choice.row * hidden..(choice.row + 1) * hidden];
            for (out, number) in out.iter_mut().zip(output) {
                *out += weight * number;
            }
        }
        Ok(())
    }
}

/// Adds the bias of `expert` to rows of `width` numbers, where there are biases.
fn add_bias(step: &Step<'_>, x: &mut [f32], all: Option<&Vec<f32>>, expert: usize, width: usize) {
    if let Some(all) = all {
        vector::add_bias(step.compute, x, &all[expert * width..(expert + 1) * width]);
    }
}

impl SharedExpert<Held> {
    /// Adds what it makes of rows `x` (n, hidden) to `out`.
    fn forward(
        &self,
        x: &[f32],
        out: &mut [f32],
        step: &Step<'_>,
        buffers: &mut Buffers,
    ) -> Result<(), Broken> {
        // The parts below use `buffers` themselves; these two are taken out for the while.
        let mut output = std::mem::take(&mut buffers.experts.output);
        let result = sized(&mut output, x.len());
        self.expert.forward(step.compute, x, result, buffers)?;
        if let Some(gate) = &self.gate {
            let weights = sized(&mut buffers.gate, step.rows());
            gate.forward(step.compute, &mut buffers.scratch, x, weights)?;
            vector::sigmoid(step.compute, weights);
            let hidden = x.len() / step.rows().max(1);
            for (weight, row) in weights.iter().zip(result.chunks_exact_mut(hidden)) {
                row.iter_mut().for_each(|number| *number *= *weight);
            }
        }
        vector::add(step.compute, out, result);
        buffers.experts.output = output;
        Ok(())
    }
}

impl Routing {
    /// The `used` best by a softmax of all, whose weights apply to what comes out.
    pub(crate) fn softmax(used: u32, renormalise: bool) -> Self {
        Self {
            used: used as usize,
            scores: Scores::Softmax,
            renormalise,
            sum_offset: 0.0,
            scale: 1.0,
            weigh_input: false,
            groups: None,
        }
    }

    /// As [`Self::softmax`], by a sigmoid of each.
    pub(crate) fn sigmoid(used: u32, renormalise: bool) -> Self {
        Self { scores: Scores::Sigmoid, ..Self::softmax(used, renormalise) }
    }

    /// Fills `choices`, by expert and then by row, from what the router gave: `scores` is (n,
    /// `experts`).
    pub(crate) fn choose(
        &self,
        compute: &Compute,
        scores: &mut [f32],
        experts: usize,
        ChoiceNumbers { bias, scales }: ChoiceNumbers<'_>,
        ranking: &mut Vec<(usize, f32)>,
        choices: &mut Vec<Choice>,
    ) {
        choices.clear();
        for (row, scores) in scores.chunks_exact_mut(experts.max(1)).enumerate() {
            ranking.clear();
            // The sigmoid keeps the order, but makes equal what lies far out: the choice is the
            // router's own, where nothing is added.
            let raw = self.scores == Scores::Sigmoid && bias.is_none() && self.groups.is_none();
            if raw {
                ranking.extend(scores.iter().copied().enumerate());
            }
            match self.scores {
                Scores::Softmax => vector::softmax(compute, scores, experts),
                Scores::Sigmoid => vector::sigmoid(compute, scores),
            }
            if !raw {
                ranking.extend(scores.iter().copied().enumerate());
            }
            if let Some(bias) = bias {
                for ((_, score), bias) in ranking.iter_mut().zip(bias) {
                    *score += bias;
                }
            }
            self.rank(ranking);
            let start = choices.len();
            choices.extend(ranking.iter().map(|(expert, _)| Choice {
                expert: *expert,
                row,
                weight: scores[*expert],
            }));
            self.weigh(&mut choices[start..]);
            for choice in choices[start..].iter_mut() {
                choice.weight *= scales.map_or(1.0, |scales| scales[choice.expert]);
            }
        }
        choices.sort_unstable_by_key(|choice| (choice.expert, choice.row));
    }

    /// Leaves the chosen experts in `ranking`, in the order of their numbers. Of equal ones the
    /// first is chosen.
    fn rank(&self, ranking: &mut Vec<(usize, f32)>) {
        if let Some((count, used)) = self.groups {
            self.keep_groups(ranking, count, used);
        }
        ranking.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        ranking.truncate(self.used);
        ranking.sort_unstable_by_key(|(expert, _)| *expert);
    }

    /// Drops the experts of all but the best groups. A group is as good as its best expert where
    /// scores are a softmax (DeepSeek-V2), and as its best two together where they are not
    /// (DeepSeek-V3).
    fn keep_groups(&self, ranking: &mut Vec<(usize, f32)>, count: usize, used: usize) {
        let size = ranking.len().checked_div(count).unwrap_or(0).max(1);
        let counted = match self.scores {
            Scores::Softmax => 1,
            Scores::Sigmoid => 2,
        };
        let mut groups: Vec<(usize, f32)> = ranking
            .chunks(size)
            .enumerate()
            .map(|(index, group)| {
                let mut scores: Vec<f32> = group.iter().map(|(_, score)| *score).collect();
                scores.sort_by(|a, b| b.total_cmp(a));
                (index, scores.iter().take(counted).sum())
            })
            .collect();
        groups.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
        groups.truncate(used);
        ranking.retain(|(expert, _)| groups.iter().any(|(index, _)| *index == expert / size));
    }

    /// The final weights of one row's choices.
    fn weigh(&self, choices: &mut [Choice]) {
        let total: f32 = choices.iter().map(|choice| choice.weight).sum();
        let total = total + self.sum_offset;
        for choice in choices {
            if self.renormalise && total > 0.0 {
                choice.weight /= total;
            }
            choice.weight *= self.scale;
        }
    }
}
