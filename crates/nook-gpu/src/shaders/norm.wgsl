// Norms of rows of `width` numbers: root mean square, or mean and deviation. A workgroup takes one row.
struct Params { width: u32, count: u32, epsilon: f32 }
#if IN_PLACE
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
#else
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
#end
#if WEIGHT
@group(0) @binding(${WEIGHT_AT}) var<storage, read> weight: array<f32>;
#end
#if BIAS
@group(0) @binding(${BIAS_AT}) var<storage, read> bias: array<f32>;
#end
@group(1) @binding(0) var<uniform> p: Params;
const LANES = 128u;
var<workgroup> sums: array<f32, 128>;

fn value(i: u32) -> f32 {
#if IN_PLACE
    return out[i];
#else
    return x[i];
#end
}

fn total(lane: u32, own: f32) -> f32 {
    sums[lane] = own;
    workgroupBarrier();
#for k 7
    if (lane < (64u >> ${k}u)) { sums[lane] += sums[lane + (64u >> ${k}u)]; }
    workgroupBarrier();
#end
    let sum = sums[0];
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group.x + group.y * groups.x;
    if (row >= p.count) { return; }
    let at = row * p.width;
    var mean = 0.0;
#if LAYER
    var plain = 0.0;
    for (var i = lane; i < p.width; i += LANES) { plain += value(at + i); }
    mean = total(lane, plain) / f32(p.width);
#end
    var squares = 0.0;
    for (var i = lane; i < p.width; i += LANES) { let v = value(at + i) - mean; squares += v * v; }
    let factor = 1.0 / sqrt(total(lane, squares) / f32(p.width) + p.epsilon);
    for (var i = lane; i < p.width; i += LANES) {
        var v = (value(at + i) - mean) * factor;
#if WEIGHT
        v *= weight[i];
#end
#if BIAS
        v += bias[i];
#end
        out[at + i] = v;
    }
}
