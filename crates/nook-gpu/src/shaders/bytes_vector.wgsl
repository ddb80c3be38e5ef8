// Products of a few rows of activations, for decode steps: a workgroup takes ROWS rows of weights and all
// of their columns, a lane one unit of 32 columns of each row at a time.
@group(0) @binding(2) var<storage, read> xq: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> xs: array<f32>;
@group(0) @binding(4) var<storage, read> xsum: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

#if SUBGROUP
var<workgroup> partial: array<f32, ${PARTIAL}>;
#else
var<workgroup> partial: array<f32, ${PARTIAL}>;
#end

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
        let q${r} = quants(row${r} + u);
#if FLOAT_SCALES
        let s${r} = scales(row${r} + u);
#else
        let h${r} = head((row${r} + u) / ${BLOCK_UNITS}u);
#end
#if COARSE
        let s${r} = scales(row${r} + u);
#end
#end
#for t N
        {
            let at = min(origin + ${t}u, p.n - 1u) * p.units + u;
            let xa = xq[2u * at];
            let xb = xq[2u * at + 1u];
            let dx = xs[at / ${BLOCK_UNITS}u];
#if SUMS
            let sums = halves(xsum[at]);
#end
#for r ROWS
            {
#if FLOAT_SCALES
                sum${r}_${t} += (f32(dot16(q${r}.a, xa)) * s${r}.x + f32(dot16(q${r}.b, xb)) * s${r}.y) * dx;
#else
#if COARSE
#if ZERO
                let i = s${r}.x * (dot16(q${r}.a, xa) - ${ZERO} * sums.x) + s${r}.y * (dot16(q${r}.b, xb) - ${ZERO} * sums.y);
#else
                let i = s${r}.x * dot16(q${r}.a, xa) + s${r}.y * dot16(q${r}.b, xb);
#end
#if MINIMUM
                let j = s${r}.z * sums.x + s${r}.w * sums.y;
                sum${r}_${t} += (f32(i) * h${r}.x - f32(j) * h${r}.y) * dx;
#else
                sum${r}_${t} += f32(i) * h${r}.x * dx;
#end
#else
#if ZERO
                let i = dot16(q${r}.a, xa) + dot16(q${r}.b, xb) - ${ZERO} * (sums.x + sums.y);
#else
                let i = dot16(q${r}.a, xa) + dot16(q${r}.b, xb);
#end
#if MINIMUM
                sum${r}_${t} += f32(i) * (h${r}.x * dx) - h${r}.y * (f32(sums.x + sums.y) * dx);
#else
                sum${r}_${t} += f32(i) * (h${r}.x * dx);
#end
#end
#end
            }
#end
        }
#end
    }
${REDUCE}
}
