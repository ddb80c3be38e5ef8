//! What a device says of itself for people.

use nook_base::FormFactor;
use nook_wire::{DeviceFacts, Message, PowerNow};
use proptest::prelude::*;

pub(super) fn facts() -> impl Strategy<Value = Message> {
    use FormFactor::{Desktop, Laptop, Mini, Server, Tower};
    let form = prop::sample::select(vec![Laptop, Desktop, Tower, Mini, Server]);
    let power = prop_oneof![
        Just(PowerNow::Mains),
        any::<u8>().prop_map(PowerNow::Charging),
        any::<u8>().prop_map(PowerNow::Battery),
    ];
    let texts = ("\\PC{0,20}", "\\PC{0,20}");
    let optional = (proptest::option::of(form), proptest::option::of(power));
    (optional, texts, any::<(Option<u64>, Option<u8>, Option<u64>)>()).prop_map(
        |((form, power), (processor, gpu), (memory_bytes, temperature, weights_per_second))| {
            let facts = DeviceFacts {
                form,
                processor,
                gpu,
                memory_bytes,
                power,
                temperature,
                weights_per_second,
            };
            Message::DeviceFacts(Box::new(facts))
        },
    )
}
