// Units whose numbers are rows of a codebook, with signs of their own or moved up or down. See layout.rs.
@group(0) @binding(${TABLE_AT}) var<storage, read> table: array<u32>;   // rows of the codebook, two in a word

// The low half of a word, or the high one of an odd `i`.
fn half_of(w: u32, i: u32) -> u32 { return (w >> (16u * (i & 1u))) & 0xffffu; }

fn row(number: u32) -> u32 { return half_of(table[number >> 1u], number); }

#if SHORTS
// What of a unit does not fill words.
fn extra(i: u32) -> u32 { return half_of(weights[p.scales_at + (i >> 1u)], i); }
#end

#if IQ2
// The numbers that the lowest eight bits choose: two bits for each of 8, 25, 43.
fn numbers(code: u32) -> u32 {
    let pairs = (code | (code << 12u)) & 0x000f000fu;
    let q = (pairs | (pairs << 6u)) & 0x03030303u;
    return 17u * q + ((q >> 1u) & 0x01010101u) + 0x08080808u;
}
#else
// The numbers that twelve bits choose: three bits for each of eight, evenly apart but for the last of IQ3_XXS.
fn numbers(code: u32) -> u32 {
    let pairs = (code | (code << 10u)) & 0x003f003fu;
    let q = (pairs | (pairs << 5u)) & 0x07070707u;
#if IQ3_S
    return 2u * q + 0x01010101u;
#else
    return 8u * q + 2u * (((q + 0x01010101u) >> 3u) & 0x01010101u) + 0x04040404u;
#end
}
#end

#if IQ1
// Eight times the numbers -1, 0 and 1 that the lowest eight bits choose, and 8.
fn thirds(code: u32) -> u32 {
    let pairs = (code | (code << 12u)) & 0x000f000fu;
    return 8u * ((pairs | (pairs << 6u)) & 0x03030303u);
}
#end

// Seven signs and the eighth that makes the number of negative ones even.
fn eighth(seven: u32) -> u32 { return seven | ((countOneBits(seven) & 1u) << 7u); }

// Four bytes with the lowest four signs. None of them is 0, so nothing is carried from one to the next.
fn signed4(bytes: u32, signs: u32) -> u32 {
    let negative = ((signs & 15u) * 0x00204081u) & 0x01010101u;
    return (bytes ^ (255u * negative)) + negative;
}

// Columns `8 * k` to `8 * k + 7` of a unit.
fn eight(i: u32, k: u32) -> vec2<u32> {
#if IQ1
    let low = (weights[i] >> (8u * k)) & 255u;
#if IQ1_S
    let high = extra(i) >> (3u * k);
    let down = extra(i) >> 15u;
#else
    let high = extra(i) >> (4u * k);
    let down = (high >> 3u) & 1u;
#end
    let code = row(low | ((high & 7u) << 8u));
    // One more than the codebook's 8 is taken away again: by it numbers are moved up or down.
    let up = vec2<u32>(0x02020202u * (1u - down));
    return vec2<u32>(thirds(code), thirds(code >> 8u)) | up;
#else
#if IQ2
#if IQ2_XXS
    let code = row((weights[2u * i] >> (8u * k)) & 255u);
    let signs = eighth((weights[2u * i + 1u] >> (7u * k)) & 127u);
#else
#if IQ2_XS
    let packed = half_of(weights[2u * i + (k >> 1u)], k);
    let code = row(packed & 511u);
    let signs = eighth(packed >> 9u);
#else
    let code = row(((weights[2u * i] >> (8u * k)) & 255u) | (((extra(i) >> (2u * k)) & 3u) << 8u));
    let signs = weights[2u * i + 1u] >> (8u * k);
#end
#end
    return vec2<u32>(signed4(numbers(code), signs), signed4(numbers(code >> 8u), signs >> 4u));
#else
    let both = half_of(weights[3u * i + (k >> 1u)], k);
    let packed = weights[3u * i + 2u];
#if IQ3_S
    let high = extra(i) >> (2u * k);
    let first = row((both & 255u) | ((high & 1u) << 8u));
    let second = row((both >> 8u) | ((high & 2u) << 7u));
    let signs = packed >> (8u * k);
#else
    let first = row(both & 255u);
    let second = row(both >> 8u);
    let signs = eighth((packed >> (7u * k)) & 127u);
#end
    return vec2<u32>(signed4(numbers(first), signs), signed4(numbers(second), signs >> 4u));
#end
#end
}

fn quants(i: u32) -> Quants {
    return Quants(vec4<u32>(eight(i, 0u), eight(i, 1u)), vec4<u32>(eight(i, 2u), eight(i, 3u)));
}

// Scales of both halves of a unit, and no minima.
fn scales(i: u32) -> vec4<i32> {
#if IQ1
#if IQ1_S
    let low = (extra(i) >> 12u) & 7u;
    let high = low;
#else
    // Block i >> 3 has two words of scales, a half of a word for two units.
    let four = half_of(weights[p.heads_at + 2u * (i >> 3u) + ((i >> 2u) & 1u)], i >> 1u) >> (6u * (i & 1u));
    let low = four & 7u;
    let high = (four >> 3u) & 7u;
#end
#else
#if TWO_SCALES
#if IQ2_XS
    let both = weights[p.scales_at + (i >> 2u)] >> (8u * (i & 3u));
#else
    let both = extra(i) >> 8u;
#end
    let low = both & 15u;
    let high = (both >> 4u) & 15u;
#else
#if IQ2_XXS
    let low = weights[2u * i + 1u] >> 28u;
#else
#if IQ3_S
    let low = (extra(i) >> 8u) & 15u;
#else
    let low = weights[3u * i + 2u] >> 28u;
#end
#end
    let high = low;
#end
#end
    return vec4<i32>(vec4<u32>(2u * low + 1u, 2u * high + 1u, 0u, 0u));
}
