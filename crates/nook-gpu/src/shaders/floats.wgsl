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
}
