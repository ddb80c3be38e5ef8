// The product as nook-kernels defines it, bit for bit: 32 accumulators, added by halves.
var<workgroup> sums: array<f32, 32>;

fn kept(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ p.zero); }

@compute @workgroup_size(32)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = group.x + group.y * groups.x;
    let t = group.z;
    if (row >= p.rows) { return; }
    var sum = 0.0;
    for (var column = lane; column < p.columns; column += 32u) {
        let w = chunk(row * p.units + column / 8u);
        let v = input(t, column / 8u);
        let k = column & 3u;
        let low = (column & 4u) == 0u;
        sum += kept(select(w.b[k], w.a[k], low) * select(v.b[k], v.a[k], low));
    }
    sums[lane] = sum;
    workgroupBarrier();
#for k 5
    if (lane < (16u >> ${k}u)) { sums[lane] += sums[lane + (16u >> ${k}u)]; }
    workgroupBarrier();
#end
    if (lane == 0u) { out[t * p.out_rows + p.first + row] = sums[0]; }
}
