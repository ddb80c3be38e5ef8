//! Who is asked for a copy, and what is believed of what devices say.

use std::time::Duration;

use nook_base::ModelDigest;
use nook_fetch::{Bringer as _, CopyWish, Halt};

use super::*;
use crate::copies::believable;
use nook_fetch::FILE_BYTES_MAX;
use nook_wire::{Have, HaveModel};

const PEER: PeerId = PeerId([7; 32]);
const MODEL: ModelDigest = ModelDigest([1; 32]);

#[tokio::test(start_paused = true)]
async fn a_copy_waits_a_moment_for_a_device_that_has_gone_and_not_for_ever() {
    let holders = watch::channel(Arc::<Holders>::default()).0;
    let mut taker = Taker::new(MODEL, holders.subscribe(), None, Traffic::default());
    let wish = CopyWish { length: None, others_too: false, most: u64::MAX };
    let begun = tokio::time::Instant::now();
    assert_eq!(taker.choose(wish).await, Err(Halt::Nobody));
    assert_eq!(begun.elapsed().as_secs(), HOLDER_WAIT.as_secs());
}

#[test]
fn the_file_of_which_a_part_is_here_comes_before_a_device_that_is_quicker() {
    let holders = watch::channel(Arc::<Holders>::default()).0;
    let other = PeerId([8; 32]);
    let taker = Taker::new(MODEL, holders.subscribe(), Some(other), Traffic::default());
    let wish = CopyWish { length: Some(9), others_too: true, most: u64::MAX };
    let (slow, quick) = (Duration::from_millis(90), Duration::from_millis(1));
    assert!(taker.rank(&wish, PEER, 9, slow) < taker.rank(&wish, other, 10, quick));
    // Of the same file the owner's choice comes first, and then who is quicker.
    assert!(taker.rank(&wish, other, 9, slow) < taker.rank(&wish, PEER, 9, quick));
    assert!(taker.rank(&wish, PEER, 9, quick) < taker.rank(&wish, PEER, 9, slow));
    let wish = CopyWish { length: None, ..wish };
    assert!(taker.rank(&wish, other, 10, slow) < taker.rank(&wish, PEER, 9, quick));
}

#[test]
fn of_what_a_device_says_only_what_can_be_is_believed() {
    let have = |number, bytes, name: &str| HaveModel {
        model: ModelDigest([number; 32]),
        bytes,
        layers: 6,
        name: name.to_owned(),
    };
    let models = vec![
        have(1, 9, "../../etc/passwd"),
        have(1, 8, "twice"),
        have(2, 0, "nothing"),
        have(3, u64::MAX, "everything"),
        have(4, FILE_BYTES_MAX, "qwen3-4b"),
    ];
    let believed = believable(Have { models });
    let shown: Vec<_> = believed.iter().map(|it| (it.bytes, it.name.as_str())).collect();
    assert_eq!(shown, [(9, "etc-passwd"), (FILE_BYTES_MAX, "qwen3-4b")]);
}
