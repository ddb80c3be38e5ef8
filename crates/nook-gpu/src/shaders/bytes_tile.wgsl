// Products of many rows of activations, for prompts: a workgroup computes 64 rows of weights by 64 rows of
// activations, a lane 4 by 4 of them. Weights are read once for all 64 rows.
@group(0) @binding(2) var<storage, read> xq: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> xs: array<f32>;
@group(0) @binding(4) var<storage, read> xsum: array<u32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

// Units u and u + 1; of each the first and second half; 64 rows.
var<workgroup> tile_w: array<vec4<u32>, 256>;
var<workgroup> tile_x: array<vec4<u32>, 256>;
// Of weights: d * scale of both halves, m * minimum of both. Of activations: scale, scaled sums.
var<workgroup> factor_w: array<vec4<f32>, 128>;
var<workgroup> factor_x: array<vec4<f32>, 128>;

#if ZERO
fn centred(word: vec4<u32>) -> vec4<u32> {
    let top = vec4<u32>(0x80808080u);
    return ((word | top) - vec4<u32>(${ZERO}u * 0x01010101u)) ^ top;
}
#end

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group.x * 64u;
    let origin = group.y * 64u;
    let column = lane & 15u;
    let line = lane >> 4u;
#for t 4
#for r 4
    var sum${t}_${r} = 0.0;
#end
#end
    let loads = lane & 63u;
    let which = (lane >> 6u) & 1u;
    for (var base = 0u; base < p.units; base += 2u) {
        let u = min(base + which, p.units - 1u);
        let counts = select(0.0, 1.0, base + which < p.units);
        if (lane < 128u) {
            let i = min(first + loads, p.rows - 1u) * p.units + u;
            let q = quants(i);
            let s = vec4<f32>(scales(i));
            let h = head(i / ${BLOCK_UNITS}u) * counts;
#if ZERO
            tile_w[128u * which + loads] = centred(q.a);
            tile_w[128u * which + 64u + loads] = centred(q.b);
#else
            tile_w[128u * which + loads] = q.a;
            tile_w[128u * which + 64u + loads] = q.b;
#end
            factor_w[64u * which + loads] = vec4<f32>(h.x * s.xy, h.y * s.zw);
        } else {
            let at = min(origin + loads, p.n - 1u) * p.units + u;
            tile_x[128u * which + loads] = xq[2u * at];
            tile_x[128u * which + 64u + loads] = xq[2u * at + 1u];
            let dx = xs[at / ${BLOCK_UNITS}u];
            let sums = vec2<f32>(halves(xsum[at]));
            factor_x[64u * which + loads] = vec4<f32>(dx, dx * sums.x, dx * sums.y, 0.0);
        }
        workgroupBarrier();
        // Terms of one round are added up first: shorter sums round less.
#for t 4
#for r 4
        var part${t}_${r} = 0.0;
#end
#end
#for k 2
        {
#for r 4
            let wa${r} = tile_w[128u * ${k}u + 16u * ${r}u + column];
            let wb${r} = tile_w[128u * ${k}u + 64u + 16u * ${r}u + column];
            let wf${r} = factor_w[64u * ${k}u + 16u * ${r}u + column];
#end
#for t 4
            {
                let xa = tile_x[128u * ${k}u + 16u * ${t}u + line];
                let xb = tile_x[128u * ${k}u + 64u + 16u * ${t}u + line];
                let xf = factor_x[64u * ${k}u + 16u * ${t}u + line];
#for r 4
#if TWO_SCALES
                let term${r} = (f32(dot16(wa${r}, xa)) * wf${r}.x + f32(dot16(wb${r}, xb)) * wf${r}.y) * xf.x;
#else
                let term${r} = f32(dot16(wa${r}, xa) + dot16(wb${r}, xb)) * (wf${r}.x * xf.x);
#end
#if MINIMUM
                part${t}_${r} += term${r} - (wf${r}.z * xf.y + wf${r}.w * xf.z);
#else
                part${t}_${r} += term${r};
#end
#end
            }
#end
        }
#end
#for t 4
#for r 4
        sum${t}_${r} += part${t}_${r};
#end
#end
        workgroupBarrier();
    }
#for t 4
#for r 4
    {
        let row = first + 16u * ${r}u + column;
        let t = origin + 16u * ${t}u + line;
        if (row < p.rows && t < p.n) { out[t * p.out_rows + p.first + row] = sum${t}_${r}; }
    }
#end
#end
}
