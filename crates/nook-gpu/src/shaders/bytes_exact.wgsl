// The product as nook-kernels defines it, bit for bit: blocks are summed exactly in integers, their terms
// computed by 32 lanes and added one after another by the first.
@group(0) @binding(2) var<storage, read> xq: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> xs: array<f32>;
@group(0) @binding(4) var<storage, read> xsum: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;
var<workgroup> terms: array<f32, 32>;

// No compiler can know that this is the number itself, so none fuses a product with a sum across it.
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
    let blocks = p.units / ${BLOCK_UNITS}u;
    var sum = 0.0;
    for (var base = 0u; base < blocks; base += 32u) {
        let block = base + lane;
        if (block < blocks) {
#if FLOAT_SCALES
            // Of the two products nothing is rounded, so it does not matter whether one is fused.
            let q = quants(row * p.units + block);
            let s = scales(row * p.units + block);
            let at = t * p.units + block;
            let term = kept(f32(dot16(q.a, xq[2u * at])) * s.x + f32(dot16(q.b, xq[2u * at + 1u])) * s.y);
            terms[lane] = kept(term * xs[at]);
#else
            var i = 0;
            var j = 0;
            for (var u = 0u; u < ${BLOCK_UNITS}u; u++) {
                let unit = row * p.units + block * ${BLOCK_UNITS}u + u;
                let at = t * p.units + block * ${BLOCK_UNITS}u + u;
                let q = quants(unit);
                let s = scales(unit);
                let sums = halves(xsum[at]);
                i += s.x * (dot16(q.a, xq[2u * at]) - ${ZERO} * sums.x);
                i += s.y * (dot16(q.b, xq[2u * at + 1u]) - ${ZERO} * sums.y);
                j += s.z * sums.x + s.w * sums.y;
            }
            let h = head(row * blocks + block);
            let dx = xs[t * blocks + block];
#if COARSE
#if MINIMUM
            terms[lane] = kept((kept(f32(i) * h.x) - kept(f32(j) * h.y)) * dx);
#else
            terms[lane] = kept(kept(f32(i) * h.x) * dx);
#end
#else
#if MINIMUM
            terms[lane] = kept(kept(f32(i) * kept(h.x * dx)) - kept(h.y * kept(f32(j) * dx)));
#else
            terms[lane] = kept(f32(i) * kept(h.x * dx));
#end
#end
#end
        }
        workgroupBarrier();
        if (lane == 0u) {
            for (var k = 0u; k < min(32u, blocks - base); k++) { sum += terms[k]; }
        }
        workgroupBarrier();
    }
    if (lane == 0u) { out[t * p.out_rows + p.first + row] = sum; }
}
