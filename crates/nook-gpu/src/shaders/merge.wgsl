// Joins the shares of one attention: each has its mix, its greatest score and its sum of weights.
struct Params { lines: u32, line_at: u32, splits: u32, dim: u32 }
@group(0) @binding(0) var<storage, read> shares: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let line = group.x + group.y * groups.x;
    if (line >= p.lines) { return; }
    let wide = p.dim + 2u;
    let start = line * p.splits * wide;
    var top = -3.0e38;
    for (var s = 0u; s < p.splits; s++) { top = max(top, shares[start + s * wide + p.dim]); }
    var sum = 0.0;
    for (var s = 0u; s < p.splits; s++) {
        sum += shares[start + s * wide + p.dim + 1u] * exp(shares[start + s * wide + p.dim] - top);
    }
    for (var i = lane; i < p.dim; i += 64u) {
        var mixed = 0.0;
        for (var s = 0u; s < p.splits; s++) {
            mixed += shares[start + s * wide + i] * exp(shares[start + s * wide + p.dim] - top);
        }
        out[(p.line_at + line) * p.dim + i] = mixed / sum;
    }
}
