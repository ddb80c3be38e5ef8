//! What each device is expected to take in a route: the estimates as `nook-pipeline` reads them.

use std::time::Duration;

use nook_base::{LayerRange, ModelPart};
use nook_pipeline::{DeviceForecast, Forecast};
use nook_plan::{HOP_OVERHEAD, LOAD_ASSUMED, Place};

use super::Question;
use nook_resources::adverts::AdvertBook;

impl Question {
    /// What this device has measured itself. What hosts say of themselves is no ground to leave one
    /// of them for another in the middle of a reply.
    pub(crate) fn forecast(&self, book: &AdvertBook) -> Forecast {
        let layer = ModelPart::inner(LayerRange::with_len(0, 1));
        let layer_bytes = self.file.weight_bytes(&layer);
        let mut forecast = Forecast::default();
        for (place, known) in &self.facts.speeds {
            let Some(decode) = known.speed.decode.measured() else { continue };
            let away = match place {
                Place::Local => Some(Duration::ZERO),
                Place::Peer(peer) => {
                    let trip = self.facts.links.get(peer).and_then(|it| it.round_trip.measured());
                    trip.map(|trip| trip.mean.saturating_add(HOP_OVERHEAD))
                }
            };
            let Some(away) = away else { continue };
            let load = known.speed.load.measured().unwrap_or(LOAD_ASSUMED);
            let device = DeviceForecast {
                decode,
                prefill: known.speed.prefill.measured(),
                away,
                load_layer: load.time_for(layer_bytes),
                held: known.held.iter().copied().chain(self.told(book, *place)).collect(),
            };
            forecast.insert(*place, device);
        }
        forecast
    }

    /// Layers that a device says it holds.
    fn told<'a>(
        &'a self,
        book: &'a AdvertBook,
        place: Place,
    ) -> impl Iterator<Item = LayerRange> + 'a {
        let heard = match place {
            Place::Local => None,
            Place::Peer(peer) => book.heard.get(&peer),
        };
        let shards = heard.into_iter().flat_map(|heard| &heard.advert.shards);
        shards.filter(|shard| shard.model == self.model).map(|shard| shard.held)
    }
}
