//! Which format each matrix of a random model has: as llama.cpp's quantiser chooses them.

use nook_kernels::Format;

/// Which format each matrix has. Vectors, routers and small kernels are always F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// The same for all whose rows fill its blocks; F16 for the others.
    All(Format),
    /// As llama.cpp's `Q4_0`: the output matrix (or the embedding in its place) is Q6_K.
    Q4_0,
    /// As llama.cpp's `Q4_K_M`: Q4_K, with Q6_K for the output and for half of V and `ffn_down`.
    Q4KM,
    /// As llama.cpp's `Q5_K_M`: Q5_K where `Q4_K_M` has Q4_K.
    Q5KM,
    /// All in single precision, but for one kind of matrix: to see alone what its quantisation
    /// does.
    Only {
        /// The name between layer and ending, as `attn_q` or `output`.
        part: &'static str,
        /// Its format.
        format: Format,
    },
}

/// What the choice of a format depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The tensor's name.
    pub(super) name: &'a str,
    /// Numbers in a row.
    pub(super) columns: u32,
    /// Whether it has more than one row.
    pub(super) is_matrix: bool,
    /// Layers of the model.
    pub(super) layers: u32,
    /// Experts of the model; 0 for a dense one.
    pub(super) experts: u32,
    /// Whether the embedding serves as output matrix.
    pub(super) tied_output: bool,
}

impl Mix {
    /// The number of `general.file_type`, as in `llama.h` (`llama_ftype`); `None` for a format that
    /// has none.
    #[must_use]
    pub fn file_type(self) -> Option<u32> {
        Some(match self {
            Self::All(Format::F32) => 0,
            Self::All(Format::F16) => 1,
            Self::All(Format::Q4_0) | Self::Q4_0 => 2,
            Self::All(Format::Q4_1) => 3,
            Self::All(Format::Q8_0) => 7,
            Self::All(Format::Q5_0) => 8,
            Self::All(Format::Q5_1) => 9,
            Self::All(Format::Q4K) => 14,
            Self::Q4KM => 15,
            Self::All(Format::Q5K) => 16,
            Self::Q5KM => 17,
            Self::All(Format::Q6K) => 18,
            Self::All(Format::Bf16) => 32,
            _ => return None,
        })
    }

    /// The format of one tensor.
    pub(super) fn format(self, place: Place<'_>) -> Format {
        if is_small(place) {
            return Format::F32;
        }
        let wanted = match self {
            Self::All(format) => format,
            Self::Q4_0 if is_output(place) => Format::Q6K,
            Self::Q4_0 => Format::Q4_0,
            Self::Q4KM => medium(place, Format::Q4K),
            Self::Q5KM => medium(place, Format::Q5K),
            Self::Only { part: chosen, format } if part(place.name) == chosen => format,
            Self::Only { .. } => Format::F32,
        };
        match wanted.row_bytes(place.columns as usize) {
            Some(_) => wanted,
            None => Format::F16,
        }
    }
}

/// llama.cpp's medium mixes: `usual`, with more bits where they help most.
fn medium(place: Place<'_>, usual: Format) -> Format {
    let part = part(place.name);
    let fine = layer(place.name).is_some_and(|index| more_bits(index, place.layers));
    match part {
        _ if is_output(place) => Format::Q6K,
        // With eight experts the rest is so small that it can be large.
        "attn_v" | "attn_k" | "attn_qkv" if place.experts == 8 => Format::Q8_0,
        "attn_output" if place.experts == 8 => Format::Q5K,
        "attn_v" | "attn_qkv" | "attn_kv_b" if fine => Format::Q6K,
        "ffn_down" | "ffn_down_exps" | "ffn_down_shexp" if fine => Format::Q6K,
        _ => usual,
    }
}

fn is_output(place: Place<'_>) -> bool {
    match place.name {
        "output.weight" => true,
        "token_embd.weight" => place.tied_output,
        _ => false,
    }
}

/// Whether llama.cpp never quantises it.
fn is_small(place: Place<'_>) -> bool {
    let small = ["ffn_gate_inp", "ssm_conv1d", "conv", "ssm_a", "ssm_d", "ssm_norm", "bias"];
    let part = part(place.name);
    let beside = part.starts_with("altup") || part.starts_with("laurel");
    !place.is_matrix || beside || small.contains(&part)
}

/// `attn_q` of `blk.3.attn_q.weight`.
fn part(name: &str) -> &str {
    let name = name.strip_suffix(".weight").unwrap_or(name);
    name.rsplit('.').next().unwrap_or(name)
}

/// 3 of `blk.3.attn_q.weight`.
fn layer(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Which layers llama.cpp gives more bits in its medium mixes (`use_more_bits`).
fn more_bits(index: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    index < eighth || index >= 7 * layers / 8 || (index - eighth) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medium_mixes_give_more_bits_to_the_layers_that_llama_cpp_chooses() {
        let chosen = |layers| (0..layers).filter(|i| more_bits(*i, layers)).collect::<Vec<_>>();
        assert_eq!(chosen(16), [0, 1, 4, 7, 10, 13, 14, 15]);
        assert_eq!(chosen(28), [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]);
        assert_eq!(chosen(4), [2, 3]);
    }

    #[test]
    fn a_tied_embedding_is_quantised_as_the_output_it_is() {
        let place = |name, tied_output| Place {
            name,
            columns: 2048,
            is_matrix: true,
            layers: 16,
            experts: 0,
            tied_output,
        };
        assert_eq!(Mix::Q4KM.format(place("token_embd.weight", true)), Format::Q6K);
        assert_eq!(Mix::Q4KM.format(place("token_embd.weight", false)), Format::Q4K);
        assert_eq!(Mix::Q4_0.format(place("token_embd.weight", true)), Format::Q6K);
        assert_eq!(Mix::Q4KM.format(place("output.weight", false)), Format::Q6K);
        assert_eq!(Mix::Q4KM.format(place("blk.4.attn_v.weight", false)), Format::Q6K);
        assert_eq!(Mix::Q4KM.format(place("blk.5.attn_v.weight", false)), Format::Q4K);
        assert_eq!(Mix::Q4KM.format(place("blk.4.attn_q.weight", false)), Format::Q4K);
    }
}
