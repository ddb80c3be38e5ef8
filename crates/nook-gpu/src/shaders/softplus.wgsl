// ln(1 + e^x). A driver's own logarithm may be off by 5e-7 near 1, which is more than many steps are long.
fn softplus(x: f32) -> f32 {
    let small = exp(-abs(x));
    // ln(1 + y) is twice the area tangent of y / (2 + y), which is at most a third.
    let s = small / (2.0 + small);
    let q = s * s;
    let series = 1.0 + q * (0.33333334 + q * (0.2 + q * (0.14285715 + q * (0.11111111 + q * (0.09090909 + q * 0.07692308)))));
    return max(x, 0.0) + 2.0 * s * series;
}
