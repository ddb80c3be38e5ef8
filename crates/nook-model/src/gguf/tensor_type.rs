//! Types of tensors: numbers, names and block sizes as in `ggml.h`.

use nook_kernels::Format;

/// A type that GGUF files use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorType {
    id: u32,
    name: &'static str,
    elements: u64,
    bytes: u64,
    format: Option<Format>,
}

const fn computable(
    id: u32,
    name: &'static str,
    elements: u64,
    bytes: u64,
    format: Format,
) -> TensorType {
    TensorType { id, name, elements, bytes, format: Some(format) }
}

const fn known(id: u32, name: &'static str, elements: u64, bytes: u64) -> TensorType {
    TensorType { id, name, elements, bytes, format: None }
}

/// Every type in use: number, name, numbers in a block, bytes of a block. Those that no kernel
/// computes are the formats of activations (Q8_1, Q8_K), plain integers and doubles, and formats
/// without reference rows to check a decoder against (Q1_0, Q2_0).
const TYPES: [TensorType; 35] = [
    computable(0, "F32", 1, 4, Format::F32),
    computable(1, "F16", 1, 2, Format::F16),
    computable(2, "Q4_0", 32, 18, Format::Q4_0),
    computable(3, "Q4_1", 32, 20, Format::Q4_1),
    computable(6, "Q5_0", 32, 22, Format::Q5_0),
    computable(7, "Q5_1", 32, 24, Format::Q5_1),
    computable(8, "Q8_0", 32, 34, Format::Q8_0),
    known(9, "Q8_1", 32, 36),
    computable(10, "Q2_K", 256, 84, Format::Q2K),
    computable(11, "Q3_K", 256, 110, Format::Q3K),
    computable(12, "Q4_K", 256, 144, Format::Q4K),
    computable(13, "Q5_K", 256, 176, Format::Q5K),
    computable(14, "Q6_K", 256, 210, Format::Q6K),
    known(15, "Q8_K", 256, 292),
    computable(16, "IQ2_XXS", 256, 66, Format::Iq2Xxs),
    computable(17, "IQ2_XS", 256, 74, Format::Iq2Xs),
    computable(18, "IQ3_XXS", 256, 98, Format::Iq3Xxs),
    computable(19, "IQ1_S", 256, 50, Format::Iq1S),
    computable(20, "IQ4_NL", 32, 18, Format::Iq4Nl),
    computable(21, "IQ3_S", 256, 110, Format::Iq3S),
    computable(22, "IQ2_S", 256, 82, Format::Iq2S),
    computable(23, "IQ4_XS", 256, 136, Format::Iq4Xs),
    known(24, "I8", 1, 1),
    known(25, "I16", 1, 2),
    known(26, "I32", 1, 4),
    known(27, "I64", 1, 8),
    known(28, "F64", 1, 8),
    computable(29, "IQ1_M", 256, 56, Format::Iq1M),
    computable(30, "BF16", 1, 2, Format::Bf16),
    computable(34, "TQ1_0", 256, 54, Format::Tq1_0),
    computable(35, "TQ2_0", 256, 66, Format::Tq2_0),
    computable(39, "MXFP4", 32, 17, Format::Mxfp4),
    computable(40, "NVFP4", 64, 36, Format::Nvfp4),
    known(41, "Q1_0", 128, 18),
    known(42, "Q2_0", 64, 18),
];

impl TensorType {
    /// The type with this number.
    #[must_use]
    pub fn from_id(id: u32) -> Option<Self> {
        TYPES.iter().find(|kind| kind.id == id).copied()
    }

    /// The type that a kernel format is stored as.
    #[must_use]
    pub fn from_format(format: Format) -> Option<Self> {
        TYPES.iter().find(|kind| kind.format == Some(format)).copied()
    }

    /// Its number in files.
    #[must_use]
    pub fn id(self) -> u32 {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The kernels' format; `None` when they cannot compute it.
    #[must_use]
    pub fn format(self) -> Option<Format> {
        self.format
    }

    /// Bytes of `rows` rows of `columns` numbers; `None` when the rows do not fill whole blocks or
    /// the product does not fit.
    #[must_use]
    pub fn bytes(self, columns: u64, rows: u64) -> Option<u64> {
        if !columns.is_multiple_of(self.elements) {
            return None;
        }
        (columns / self.elements).checked_mul(self.bytes)?.checked_mul(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_kernels_agree_about_blocks() {
        for format in Format::ALL {
            let kind = TensorType::from_format(format).unwrap();
            assert_eq!(kind.elements, format.elements() as u64, "{}", kind.name);
            assert_eq!(kind.bytes, format.bytes() as u64, "{}", kind.name);
        }
    }
}
