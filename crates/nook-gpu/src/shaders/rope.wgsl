// Rotary positions: a part of each head is turned in place, pair by pair.
struct Params { rows: u32, heads: u32, head_dim: u32, offset: u32, pairs: u32, halves: u32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> cosines: array<f32>;
@group(0) @binding(2) var<storage, read> sines: array<f32>;
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < p.rows * p.heads * p.pairs; i += 256u * groups.x) {
        let pair = i % p.pairs;
        let head = i / p.pairs;
        let turn = head / p.heads * p.pairs + pair;
        let at = head * p.head_dim + p.offset;
        let a = select(at + 2u * pair, at + pair, p.halves == 1u);
        let b = select(at + 2u * pair + 1u, at + p.pairs + pair, p.halves == 1u);
        let c = cosines[turn];
        let s = sines[turn];
        let u = x[a];
        let v = x[b];
        x[a] = u * c - v * s;
        x[b] = u * s + v * c;
    }
}
