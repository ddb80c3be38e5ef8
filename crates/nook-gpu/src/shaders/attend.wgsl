// Causal attention of one session over its cache, with an online softmax: a workgroup takes TOGETHER query
// heads of one row, which share a key-value head, and a share of the positions, 64 at a time.
struct Params {
    first: u32,      // position of the first row
    row_at: u32,     // first row among the queries
    heads: u32,
    kv_heads: u32,
    scale: f32,
    cap: f32,        // 0: none
    window: u32,     // positions seen, itself among them; 0: all
    chunk: u32,      // positions of a chunk beyond which none are seen; 0: no chunks
    splits: u32,     // shares of the positions
}
@group(0) @binding(0) var<storage, read> queries: array<f32>;   // (n, heads, KEY_DIM)
@group(0) @binding(1) var<storage, read> keys: array<${KEY_TYPE}>;
@group(0) @binding(2) var<storage, read> values: array<${VALUE_TYPE}>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
#if SINKS
@group(0) @binding(4) var<storage, read> sinks: array<f32>;     // (heads)
#end
@group(1) @binding(0) var<uniform> p: Params;
var<workgroup> query: array<f32, ${QUERY_NUMBERS}>;
var<workgroup> scores: array<f32, ${SCORES}>;
var<workgroup> tops: array<f32, ${TOPS}>;
const LOWEST = -3.0e38;

fn tangent(v: f32) -> f32 {
    let s = abs(v);
    if (s < 0.125) {
        let q = v * v;
        return v * (1.0 - q * (0.33333334 - q * (0.13333334 - q * 0.053968254)));
    }
    let e = exp(-2.0 * s);
    return sign(v) * ((1.0 - e) / (1.0 + e));
}

fn capped(score: f32) -> f32 {
    if (p.cap == 0.0) { return score; }
    return p.cap * tangent(score / p.cap);
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let head = group.x * ${TOGETHER}u;
    let kv = head / (p.heads / p.kv_heads);
    let position = p.first + group.y;
    let row = p.row_at + group.y;
    for (var i = lane; i < ${QUERY_NUMBERS}u; i += 64u) {
        query[i] = queries[(row * p.heads + head) * ${KEY_DIM}u + i] * p.scale;
    }
    var low = 0u;
    if (p.window > 0u && position + 1u > p.window) { low = position + 1u - p.window; }
    if (p.chunk > 0u) { low = position - position % p.chunk; }
    let tiles = (position - low) / 64u + 1u;
    let share = (tiles + p.splits - 1u) / p.splits;
    let begin = group.z * share;
    let end = min(tiles, begin + share);
#for g TOGETHER
#if SINKS
    // A score of the first share alone, counted by its first lane.
    var top${g} = select(LOWEST, sinks[head + ${g}u], group.z == 0u);
    var sum${g} = select(0.0, 1.0, group.z == 0u && lane == 0u);
#else
    var top${g} = LOWEST;
    var sum${g} = 0.0;
#end
#for k SLOTS
    var mixed${g}_${k} = ${VALUE_ZERO};
#end
#end
    workgroupBarrier();
    for (var tile = begin; tile < end; tile++) {
        let at = low + tile * 64u;
        let seen = at + lane;
        let count = min(64u, position + 1u - at);
#for g TOGETHER
        var score${g} = 0.0;
#end
        if (lane < count) {
            let key = (seen * p.kv_heads + kv) * ${KEY_WORDS}u;
            for (var i = 0u; i < ${KEY_WORDS}u; i++) {
#if HALF
                let k = unpack2x16float(keys[key + i]);
#for g TOGETHER
                score${g} += query[${g}u * ${KEY_DIM}u + 2u * i] * k.x + query[${g}u * ${KEY_DIM}u + 2u * i + 1u] * k.y;
#end
#else
                let k = keys[key + i];
#for g TOGETHER
                score${g} += query[${g}u * ${KEY_DIM}u + i] * k;
#end
#end
            }
        }
#for g TOGETHER
        score${g} = select(LOWEST, capped(score${g}), lane < count);
        scores[${g}u * 64u + lane] = score${g};
#end
        workgroupBarrier();
        if (lane < ${TOPS}u) {
            var greatest = LOWEST;
            for (var i = 0u; i < 8u; i++) { greatest = max(greatest, scores[lane * 8u + i]); }
            tops[lane] = greatest;
        }
        workgroupBarrier();
#for g TOGETHER
        {
            var greatest = top${g};
            for (var i = 0u; i < 8u; i++) { greatest = max(greatest, tops[${g}u * 8u + i]); }
            let shrink = exp(top${g} - greatest);
            let weight = select(0.0, exp(score${g} - greatest), lane < count);
            top${g} = greatest;
            sum${g} = sum${g} * shrink + weight;
            scores[${g}u * 64u + lane] = weight;
#for k SLOTS
            mixed${g}_${k} *= shrink;
#end
        }
#end
        workgroupBarrier();
#for k SLOTS
        if (lane + 64u * ${k}u < ${VALUE_WORDS}u) {
            var value = (at * p.kv_heads + kv) * ${VALUE_WORDS}u + lane + 64u * ${k}u;
            for (var i = 0u; i < count; i++) {
#if HALF
                let v = unpack2x16float(values[value]);
#else
                let v = values[value];
#end
                value += p.kv_heads * ${VALUE_WORDS}u;
#for g TOGETHER
                mixed${g}_${k} += scores[${g}u * 64u + i] * v;
#end
            }
        }
#end
        workgroupBarrier();
    }
    // The lanes' shares of the sums.
#for g TOGETHER
    scores[${g}u * 64u + lane] = sum${g};
#end
    workgroupBarrier();
    if (lane < ${TOPS}u) {
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) { part += scores[lane * 8u + i]; }
        tops[lane] = part;
    }
    workgroupBarrier();
#for g TOGETHER
    {
        var sum = 0.0;
        for (var i = 0u; i < 8u; i++) { sum += tops[${g}u * 8u + i]; }
        let line = row * p.heads + head + ${g}u;
#if SPLIT
        let share_line = group.y * p.heads + head + ${g}u;
        let start = (share_line * p.splits + group.z) * (${VALUE_DIM}u + 2u);
        if (lane == 0u) {
            out[start + ${VALUE_DIM}u] = top${g};
            out[start + ${VALUE_DIM}u + 1u] = sum;
        }
        let factor = 1.0;
#else
        let start = line * ${VALUE_DIM}u;
        let factor = 1.0 / sum;
#end
#for k SLOTS
        if (lane + 64u * ${k}u < ${VALUE_WORDS}u) {
#if HALF
            out[start + 2u * (lane + 64u * ${k}u)] = mixed${g}_${k}.x * factor;
            out[start + 2u * (lane + 64u * ${k}u) + 1u] = mixed${g}_${k}.y * factor;
#else
            out[start + lane + 64u * ${k}u] = mixed${g}_${k} * factor;
#end
        }
#end
    }
#end
}
