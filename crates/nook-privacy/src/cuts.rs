//! Where a model is cut: the places at which activations leave one computer for another.

use nook_base::{LayerRange, ModelPart};
use nook_model::ModelFile;

use crate::PrivacyError;

/// Places that are measured when nobody says which: the first ones, where a helper usually begins,
/// and others spread over the rest.
const CUTS_USUAL: usize = 9;

/// The places of a measurement, each given by the layers before it: ascending, the first 0, which
/// is the embedding, the last all layers, which is what the last helper gives back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cuts(Vec<u32>);

impl Cuts {
    /// Those of `file`: `asked` and the two ends, or a choice.
    pub(crate) fn of(file: &ModelFile, asked: Option<&[u32]>) -> Result<Self, PrivacyError> {
        let layers = file.shape().layers;
        let legal: Vec<u32> = (0..=layers).filter(|layer| file.may_cut(*layer)).collect();
        Self::among(&legal, layers, asked)
    }

    fn among(legal: &[u32], layers: u32, asked: Option<&[u32]>) -> Result<Self, PrivacyError> {
        let inner: Vec<u32> =
            legal.iter().copied().filter(|layer| (1..layers).contains(layer)).collect();
        if inner.is_empty() {
            return Err(PrivacyError::Uncuttable);
        }
        let mut cuts = match asked {
            None => chosen(&inner),
            Some(asked) => {
                if let Some(wrong) = asked.iter().find(|layer| !legal.contains(layer)) {
                    let legal: Vec<String> = legal.iter().map(u32::to_string).collect();
                    let legal = legal.join(", ");
                    return Err(PrivacyError::Layers { asked: *wrong, legal });
                }
                asked.to_vec()
            }
        };
        cuts.extend([0, layers]);
        cuts.sort_unstable();
        cuts.dedup();
        Ok(Self(cuts))
    }

    /// The layers before each.
    pub(crate) fn before(&self) -> &[u32] {
        &self.0
    }

    /// The parts between them, each of which gives the activations at one of them: the embedding
    /// first, then the layers up to each of the others.
    pub(crate) fn parts(&self) -> Vec<ModelPart> {
        let embedding = ModelPart { layers: LayerRange::all(0), embedding: true, head: false };
        let between = self.0.windows(2).map(|pair| {
            ModelPart::inner(LayerRange::with_len(pair[0], pair[1].saturating_sub(pair[0])))
        });
        std::iter::once(embedding).chain(between).collect()
    }

    /// The index of the place that noise is measured at: the first one behind the embedding. If
    /// nobody asked for others, that is where a helper begins when one layer is kept here, as usual.
    pub(crate) fn of_noise(&self) -> usize {
        1
    }
}

/// Some of `inner`, the first ones and others spread over the rest.
fn chosen(inner: &[u32]) -> Vec<u32> {
    let most = CUTS_USUAL - 2;
    if inner.len() <= most {
        return inner.to_vec();
    }
    let (first, rest) = inner.split_at(2);
    let spread = (1..=most - 2).map(|n| rest[n * rest.len() / (most - 2) - 1]);
    first.iter().copied().chain(spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(legal: &[u32], layers: u32, asked: Option<&[u32]>) -> String {
        match Cuts::among(legal, layers, asked) {
            Ok(Cuts(cuts)) => cuts.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn small_models_are_cut_everywhere_and_large_ones_at_the_beginning_and_here_and_there() {
        let all: Vec<u32> = (0..=32).collect();
        assert_eq!(cuts(&all[..=6], 6, None), "0 1 2 3 4 5 6");
        assert_eq!(cuts(&all, 32, None), "0 1 2 7 13 19 25 31 32");
        assert_eq!(cuts(&all, 32, Some(&[9, 4, 9])), "0 4 9 32");
    }

    #[test]
    fn what_cannot_be_cut_is_told_with_what_can() {
        assert!(cuts(&[0, 4], 4, None).starts_with("this model cannot be cut"));
        let told = cuts(&[0, 1, 2, 4], 4, Some(&[1, 3]));
        assert_eq!(told, "--layers 3: this model can be cut before the layers 0, 1, 2, 4");
    }

    #[test]
    fn the_parts_between_the_cuts_are_the_whole_model_without_its_head() {
        let parts = Cuts(vec![0, 1, 4]).parts();
        let shown: Vec<_> =
            parts.iter().map(|part| (part.layers.to_string(), part.embedding)).collect();
        let expected = [("none", true), ("0-0", false), ("1-3", false)];
        assert_eq!(shown, expected.map(|(layers, ends)| (layers.to_owned(), ends)));
    }
}
