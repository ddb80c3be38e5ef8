// Mamba-2: a workgroup takes the rows of one session through the state of one head, one row after the other;
// a lane takes lines of the state.
struct Params {
    rows: u32, row_at: u32, heads: u32, dim: u32, groups: u32, places: u32,
    state_at: u32,   // where the states begin, in numbers
}
@group(0) @binding(0) var<storage, read> convolved: array<f32>;  // (n, channels): inputs, where to put, where to read
@group(0) @binding(1) var<storage, read> steps: array<f32>;      // (n, heads)
@group(0) @binding(2) var<storage, read> bias: array<f32>;       // (heads)
@group(0) @binding(3) var<storage, read> decay: array<f32>;      // (heads)
@group(0) @binding(4) var<storage, read> skip: array<f32>;       // (heads)
@group(0) @binding(5) var<storage, read_write> state: array<f32>; // head, then (dim, places)
@group(0) @binding(6) var<storage, read_write> out: array<f32>;   // (n, heads, dim)
@group(1) @binding(0) var<uniform> p: Params;
const LANES = 64u;
var<workgroup> puts: array<f32, ${PLACES}>;
var<workgroup> reads: array<f32, ${PLACES}>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x;
    let inner = p.heads * p.dim;
    let channels = inner + 2u * p.groups * p.places;
    let put_at = inner + head / (p.heads / p.groups) * p.places;
    let read_at = put_at + p.groups * p.places;
    let own = p.state_at + head * p.dim * p.places;
    for (var row = 0u; row < p.rows; row++) {
        let line = p.row_at + row;
        for (var j = lane; j < p.places; j += LANES) {
            puts[j] = convolved[line * channels + put_at + j];
            reads[j] = convolved[line * channels + read_at + j];
        }
        workgroupBarrier();
        let step = softplus(steps[line * p.heads + head] + bias[head]);
        let kept = exp(step * decay[head]);
        for (var i = lane; i < p.dim; i += LANES) {
            let input = convolved[line * channels + head * p.dim + i];
            let scaled = step * input;
            var read = 0.0;
            for (var j = 0u; j < p.places; j++) {
                let at = own + i * p.places + j;
                let after = state[at] * kept + scaled * puts[j];
                state[at] = after;
                read += after * reads[j];
            }
            out[(line * p.heads + head) * p.dim + i] = read + skip[head] * input;
        }
        workgroupBarrier();
    }
}
