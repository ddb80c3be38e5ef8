// Products of many rows of activations: a workgroup computes 64 rows of weights by 64 of activations, a lane
// 4 by 4 of them, 16 columns at a time.
var<workgroup> tile_w: array<vec4<f32>, 256>;
var<workgroup> tile_x: array<vec4<f32>, 256>;

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
        if (lane < 128u) {
            let w = chunk(min(first + loads, p.rows - 1u) * p.units + u);
            let counts = select(0.0, 1.0, base + which < p.units);
            tile_w[128u * which + loads] = w.a * counts;
            tile_w[128u * which + 64u + loads] = w.b * counts;
        } else {
            let v = input(min(origin + loads, p.n - 1u), u);
            tile_x[128u * which + loads] = v.a;
            tile_x[128u * which + 64u + loads] = v.b;
        }
        workgroupBarrier();
        // Terms of one round are added up first: shorter sums round less.
#for t 4
#for r 4
        var part${t}_${r} = 0.0;
#end
#end
#for k 4
        {
#for r 4
            let w${r} = tile_w[64u * ${k}u + 16u * ${r}u + column];
#end
#for t 4
            {
                let v = tile_x[64u * ${k}u + 16u * ${t}u + line];
#for r 4
                part${t}_${r} += dot(w${r}, v);
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
