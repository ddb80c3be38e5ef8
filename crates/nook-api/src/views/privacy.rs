//! How much whoever owns a helping computer could read, as it was measured last.

use nook_base::PrivacyFigures;
use serde::{Deserialize, Serialize};

view! {
/// What was measured of the models of this device.
#[derive(Default)]
struct KeptPrivacyView {
    /// Those whose file is still the one that was measured, the latest first.
    pub models: Vec<PrivacyOfModelView>,
    /// Why earlier figures are lost, in English; absent where all could be read.
    pub problem: Option<String>,
}
}

view! {
/// What was measured of one model.
struct PrivacyOfModelView {
    /// What it is called here.
    pub model: String,
    /// Digest of the file that was measured, hexadecimal.
    pub digest: String,
    /// What was found.
    pub figures: PrivacyFigures,
}
}
