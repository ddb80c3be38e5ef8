// A causal convolution of each channel with its own kernel: a lane one channel of one row.
struct Params { rows: u32, row_at: u32, channels: u32, taps: u32 }
@group(0) @binding(0) var<storage, read> inputs: array<f32>;    // (n, channels)
@group(0) @binding(1) var<storage, read> past: array<f32>;      // (taps - 1, channels) of the rows before
@group(0) @binding(2) var<storage, read> weights: array<f32>;   // (channels, taps)
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // (n, channels)
#if BIAS
@group(0) @binding(4) var<storage, read> bias: array<f32>;      // (channels)
#end
@group(1) @binding(0) var<uniform> p: Params;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let earlier = p.taps - 1u;
    for (var i = id.x; i < p.rows * p.channels; i += 256u * groups.x) {
        let row = i / p.channels;
        let channel = i % p.channels;
#if BIAS
        var sum = bias[channel];
#else
        var sum = 0.0;
#end
        for (var tap = 0u; tap < p.taps; tap++) {
            let line = row + tap;
            var value = 0.0;
            if (line < earlier) {
                value = past[line * p.channels + channel];
            } else {
                value = inputs[(p.row_at + line - earlier) * p.channels + channel];
            }
            sum += value * weights[channel * p.taps + tap];
        }
#if SILU
        sum /= 1.0 + exp(-sum);
#end
        out[p.row_at * p.channels + i] = sum;
    }
}
