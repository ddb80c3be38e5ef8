//! Logit lens: the model's own last norm and output matrix, applied to what comes out of an earlier
//! layer (nostalgebraist 2020, "interpreting GPT: the logit lens").

use nook_model::{Input, LoadedModel};

use crate::PrivacyError;
use crate::walk;

/// The token with the greatest logit for each row of `received`, of all tokens of the model.
pub(crate) fn guess(
    model: &LoadedModel,
    received: &[f32],
) -> Result<Vec<Option<u32>>, PrivacyError> {
    let layers = model.file().shape().layers;
    let mut guesses = Vec::new();
    let part = walk::rest_from(layers, layers);
    walk::logits(model, part, Input::Hidden(received), &mut |row| {
        guesses.push(walk::greatest(row));
    })?;
    Ok(guesses)
}
