// Rows of keys or values into a cache (position, kv head, number), rounded to half precision where it is
// kept so: to nearest, halves to even, whatever the driver does.
struct Params { width: u32, rows: u32, row_at: u32, position: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> cache: array<u32>;
@group(1) @binding(0) var<uniform> p: Params;

#if HALF
fn half(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) { return sign | 0x7e00u; }
    if (size >= 0x477ff000u) { return sign | 0x7c00u; }
    if (size >= 0x38800000u) {
        let moved = size - 0x38000000u;
        return sign | ((moved + 0xfffu + ((moved >> 13u) & 1u)) >> 13u);
    }
    let exponent = size >> 23u;
    if (exponent < 102u) { return sign; }
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let shift = 126u - exponent;
    let kept = mantissa >> shift;
    let rest = mantissa & ((1u << shift) - 1u);
    let middle = 1u << (shift - 1u);
    let up = rest > middle || (rest == middle && (kept & 1u) == 1u);
    return sign | (kept + select(0u, 1u, up));
}
#end

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
#if HALF
    let words = p.width / 2u;
    for (var i = id.x; i < p.rows * words; i += 256u * groups.x) {
        let at = p.row_at * p.width + 2u * i;
        cache[p.position * words + i] = half(x[at]) | (half(x[at + 1u]) << 16u);
    }
#else
    for (var i = id.x; i < p.rows * p.width; i += 256u * groups.x) {
        cache[p.position * p.width + i] = bitcast<u32>(x[p.row_at * p.width + i]);
    }
#end
}
