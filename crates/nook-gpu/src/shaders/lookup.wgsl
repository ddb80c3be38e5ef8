// Rows of a matrix as numbers, as an embedding gives them; a lane a unit of a row.
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let u = group.x * 64u + lane;
    let row = ids[group.y] - p.first;
    // A row of another piece wraps round to a number past these.
    if (u >= p.units || row >= p.rows) { return; }
    let i = row * p.units + u;
    let factor = bitcast<f32>(p.n);
#if BYTES
    let at = group.y * p.units * 32u + u * 32u;
    let q = quants(i);
    let s = vec4<f32>(scales(i));
    let h = head(i / ${BLOCK_UNITS}u);
    let d = h.x * s.xy;
    let m = h.y * s.zw;
#for k 4
#for b 4
    {
        let a = f32(signed(q.a[${k}u] >> (8u * ${b}u)) - ${ZERO}) * d.x - m.x;
        let c = f32(signed(q.b[${k}u] >> (8u * ${b}u)) - ${ZERO}) * d.y - m.y;
        out[at + 4u * ${k}u + ${b}u] = a * factor;
        out[at + 16u + 4u * ${k}u + ${b}u] = c * factor;
    }
#end
#end
#else
    let at = group.y * p.columns + 8u * u;
    let w = chunk(i);
#for k 4
    if (8u * u + ${k}u < p.columns) { out[at + ${k}u] = w.a[${k}u] * factor; }
    if (8u * u + 4u + ${k}u < p.columns) { out[at + 4u + ${k}u] = w.b[${k}u] * factor; }
#end
#end
}
#if BYTES
fn signed(byte: u32) -> i32 { return (i32(byte) << 24u) >> 24u; }
#end
