// Several hidden states of a position side by side: a lane takes one number of all streams of a row.
struct Params { rows: u32, hidden: u32, own: u32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;  // (n, streams, hidden)
@group(0) @binding(1) var<storage, read> made: array<f32>;     // (n, hidden), or shares (n, streams * streams)
#if CORRECT
@group(0) @binding(2) var<storage, read> shares: array<f32>;   // (n, streams)
#end
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < p.rows * p.hidden; i += 256u * groups.x) {
        let row = i / p.hidden;
        let at = row * ${STREAMS}u * p.hidden + i % p.hidden;
#for s STREAMS
        let before${s} = x[at + ${s}u * p.hidden];
#end
#if PREDICT
#for s STREAMS
        var after${s} = before${s};
#for t STREAMS
        after${s} += made[(row * ${STREAMS}u + ${s}u) * ${STREAMS}u + ${t}u] * before${t};
#end
        x[at + ${s}u * p.hidden] = after${s};
#end
#end
#if CORRECT
        let change = made[i] - x[at + p.own * p.hidden];
#for s STREAMS
        x[at + ${s}u * p.hidden] = before${s} + (shares[row * ${STREAMS}u + ${s}u] + 1.0) * change;
#end
#end
#if OTHERS
#for s STREAMS
#if s
        x[at + ${s}u * p.hidden] = before${s} + made[i];
#end
#end
#end
    }
}
