// The gated delta rule: a workgroup takes the rows of one session through the state of one value head, one
// row after the other; a lane takes columns of the state.
struct Params {
    rows: u32, row_at: u32, key_heads: u32, value_heads: u32, dim: u32,
    state_at: u32,   // where the states begin, in numbers
    epsilon: f32,
    together: u32,   // value heads that follow each other and share a key head; 0: head h has key head h % key_heads
}
@group(0) @binding(0) var<storage, read> convolved: array<f32>;  // (n, channels): queries, keys, values
@group(0) @binding(1) var<storage, read> betas: array<f32>;      // (n, value_heads)
@group(0) @binding(2) var<storage, read> alphas: array<f32>;     // (n, value_heads)
@group(0) @binding(3) var<storage, read> bias: array<f32>;       // (value_heads)
@group(0) @binding(4) var<storage, read> decay: array<f32>;      // (value_heads)
@group(0) @binding(5) var<storage, read_write> state: array<f32>; // value head, then (dim of keys, dim of values)
@group(0) @binding(6) var<storage, read_write> out: array<f32>;   // (n, value_heads, dim)
@group(1) @binding(0) var<uniform> p: Params;
const LANES = 64u;
var<workgroup> query: array<f32, ${DIM}>;
var<workgroup> key: array<f32, ${DIM}>;
var<workgroup> sums: array<vec2<f32>, 64>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let keys = p.key_heads * p.dim;
    let channels = 2u * keys + p.value_heads * p.dim;
    let own = p.state_at + head * p.dim * p.dim;
    let key_head = select(head / max(p.together, 1u), head % p.key_heads, p.together == 0u);
    for (var row = 0u; row < p.rows; row++) {
        let line = p.row_at + row;
        let from_key = line * channels + key_head * p.dim;
        var squares = vec2<f32>(0.0);
        for (var i = lane; i < p.dim; i += LANES) {
            let q = convolved[from_key + i];
            let k = convolved[from_key + keys + i];
            query[i] = q;
            key[i] = k;
            squares += vec2<f32>(q * q, k * k);
        }
        sums[lane] = squares;
        workgroupBarrier();
#for k 6
        if (lane < (32u >> ${k}u)) { sums[lane] += sums[lane + (32u >> ${k}u)]; }
        workgroupBarrier();
#end
        let scale_q = 1.0 / sqrt(sums[0].x + p.epsilon) / sqrt(f32(p.dim));
        let scale_k = 1.0 / sqrt(sums[0].y + p.epsilon);
        let beta = 1.0 / (1.0 + exp(-betas[line * p.value_heads + head]));
        let kept = exp(decay[head] * softplus(alphas[line * p.value_heads + head] + bias[head]));
        for (var j = lane; j < p.dim; j += LANES) {
            var held = 0.0;
            for (var i = 0u; i < p.dim; i++) { held += key[i] * state[own + i * p.dim + j]; }
            let value = convolved[line * channels + 2u * keys + head * p.dim + j];
            let correction = (value - held * scale_k * kept) * beta * scale_k;
            var read = 0.0;
            for (var i = 0u; i < p.dim; i++) {
                let at = own + i * p.dim + j;
                let after = state[at] * kept + key[i] * correction;
                state[at] = after;
                read += query[i] * after;
            }
            out[(line * p.value_heads + head) * p.dim + j] = read * scale_q;
        }
        workgroupBarrier();
    }
}
