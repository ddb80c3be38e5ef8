//! `nook devices wake`: calls a device that sleeps, and says how it goes.

use std::time::Duration;

use nook_api::NodeCalls as _;
use nook_api::views::DeviceView;
use nook_control::Client;

use crate::output;

/// How often it is said that a device is still waited for. The node decides when that has an end.
const STILL: Duration = Duration::from_secs(15);

pub(crate) async fn wake(client: &Client, device: &DeviceView, json: bool) -> anyhow::Result<()> {
    let DeviceView { name, id, .. } = device;
    if !json && device.wakeable && !device.connected {
        let last = match device.woke_seconds {
            Some(seconds) => format!(" It took {seconds} s last time."),
            None => String::new(),
        };
        output::note(format!("Calling {name}.{last} This waits for up to three minutes."));
    }
    let mut woken = std::pin::pin!(client.wake(id.clone()));
    let mut waited = Duration::ZERO;
    let seconds = loop {
        match tokio::time::timeout(STILL, &mut woken).await {
            Ok(seconds) => break seconds?,
            Err(_) => waited += STILL,
        }
        if !json {
            output::note(format!("Not there yet, after {} s.", waited.as_secs()));
        }
    };
    if json {
        output::json(&serde_json::json!({ "device": name, "id": id, "seconds": seconds }));
    } else if device.connected {
        output::line(format!("{name} is awake already."));
    } else {
        output::line(format!("{name} is awake. It took {seconds} s."));
    }
    Ok(())
}
