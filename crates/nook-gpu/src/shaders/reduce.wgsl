    // The lanes' sums are added up: sum `r`, `t` becomes row `first + r` of row `origin + t`.
#if SUBGROUP
#for r ROWS
#for t N
    { let total = subgroupAdd(sum${r}_${t}); if (inside == 0u) { partial[subgroup * ${SUMS_EACH}u + ${r}u * ${N}u + ${t}u] = total; } }
#end
#end
    workgroupBarrier();
    if (lane < ${SUMS_EACH}u) {
        var total = 0.0;
        for (var i = 0u; i < subgroups; i++) { total += partial[i * ${SUMS_EACH}u + lane]; }
        let row = first + lane / ${N}u;
        let t = origin + lane % ${N}u;
        if (row < p.rows && t < p.n) { out[t * p.out_rows + p.first + row] = total; }
    }
#else
#for r ROWS
#for t N
    partial[(${r}u * ${N}u + ${t}u) * ${LANES}u + lane] = sum${r}_${t};
#end
#end
    workgroupBarrier();
    if (lane < ${SUMS_EACH}u) {
        var total = 0.0;
        for (var i = 0u; i < ${LANES}u; i++) { total += partial[lane * ${LANES}u + i]; }
        let row = first + lane / ${N}u;
        let t = origin + lane % ${N}u;
        if (row < p.rows && t < p.n) { out[t * p.out_rows + p.first + row] = total; }
    }
#end
