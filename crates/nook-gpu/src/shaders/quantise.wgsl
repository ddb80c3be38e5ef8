// Activations to bytes, exactly as nook-kernels rounds them: a scale for each span of SPAN columns.
// A workgroup takes 256 columns of one row, a lane four of them.
struct Params { columns: u32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> xq: array<u32>;
@group(0) @binding(2) var<storage, read_write> xs: array<f32>;
@group(0) @binding(3) var<storage, read_write> xsum: array<u32>;
@group(1) @binding(0) var<uniform> p: Params;
var<workgroup> greatest: array<u32, 64>;
var<workgroup> sums: array<i32, 64>;

// Drivers may divide with an error of some units in the last place; these two divide in integers, rounded
// to nearest, halves to even. `bits` is a finite number of at least 1e-30.

// 127 / x
fn inverse(bits: u32) -> f32 {
    let exponent = bits >> 23u;
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    var rest = 127u << 16u;
    var quotient = 0u;
    for (var k = 0u; k < 24u; k++) {
        rest <<= 1u;
        quotient <<= 1u;
        if (rest >= mantissa) { rest -= mantissa; quotient |= 1u; }
    }
    var power = 260u - exponent;
    if (quotient < 0x800000u) {
        rest <<= 1u;
        quotient <<= 1u;
        if (rest >= mantissa) { rest -= mantissa; quotient |= 1u; }
        power -= 1u;
    }
    let twice = 2u * rest;
    let up = twice > mantissa || (twice == mantissa && (quotient & 1u) == 1u);
    return bitcast<f32>((power << 23u) + (quotient - 0x800000u) + select(0u, 1u, up));
}

// x / 127
fn part(bits: u32) -> f32 {
    let exponent = bits >> 23u;
    let wide = ((bits & 0x7fffffu) | 0x800000u) << 7u;
    let quotient = wide / 127u;
    let rest = wide % 127u;
    if (quotient < 0x1000000u) {
        return bitcast<f32>(((exponent - 7u) << 23u) + (quotient - 0x800000u) + select(0u, 1u, 2u * rest > 127u));
    }
    let half = quotient >> 1u;
    let up = (quotient & 1u) == 1u && (rest != 0u || (half & 1u) == 1u);
    return bitcast<f32>(((exponent - 6u) << 23u) + (half - 0x800000u) + select(0u, 1u, up));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let column = group.x * 256u + lane * 4u;
    let row = group.y + group.z * 65535u;
    let inside = column < p.columns && row < p.n;
    var four = vec4<f32>(0.0);
    if (inside) {
        let at = row * p.columns + column;
        four = vec4<f32>(x[at], x[at + 1u], x[at + 2u], x[at + 3u]);
    }
    let sizes = bitcast<vec4<u32>>(four) & vec4<u32>(0x7fffffffu);
    greatest[lane] = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
    workgroupBarrier();
#for k STEPS
    if (lane % ${SPAN_LANES}u < (${SPAN_LANES}u >> (${k}u + 1u))) {
        greatest[lane] = max(greatest[lane], greatest[lane + (${SPAN_LANES}u >> (${k}u + 1u))]);
    }
    workgroupBarrier();
#end
    let size = greatest[lane - lane % ${SPAN_LANES}u];
    var word = 0u;
    var scale = 0.0;
    if (size >= 0x7f800000u) {
        scale = bitcast<f32>(0x7fc00000u | (size & 0u));
    } else if (size >= 0x0da24260u) {   // 1e-30
        scale = part(size);
        let q = vec4<i32>(round(four * inverse(size)));
        let bytes = bitcast<vec4<u32>>(q) & vec4<u32>(255u);
        word = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | (bytes.w << 24u);
    }
    sums[lane] = dot4I8Packed(word, 0x01010101u);
    workgroupBarrier();
    if (inside) {
        let at = row * p.columns + column;
        xq[at / 4u] = word;
        if (lane % ${SPAN_LANES}u == 0u) { xs[at / ${SPAN}u] = scale; }
        if (lane % 8u == 0u) {
            let low = sums[lane] + sums[lane + 1u] + sums[lane + 2u] + sums[lane + 3u];
            let high = sums[lane + 4u] + sums[lane + 5u] + sums[lane + 6u] + sums[lane + 7u];
            xsum[at / 32u] = (bitcast<u32>(low) & 0xffffu) | (bitcast<u32>(high) << 16u);
        }
    }
}
