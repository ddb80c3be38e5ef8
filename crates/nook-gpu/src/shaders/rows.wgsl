// Rows that are changed by their own mean: a workgroup takes one row.
struct Params { width: u32, count: u32, factor: f32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
#if LENGTH
@group(0) @binding(1) var<storage, read> model: array<f32>;
#end
@group(1) @binding(0) var<uniform> p: Params;
const LANES = 128u;
var<workgroup> sums: array<vec2<f32>, 128>;

fn total(lane: u32, own: vec2<f32>) -> vec2<f32> {
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
    var own = vec2<f32>(0.0);
#if LENGTH
    // As long as the row of the model, where `factor` is the least mean square of a row.
    for (var i = lane; i < p.width; i += LANES) {
        let v = vec2<f32>(model[at + i], x[at + i]);
        own += v * v;
    }
    let squares = total(lane, own) / f32(p.width);
    let scale = sqrt(squares.x) / sqrt(max(squares.y, p.factor));
    for (var i = lane; i < p.width; i += LANES) { x[at + i] *= scale; }
#else
    // What is above the mean by more than `factor` deviations counts by what it is above that.
    for (var i = lane; i < p.width; i += LANES) { own.x += x[at + i]; }
    let mean = total(lane, own).x / f32(p.width);
    own = vec2<f32>(0.0);
    for (var i = lane; i < p.width; i += LANES) { let v = x[at + i] - mean; own.x += v * v; }
    let least = mean + sqrt(total(lane, own).x / f32(p.width)) * p.factor;
    for (var i = lane; i < p.width; i += LANES) { x[at + i] = max(x[at + i] - least, 0.0); }
#end
}
