//! What was seen of this computer: what it is, and how its battery and its temperature are.

use std::time::Duration;

use nook_machine::{Hardware, Readings, Sensors};
use tokio::sync::watch;

/// Time between two looks at the sensors: a battery does not change sooner.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What was seen of this computer; nothing before the first look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MachineSeen {
    pub(crate) hardware: Hardware,
    pub(crate) readings: Readings,
}

/// Looks at this computer until the node ends.
pub(crate) async fn watch(seen: watch::Sender<MachineSeen>) {
    let hardware = tokio::task::spawn_blocking(nook_machine::hardware).await.unwrap_or_default();
    let mut sensors = Sensors::default();
    loop {
        let look = tokio::task::spawn_blocking(move || (sensors.look(), sensors));
        let Ok((readings, kept)) = look.await else { return };
        sensors = kept;
        seen.send_replace(MachineSeen { hardware: hardware.clone(), readings });
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
