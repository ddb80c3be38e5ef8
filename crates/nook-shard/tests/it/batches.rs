//! Conversations together: the bits of each alone, and nobody pays for another's trouble.

use futures_util::future::join_all;
use nook_base::ErrorCode;

use crate::host::{Host, Opening, Refused, Talk, WIDTH, WINDOW, bits, layers, rows_of};

const PLENTY: u64 = 1 << 30;

#[tokio::test]
async fn eight_streams_over_two_parts_share_passes_and_get_the_bits_of_each_alone() {
    let host = Host::start(8, PLENTY).await;
    let parts = [layers(1, 2), layers(0, 3)];
    let mut talks = Vec::new();
    for seed in 0..8 {
        let opening = Opening::of(1, parts[seed as usize % 2]);
        talks.push(host.open(opening).await.unwrap().seeded(seed));
    }
    // Prompts of different lengths, then token by token, now and then several (guesses to verify).
    let steps = |seed: u32| {
        let mut steps = vec![3 + 29 * seed];
        steps.extend((0..20).map(|step| if (step + seed).is_multiple_of(7) { 4 } else { 1 }));
        steps
    };
    let walks = talks.iter_mut().map(async |talk| {
        let seed = talk.seed();
        talk.walk(&steps(seed)).await.unwrap()
    });
    let got = join_all(walks).await;
    for (seed, got) in (0..).zip(&got) {
        let rows = steps(seed).iter().sum();
        let expected = host.alone(parts[seed as usize % 2], seed, rows);
        assert_eq!(bits(got), bits(&expected), "conversation {seed}");
    }
    let passes = host.status().await.passes;
    // 1 + 20 steps each, of which the first prompt is short and seven are long.
    assert_eq!(passes.served, 8 * 20 + 1);
    assert!(passes.most > 1 && passes.shared < passes.served, "{passes:?}");
    assert!(passes.most <= 4, "parts were mixed: {passes:?}");
}

#[tokio::test]
async fn a_long_prompt_holds_up_nobodys_decode() {
    let host = Host::start(4, PLENTY).await;
    let part = layers(0, 4);
    let mut decode = host.open(Opening::of(1, part)).await.unwrap().seeded(1);
    let mut prompt = host.open(Opening::of(2, part)).await.unwrap().seeded(2);
    let mut got = decode.step(1).await.unwrap();
    prompt.send(500).await.unwrap();
    // Until the prompt is through; each of these steps went between two of its pieces.
    let receive = prompt.receive();
    tokio::pin!(receive);
    let mut answered = 0;
    let (rows, [compute, queued]) = loop {
        tokio::select! {
            biased;
            done = &mut receive => break done.unwrap(),
            row = decode.step(1) => {
                got.extend(row.unwrap());
                answered += 1;
            }
        }
    };
    assert!(answered >= 5, "{answered} steps were answered while the prompt was read");
    assert!(compute > 0 && queued > 0, "{compute} and {queued}");
    assert_eq!(bits(&rows), bits(&host.alone(part, 2, 500)));
    assert_eq!(bits(&got), bits(&host.alone(part, 1, 1 + answered)));
    let passes = host.status().await.passes;
    assert!(passes.pieces > 4, "{passes:?}");
}

#[tokio::test]
async fn who_is_at_fault_fails_alone() {
    let host = Host::start(8, PLENTY).await;
    let part = layers(1, 2);
    let mut sound = Vec::new();
    for seed in 0..3 {
        sound.push(host.open(Opening::of(1, part)).await.unwrap().seeded(seed));
    }
    let short = Opening { positions_max: 3, ..Opening::of(2, part) };
    let mut talks = Vec::new();
    for _ in 0..5 {
        talks.push(host.open(short).await.unwrap().seeded(9));
    }
    let mut nan = rows_of(9, 0, 1);
    nan[7] = f32::NAN;
    let [too_long, not_finite, too_wide, twice_as_wide, out_of_place] = &mut talks[..] else {
        panic!("five were opened");
    };
    let faults = async {
        too_long.send(4).await.unwrap();
        not_finite.send_rows(&nan, WIDTH).await.unwrap();
        too_wide.send_rows(&[0.5; 65], 65).await.unwrap();
        // One row by its head, two by the model's width.
        twice_as_wide.send_rows(&[0.5; 2 * WIDTH as usize], 2 * WIDTH).await.unwrap();
        out_of_place.position = 1;
        out_of_place.send(1).await.unwrap();
        let talks = [too_long, not_finite, too_wide, twice_as_wide, out_of_place];
        let ends = join_all(talks.map(async |talk| talk.receive().await.unwrap_err())).await;
        let codes = [
            ErrorCode::TooLong,
            ErrorCode::CorruptActivation,
            ErrorCode::BadRequest,
            ErrorCode::BadRequest,
            ErrorCode::HistoryMismatch,
        ];
        assert_eq!(ends, codes.map(Refused));
    };
    let walks = join_all(sound.iter_mut().map(async |talk| talk.walk(&[1; 40]).await.unwrap()));
    let ((), got) = tokio::join!(faults, walks);
    for (seed, got) in (0..).zip(&got) {
        assert_eq!(bits(got), bits(&host.alone(part, seed, 40)), "conversation {seed}");
    }
    drop(sound);
    host.until("the end of all", |status| status.sessions == 0).await;
    assert_eq!(host.status().await.cache_bytes, 0);
}

#[tokio::test]
async fn t11_who_leaves_in_the_middle_disturbs_nobody_and_leaves_nothing() {
    let host = Host::start(8, PLENTY).await;
    let part = layers(1, 3);
    let mut stays = host.open(Opening::of(1, part)).await.unwrap().seeded(1);
    let mut got = Vec::new();
    for round in 0..12 {
        let mut leaves: Vec<Talk> = Vec::new();
        for _ in 0..3 {
            leaves.push(host.open(Opening::of(2, part)).await.unwrap().seeded(5));
        }
        stays.send(1).await.unwrap();
        for (talk, rows) in leaves.iter_mut().zip([1, 4, 300]) {
            talk.send(rows).await.unwrap();
        }
        // Dropped while their steps wait or are computed: the other side is told `cancelled`.
        drop(leaves);
        got.extend(stays.receive().await.unwrap().0);
        host.until("the leaving of three", |status| status.sessions == 1).await;
        assert_eq!(stays.position, round + 1);
    }
    assert_eq!(bits(&got), bits(&host.alone(part, 1, 12)));
    let status = host.status().await;
    assert_eq!((status.sessions, status.parked), (1, 0));
    assert!(stays.position < WINDOW);
}
