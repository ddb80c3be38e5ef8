// Functions of each number of a buffer, with the numbers of another.
struct Params { count: u32, width: u32, factor: f32, second: f32, row: u32 }
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
#if TWO
@group(0) @binding(1) var<storage, read> y: array<f32>;
#end
@group(1) @binding(0) var<uniform> p: Params;

fn sigmoid(v: f32) -> f32 { return 1.0 / (1.0 + exp(-v)); }

// The driver's own may overflow far from zero, and be coarse near it.
fn tangent(v: f32) -> f32 {
    let s = abs(v);
    if (s < 0.125) {
        let q = v * v;
        return v * (1.0 - q * (0.33333334 - q * (0.13333334 - q * 0.053968254)));
    }
    let e = exp(-2.0 * s);
    return sign(v) * ((1.0 - e) / (1.0 + e));
}

fn silu(v: f32) -> f32 { return v / (1.0 + exp(-v)); }

fn gelu(v: f32) -> f32 { return 0.5 * v * (1.0 + tangent(0.7978846 * (v + 0.044715 * v * v * v))); }

fn squared(v: f32) -> f32 {
    let above = max(v, 0.0);
    return above * above;
}

// `factor` bounds both, `second` is how steep the gate is.
fn clamped(v: f32, other: f32) -> f32 {
    let gate = min(v, p.factor);
    return gate * sigmoid(p.second * gate) * (clamp(other, -p.factor, p.factor) + 1.0);
}

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    for (var i = id.x; i < p.count; i += 256u * groups.x) {
        ${FUNCTION}
    }
}
