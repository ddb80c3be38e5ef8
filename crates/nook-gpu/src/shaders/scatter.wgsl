// Adds rows to the rows of another buffer, by number. No number stands twice.
struct Params { width: u32, count: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < p.count * p.width; i += 256u * groups.x) {
        out[rows[i / p.width] * p.width + i % p.width] += x[i];
    }
}
