//! Mixtures as most newer families have them: what the metadata say of the experts, and the tensors.

use super::builder::LayerNames;
use super::metadata::{Metadata, Sizes};
use crate::error::Fault;
use crate::parts::{Activation, Dense, Mixture, Routing, Scores, SharedExpert};
use crate::shape::{EXPERTS_MAX, FEED_FORWARD_MAX};
use crate::weights::Named;

/// The key of the width of experts.
pub(super) const WIDTH: &str = "expert_feed_forward_length";

/// What the layers with experts share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Experts {
    /// The first layer with experts.
    pub(super) first_layer: u32,
    pub(super) count: u32,
    pub(super) width: u32,
    /// Experts that every row goes through, as one of so many times the width.
    pub(super) shared: u32,
    pub(super) routing: Routing,
}

/// The experts of the file; what it does not say of the choice is as in `usual`.
pub(super) fn experts(
    metadata: &Metadata<'_>,
    sizes: &Sizes,
    usual: Routing,
) -> Result<Option<Experts>, Fault> {
    let Some((count, used)) = metadata.experts()? else {
        return Ok(None);
    };
    let width = metadata.number(WIDTH, None, 1..=FEED_FORWARD_MAX)?;
    let usual = Routing { used: used as usize, ..usual };
    Ok(Some(Experts { width, ..experts_of_any_width(metadata, sizes, count, usual)? }))
}

/// As [`experts`], of `count` experts, without a width and with as many used as in `usual`: both
/// may differ from layer to layer.
pub(super) fn experts_of_any_width(
    metadata: &Metadata<'_>,
    sizes: &Sizes,
    count: u32,
    usual: Routing,
) -> Result<Experts, Fault> {
    let scores = match metadata.number("expert_gating_func", Some(0), 0..=u32::MAX)? {
        // 0 stands in files from before the key meant anything, and counts as no key in llama.cpp.
        0 => usual.scores,
        1 => Scores::Softmax,
        2 => Scores::Sigmoid,
        other => return Err(metadata.bad("expert_gating_func", other, "1 or 2")),
    };
    let groups = metadata.number("expert_group_count", Some(1), 0..=count)?;
    let groups = if groups > 1 {
        if !count.is_multiple_of(groups) {
            let expected = format!("a divisor of {count} experts");
            return Err(metadata.bad("expert_group_count", groups, expected));
        }
        let used = metadata.number("expert_group_used_count", None, 1..=groups)?;
        Some((groups as usize, used as usize))
    } else {
        None
    };
    let scale = metadata.positive_unless_zero("expert_weights_scale")?;
    Ok(Experts {
        first_layer: metadata.number("leading_dense_block_count", Some(0), 0..=sizes.layers)?,
        count,
        width: 0,
        shared: metadata.number("expert_shared_count", Some(0), 0..=EXPERTS_MAX)?,
        routing: Routing {
            scores,
            renormalise: metadata.truth("expert_weights_norm")?.unwrap_or(usual.renormalise),
            scale: scale.unwrap_or(usual.scale),
            groups,
            ..usual
        },
    })
}

/// The mixture of one layer: gated experts, a bias of the choice where the file has one, and a
/// shared expert that nothing weighs.
pub(super) fn mixture(
    metadata: &Metadata<'_>,
    layer: LayerNames<'_>,
    experts: Experts,
) -> Mixture<Named> {
    let bias = "exp_probs_b.bias";
    let choice_bias = metadata.has(&layer.tensor(bias)).then(|| layer.vector(bias, experts.count));
    let shared = (experts.shared > 0).then(|| {
        let width = experts.width.saturating_mul(experts.shared);
        let expert = Dense::Gated(layer.gated_named("_shexp", width, Activation::Silu));
        SharedExpert { expert, gate: None }
    });
    let plain = layer.maybe_fused_mixture(metadata, experts.count, experts.width, experts.routing);
    Mixture { choice_bias, shared, ..plain }
}
