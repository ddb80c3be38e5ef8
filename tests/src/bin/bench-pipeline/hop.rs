//! What a hop costs beyond its computing, in each format of activations.

use nook_base::ActivationDtype;
use nook_base::tasks::Tasks;
use nook_tests::program::Effort;
use nook_tests::walk::hop;

use crate::rows::Row;

/// What a hop may cost, in milliseconds; see the design.
const OVERHEAD_MS: f64 = 0.5;

/// Measures the whole path: requester, link, node, worker, and back.
pub(crate) async fn measure(effort: Effort, tasks: &Tasks) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for measured in hop::whole(effort, tasks).await? {
        let (width, dtype, overhead) =
            (measured.hidden, measured.dtype, measured.taken.overhead_us);
        let name = |what| format!("overhead per hop, loopback, width {width}, {dtype}, {what}");
        rows.push(Row::plain(name("median"), overhead.median / 1e3, "ms"));
        // The usual format is the one that is judged.
        rows.push(if dtype == ActivationDtype::F16 {
            Row::at_most(name("p95"), overhead.p95 / 1e3, "ms", OVERHEAD_MS)
        } else {
            Row::plain(name("p95"), overhead.p95 / 1e3, "ms")
        });
    }
    Ok(rows)
}
