//! What stands in a GGUF file, and whether it can be used.

use std::path::Path;

use nook_base::ModelPart;
use nook_model::gguf::{TensorInfo, Value};
use nook_model::{ModelError, ModelFile};
use serde::Serialize;
use serde_json::{Map, json};

use crate::{InspectError, header};

/// The header of a GGUF file that could be read.
#[derive(Debug, Clone, Serialize)]
pub struct GgufView {
    /// The file.
    pub file: String,
    /// Its length.
    pub file_bytes: u64,
    /// GGUF version.
    pub version: u32,
    /// Byte at which tensor data begin.
    pub data_start: u64,
    /// Metadata by key, in alphabetical order, lists whole. What JSON cannot say (NaN, infinities)
    /// is a text; a list of a type that no model here uses is its length and type number.
    pub metadata: Map<String, serde_json::Value>,
    /// Tensors, in the order in which they lie in the file.
    pub tensors: Vec<TensorView>,
    /// What would happen if it were added to the library.
    pub verdict: ModelVerdict,
}

/// One tensor.
#[derive(Debug, Clone, Serialize)]
pub struct TensorView {
    /// Its name.
    pub name: String,
    /// Dimensions, fastest first.
    pub dimensions: Vec<u64>,
    /// How its numbers are stored, in ggml's words.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Byte in the file where it begins.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Whether the file is a model that this program computes.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum ModelVerdict {
    /// It is.
    Accepted {
        /// Its name.
        name: String,
        /// Its architecture.
        architecture: String,
        /// How it is quantised.
        quantisation: String,
        /// Transformer layers.
        layers: u32,
        /// Bytes of weights when all of it is in memory.
        weight_bytes: u64,
    },
    /// It is not.
    Refused {
        /// What is wrong.
        fault: String,
        /// What a person can do.
        remedy: &'static str,
    },
}

/// Reads the header at `path`. Fails where the header itself is malformed; a sound header of a file
/// that is no usable model is shown, with that verdict.
pub fn gguf(path: &Path) -> Result<GgufView, InspectError> {
    let header = header(path)?;
    let mut keys: Vec<&str> = header.keys().collect();
    keys.sort_unstable();
    let metadata = keys
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), json_value(header.value(key)?))))
        .collect();
    Ok(GgufView {
        file: path.display().to_string(),
        file_bytes: header.file_bytes(),
        version: header.version(),
        data_start: header.data_start(),
        metadata,
        tensors: header.tensors().iter().map(TensorView::from).collect(),
        verdict: ModelFile::open(path).into(),
    })
}

impl From<&TensorInfo> for TensorView {
    fn from(tensor: &TensorInfo) -> Self {
        Self {
            name: tensor.name.clone(),
            dimensions: tensor.dimensions.clone(),
            kind: tensor.kind.name(),
            start: tensor.start,
            bytes: tensor.bytes,
        }
    }
}

impl From<Result<ModelFile, ModelError>> for ModelVerdict {
    fn from(opened: Result<ModelFile, ModelError>) -> Self {
        match opened {
            Ok(file) => {
                let layers = file.shape().layers;
                Self::Accepted {
                    name: file.name().to_owned(),
                    architecture: file.architecture().to_owned(),
                    quantisation: file.quantisation(),
                    layers,
                    weight_bytes: file.weight_bytes(&ModelPart::whole(layers)),
                }
            }
            Err(error) => {
                Self::Refused { fault: error.fault.to_string(), remedy: error.fault.remedy() }
            }
        }
    }
}

fn json_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Unsigned(number) => json!(number),
        Value::Signed(number) => json!(number),
        Value::Float(number) => json_number(*number),
        Value::Bool(truth) => json!(truth),
        Value::Text(text) => json!(text),
        Value::Texts(texts) => json!(texts),
        Value::Floats(numbers) => {
            numbers.iter().map(|number| json_number(f64::from(*number))).collect()
        }
        Value::Signeds(numbers) => json!(numbers),
        Value::Unsigneds(numbers) => json!(numbers),
        Value::Bools(truths) => json!(truths),
        Value::Unused { type_id, length } => json!({"list_of_type": type_id, "length": length}),
    }
}

fn json_number(number: f64) -> serde_json::Value {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}
