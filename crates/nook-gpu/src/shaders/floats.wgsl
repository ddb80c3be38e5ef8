// Weights that are multiplied as numbers: how a chunk of 8 columns is read. See layout.rs.
struct Params {
    units: u32,      // chunks in a row
    rows: u32,       // rows of this piece of the matrix
    n: u32,          // rows of activations
    out_rows: u32,   // rows of the whole matrix
    first: u32,      // first row of this piece
    bits_at: u32,
    scales_at: u32,  // where the sections begin, in words
    heads_at: u32,
    zero: u32,       // 0, which no compiler knows
    columns: u32,    // columns of a row: the last chunk may be filled up with zeros
}
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights: array<u32>;   // the same buffer
@group(1) @binding(0) var<uniform> p: Params;

struct Chunk { a: vec4<f32>, b: vec4<f32> }

#if NVFP4
// Twice the number that four bits stand for, for each of four nibbles.
fn small(q: vec4<u32>) -> vec4<f32> {
    let exponent = (q >> vec4<u32>(1u)) & vec4<u32>(3u);
    let mantissa = q & vec4<u32>(1u);
    let size = select((mantissa + vec4<u32>(2u)) << (exponent - vec4<u32>(1u)), mantissa, exponent == vec4<u32>(0u));
    return select(vec4<f32>(size), -vec4<f32>(size), (q & vec4<u32>(8u)) != vec4<u32>(0u));
}

// The eight nibbles of a word times `scale`.
fn eight(w: u32, scale: f32) -> Chunk {
    let shift = vec4<u32>(0u, 4u, 8u, 12u);
    let low = small((vec4<u32>(w) >> shift) & vec4<u32>(15u));
    let high = small((vec4<u32>(w >> 16u) >> shift) & vec4<u32>(15u));
    return Chunk(scale * low, scale * high);
}
#end

#if HEAD_HALVES
// `d` of a block.
fn head(j: u32) -> f32 {
    let both = unpack2x16float(weights[p.heads_at + (j >> 1u)]);
    return select(both.x, both.y, (j & 1u) == 1u);
}
#end

#if SHORTS
// What of 32 columns does not fill words.
fn extra(u: u32) -> u32 { return half_of(weights[p.scales_at + (u >> 1u)], u); }
#end

// The low half of a word, or the high one of an odd `i`.
fn half_of(w: u32, i: u32) -> u32 { return (w >> (16u * (i & 1u))) & 0xffffu; }

// Four choices of two bits.
fn pairs(code: u32) -> vec4<u32> { return (vec4<u32>(code) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u); }

#if TABLE
@group(0) @binding(${TABLE_AT}) var<storage, read> table: array<u32>;   // rows of the codebook, two in a word
fn row(number: u32) -> u32 { return half_of(table[number >> 1u], number); }
#end

fn chunk(i: u32) -> Chunk {
#if F32
    return Chunk(bitcast<vec4<f32>>(weights4[2u * i]), bitcast<vec4<f32>>(weights4[2u * i + 1u]));
#end
#if F16
    let w = weights4[i];
    return Chunk(vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y)), vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w)));
#end
#if BF16
    let w = weights4[i];
    let top = vec4<u32>(0xffff0000u);
    let even = bitcast<vec4<f32>>(w << vec4<u32>(16u));
    let odd = bitcast<vec4<f32>>(w & top);
    return Chunk(vec4<f32>(even.x, odd.x, even.y, odd.y), vec4<f32>(even.z, odd.z, even.w, odd.w));
#end
#if NVFP4
    let byte = (extra(i >> 2u) >> (8u * ((i >> 1u) & 1u))) & 255u;
    let exponent = (byte >> 3u) & 15u;
    let mantissa = byte & 7u;
    let power = bitcast<f32>((max(exponent, 1u) + 116u) << 23u);
    let scale = power * f32(select(8u + mantissa, mantissa, exponent == 0u));
    return eight(weights[i], select(scale, 0.0, byte == 0x7fu));
#end
#if TERNARY
    let code = half_of(weights[i >> 1u], i);
    let d = head(i >> 5u);
    return Chunk(d * (vec4<f32>(pairs(code)) - 1.0), d * (vec4<f32>(pairs(code >> 8u)) - 1.0));
#end
#if IQ1
    let u = i >> 2u;
    let k = i & 3u;
    let low = (weights[u] >> (8u * k)) & 255u;
    let more = extra(u);
#if IQ1_S
    let code = row(low | (((more >> (3u * k)) & 7u) << 8u));
    let scale = head(i >> 5u) * f32(2u * ((more >> 12u) & 7u) + 1u);
    let negative = (more >> 15u) != 0u;
#else
    let high = more >> (4u * k);
    let code = row(low | ((high & 7u) << 8u));
    // Four times 12 bits of scales, with four bits of `d` above each.
    let at = p.heads_at + 2u * (i >> 5u);
    let a = weights[at];
    let b = weights[at + 1u];
    let d = unpack2x16float(((a >> 12u) & 15u) | ((a >> 24u) & 0xf0u) | ((b >> 4u) & 0xf00u) | ((b >> 16u) & 0xf000u)).x;
    let four = half_of(select(a, b, (u & 4u) != 0u), u >> 1u);
    let scale = d * f32(2u * ((four >> (6u * (u & 1u) + 3u * (k >> 1u))) & 7u) + 1u);
    let negative = (high & 8u) != 0u;
#end
    let shift = select(-0.875, -1.125, negative);
    return Chunk(scale * (vec4<f32>(pairs(code)) + shift), scale * (vec4<f32>(pairs(code >> 8u)) + shift));
#end
}
