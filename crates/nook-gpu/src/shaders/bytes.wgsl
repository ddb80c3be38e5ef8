// Weights that are multiplied in bytes: how a unit of 32 columns is read. See layout.rs.
struct Params {
    units: u32,      // units in a row
    rows: u32,       // rows of this piece of the matrix
    n: u32,          // rows of activations
    out_rows: u32,   // rows of the whole matrix
    first: u32,      // first row of this piece
    bits_at: u32,    // where the sections begin, in words
    scales_at: u32,
    heads_at: u32,
    zero: u32,       // 0, which no compiler knows
}
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights: array<u32>;   // the same buffer
@group(1) @binding(0) var<uniform> p: Params;

// 32 quantised numbers: columns 0 to 15 and 16 to 31, four bytes in a word.
struct Quants { a: vec4<u32>, b: vec4<u32> }

#if UNEVEN
// The sixteen values that four bits choose from, as bytes.
#if BELL
const VALUES = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
#else
const VALUES = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
#end
fn uneven(word: u32) -> u32 {
    var out = 0u;
#for k 4
    { let q = (word >> (8u * ${k}u)) & 15u; out |= ((VALUES[q >> 2u] >> (8u * (q & 3u))) & 255u) << (8u * ${k}u); }
#end
    return out;
}
#end

#if TABLE
#else
fn quants(i: u32) -> Quants {
    var a = vec4<u32>(0u);
    var b = vec4<u32>(0u);
#if WHOLE
    a = weights4[2u * i];
    b = weights4[2u * i + 1u];
#end
#if NIBBLES
    let nibbles = weights4[i];
    a = nibbles & vec4<u32>(0x0f0f0f0fu);
    b = (nibbles >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
#end
#if PAIRS
    let pair_shift = vec4<u32>(0u, 2u, 4u, 6u);
    let pairs_a = vec4<u32>(weights[p.bits_at + ${BITS_WORDS}u * i]);
    let pairs_b = vec4<u32>(weights[p.bits_at + ${BITS_WORDS}u * i + 1u]);
    a |= ((pairs_a >> pair_shift) & vec4<u32>(0x03030303u)) << vec4<u32>(${PAIR_SHIFT}u);
    b |= ((pairs_b >> pair_shift) & vec4<u32>(0x03030303u)) << vec4<u32>(${PAIR_SHIFT}u);
#end
#if BIT
    let bits = vec4<u32>(weights[p.bits_at + ${BITS_WORDS}u * i + ${BITS_WORDS}u - 1u]);
    a |= ((bits >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(0x01010101u)) << vec4<u32>(${BIT_SHIFT}u);
    b |= ((bits >> vec4<u32>(4u, 5u, 6u, 7u)) & vec4<u32>(0x01010101u)) << vec4<u32>(${BIT_SHIFT}u);
#end
#if UNEVEN
    a = vec4<u32>(uneven(a.x), uneven(a.y), uneven(a.z), uneven(a.w));
    b = vec4<u32>(uneven(b.x), uneven(b.y), uneven(b.z), uneven(b.w));
#end
    return Quants(a, b);
}

#if FLOAT_SCALES
// Half of a number with four bits of exponent and three of mantissa, where "not a number" counts as 0.
fn small_float(byte: u32) -> f32 {
    let exponent = (byte >> 3u) & 15u;
    let mantissa = byte & 7u;
    let power = bitcast<f32>((max(exponent, 1u) + 116u) << 23u);
    let size = power * f32(select(8u + mantissa, mantissa, exponent == 0u));
    return select(size, 0.0, byte == 0x7fu);
}

// Scales of both halves of a unit, which has no minima.
fn scales(i: u32) -> vec4<f32> {
    let both = (weights[p.scales_at + (i >> 1u)] >> (16u * (i & 1u))) & 0xffffu;
    return vec4<f32>(small_float(both & 255u), small_float(both >> 8u), 0.0, 0.0);
}
#else
// Scales of both halves of a unit, then their minima.
fn scales(i: u32) -> vec4<i32> {
#if SCALED
    let both = (weights[p.scales_at + (i >> 1u)] >> (16u * (i & 1u))) & 0xffffu;
#if SCALE_AND_MINIMUM
    let scale = i32(both & 255u);
    let minimum = i32(both >> 8u);
    return vec4<i32>(scale, scale, minimum, minimum);
#end
#if SIGNED_SCALES
    let low = (i32(both) << 24u) >> 24u;
    let high = (i32(both) << 16u) >> 24u;
    return vec4<i32>(low, high, 0, 0);
#end
#if NIBBLE_SCALES
    let low = both & 255u;
    let high = both >> 8u;
    return vec4<i32>(vec4<u32>(low & 15u, high & 15u, low >> 4u, high >> 4u));
#end
#else
    return vec4<i32>(1, 1, ${MINIMUM}, ${MINIMUM});
#end
}
#end
#end

// `d` and `m` of a block.
fn head(j: u32) -> vec2<f32> {
#if FLOAT_SCALES
    return vec2<f32>(1.0, 0.0);
#end
#if HEAD_MIXED
    // Four times 12 bits of scales, with four bits of `d` above each.
    let a = weights[p.heads_at + 2u * j];
    let b = weights[p.heads_at + 2u * j + 1u];
    let bits = ((a >> 12u) & 15u) | ((a >> 24u) & 0xf0u) | ((b >> 4u) & 0xf00u) | ((b >> 16u) & 0xf000u);
    return vec2<f32>(unpack2x16float(bits).x * ${FRACTION}, 0.0);
#end
#if HEAD_PAIRS
    return unpack2x16float(weights[p.heads_at + j]);
#end
#if HEAD_EXPONENTS
    let exponent = (weights[p.heads_at + (j >> 2u)] >> (8u * (j & 3u))) & 255u;
    // The smallest two powers have no exponent bits of their own (they are subnormal).
    let bits = select((exponent - 1u) << 23u, 0x00200000u << exponent, exponent < 2u);
    return vec2<f32>(bitcast<f32>(bits), 0.0);
#end
#if HEAD_HALVES
    let both = unpack2x16float(weights[p.heads_at + (j >> 1u)]);
    let d = select(both.x, both.y, (j & 1u) == 1u);
#if TABLE
    return vec2<f32>(d * ${FRACTION}, 0.0);
#else
    return vec2<f32>(d, 0.0);
#end
#end
}

fn dot16(a: vec4<u32>, b: vec4<u32>) -> i32 {
    return dot4I8Packed(a.x, b.x) + dot4I8Packed(a.y, b.y) + dot4I8Packed(a.z, b.z) + dot4I8Packed(a.w, b.w);
}

// The sums of both halves of a unit of activations.
fn halves(sums: u32) -> vec2<i32> {
    return vec2<i32>((i32(sums) << 16u) >> 16u, i32(sums) >> 16u);
}
