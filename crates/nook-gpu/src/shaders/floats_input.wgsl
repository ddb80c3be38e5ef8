// Activations of chunk `c` of row `t`.
#if ALIGNED
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
fn input(t: u32, c: u32) -> Chunk {
    let at = t * (p.columns / 4u) + 2u * c;
    return Chunk(x[at], x[at + 1u]);
}
#else
@group(0) @binding(2) var<storage, read> x: array<f32>;
fn one(t: u32, c: u32) -> f32 {
    if (c < p.columns) { return x[t * p.columns + c]; }
    return 0.0;
}
fn input(t: u32, c: u32) -> Chunk {
    let at = 8u * c;
    return Chunk(
        vec4<f32>(one(t, at), one(t, at + 1u), one(t, at + 2u), one(t, at + 3u)),
        vec4<f32>(one(t, at + 4u), one(t, at + 5u), one(t, at + 6u), one(t, at + 7u)));
}
#end
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
