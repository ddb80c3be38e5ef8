//! A worker computes where it is told to, or says why it does not.

use nook_base::ErrorCode;
use nook_shard::WorkerError;

use crate::host::Host;

const PLENTY: u64 = 1 << 30;

async fn refusal(device: &str) -> (ErrorCode, String) {
    match Host::start_on(device, 1, PLENTY).await {
        Err(WorkerError::Refused { code, sentence }) => (code, sentence),
        Err(other) => panic!("{device}: {other}"),
        Ok(_) => panic!("{device} is there"),
    }
}

#[tokio::test]
async fn a_device_that_is_not_there_is_refused_and_named() {
    let (code, sentence) = refusal("toaster").await;
    assert_eq!(code, ErrorCode::BadRequest);
    assert!(sentence.contains("\"toaster\"") && sentence.contains("cuda:1"), "{sentence}");
    // No machine has so many cards; without the feature, the build says that it knows none.
    let (_, sentence) = refusal("cuda:4000000").await;
    assert!(sentence.contains("NVIDIA"), "{sentence}");
}

#[cfg(feature = "candle")]
#[tokio::test]
async fn a_worker_with_the_code_for_cards_agrees_with_the_usual_one() {
    use crate::host::{Opening, layers};

    let host = Host::start_on("candle-cpu", 4, PLENTY).await.unwrap();
    let part = layers(1, 2);
    let mut talk = host.open(Opening::of(1, part)).await.unwrap().seeded(5);
    let got = talk.walk(&[40, 1, 2, 1]).await.unwrap();
    let expected = host.alone(part, 5, 44);
    let sum =
        |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| f64::from(x * x)).sum::<f64>();
    let off = sum(&mut got.iter().zip(&expected).map(|(a, b)| a - b));
    let rms = (off / sum(&mut expected.iter().copied())).sqrt();
    // The model is small, so both compute in single precision.
    assert!(got.len() == expected.len() && rms < 3e-5, "{rms:.1e}");
    assert!(rms > 0.0, "another code gives other last bits: was it used?");
}
