// Some columns of rows into some columns of other rows; each row may be repeated.
struct Params { rows: u32, width: u32, source_stride: u32, source_at: u32, stride: u32, at: u32, repeat: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < p.rows * p.width; i += 256u * groups.x) {
        let row = i / p.width;
        let column = i % p.width;
        out[row * p.stride + p.at + column] = x[row / p.repeat * p.source_stride + p.source_at + column];
    }
}
