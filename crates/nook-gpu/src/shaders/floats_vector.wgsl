// Products of a few rows of activations: a workgroup takes ROWS rows of weights, a lane one chunk of 8
// columns of each at a time.
var<workgroup> partial: array<f32, ${PARTIAL}>;

@compute @workgroup_size(${LANES})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
#if SUBGROUP
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
    @builtin(subgroup_invocation_id) inside: u32,
#end
) {
    let first = (group.x + group.y * groups.x) * ${ROWS}u;
    if (first >= p.rows) { return; }
    let last = p.rows - 1u;
    let origin = group.z * ${N}u;
#for r ROWS
    let row${r} = min(first + ${r}u, last) * p.units;
#for t N
    var sum${r}_${t} = 0.0;
#end
#end
    for (var u = lane; u < p.units; u += ${LANES}u) {
#for r ROWS
        let w${r} = chunk(row${r} + u);
#end
#for t N
        {
            let v = input(min(origin + ${t}u, p.n - 1u), u);
#for r ROWS
            sum${r}_${t} += dot(w${r}.a, v.a) + dot(w${r}.b, v.b);
#end
        }
#end
    }
${REDUCE}
}
