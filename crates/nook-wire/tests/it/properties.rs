//! The codec on everything that could arrive: our own frames in all shapes, damaged ones, noise.

mod copies;
mod facts;

use bytes::{Bytes, BytesMut};
use nook_base::{
    ActivationDtype, Backend, ErrorCode, FileStamp, LayerRange, MacAddress, ModelDigest, ModelPart,
    PeerId, Sensitive, WakeAddress,
};
use nook_wire::{
    Advert, CallId, Chunk, DecodeError, Document, GpuHolding, GpuKind, GpuReport, HEADER_BYTES,
    Header, Hello, HelpTerms, KeptHistory, Kind, KvPieceHead, LocalMessage, LogitRows, Message,
    Move, OffloadFinish, OffloadKept, OffloadOffer, OffloadOffers, OffloadRequest, OffloadSampling,
    OffloadTokens, Open, PassCounts, Passed, Piece, PieceAssembly, PlaceState, Placed,
    PlacementRequest, PrefixHash, ProtocolRange, ResultHead, ResumePoint, ShardAdvert, SharingNow,
    StepHead, TRIAL_BACK_MAX, TRIAL_PADDING_MAX, TensorAssembly, Ticket, TicketClaim, Trial,
    WAKE_ADDRESSES_MAX, Want, WayFigures, WireError, WireMessage, WorkerMessage, decode, encode,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn dtype() -> impl Strategy<Value = ActivationDtype> {
    prop::sample::select(&ActivationDtype::ALL[..])
}

fn layers() -> impl Strategy<Value = LayerRange> {
    (any::<u32>(), any::<u32>()).prop_map(|(start, len)| LayerRange::with_len(start, len))
}

fn part() -> impl Strategy<Value = ModelPart> {
    (layers(), any::<bool>(), any::<bool>()).prop_map(|(layers, embedding, head)| ModelPart {
        layers,
        embedding,
        head,
    })
}

fn digest() -> impl Strategy<Value = ModelDigest> {
    any::<[u8; 32]>().prop_map(ModelDigest)
}

fn stamp() -> impl Strategy<Value = Option<FileStamp>> {
    let time = || any::<Option<(i64, u32)>>();
    let time_of = |time: Option<(i64, u32)>| {
        time.map(|(seconds, nanos)| nook_base::FileTime { seconds, nanos })
    };
    let stamp = (any::<u64>(), time(), time(), any::<Option<u64>>());
    prop::option::of(stamp.prop_map(move |(bytes, modified, changed, inode)| FileStamp {
        bytes,
        modified: time_of(modified),
        changed: time_of(changed),
        inode,
    }))
}

fn mark() -> impl Strategy<Value = PrefixHash> {
    any::<[u8; 16]>().prop_map(PrefixHash)
}

fn code() -> impl Strategy<Value = ErrorCode> {
    prop::sample::select(ErrorCode::ALL.to_vec())
}

fn shard() -> impl Strategy<Value = ShardAdvert> {
    let times = (any::<Option<u32>>(), any::<Option<u32>>());
    (digest(), layers(), layers(), times).prop_map(|(model, layers, held, times)| ShardAdvert {
        model,
        layers,
        held,
        decode_us_per_layer: times.0,
        prefill_us_per_layer_token: times.1,
    })
}

fn step() -> impl Strategy<Value = StepHead> {
    let numbers = any::<(u64, u32, u32, u32, bool)>();
    (numbers, dtype(), mark(), mark()).prop_map(|(numbers, dtype, before, after)| StepHead {
        step: numbers.0,
        position: numbers.1,
        count: numbers.2,
        hidden: numbers.3,
        dtype,
        history_before: before,
        history_after: after,
        bulk: numbers.4,
    })
}

fn resume() -> impl Strategy<Value = Option<ResumePoint>> {
    let point = (any::<u32>(), mark());
    proptest::option::of((point, any::<bool>()).prop_map(|((position, mark), copy)| ResumePoint {
        position,
        mark,
        copy,
    }))
}

fn ticket() -> impl Strategy<Value = Ticket> {
    let ids = any::<([u8; 32], [u8; 32], [u8; 32])>();
    let halves = any::<[[u8; 32]; 2]>();
    (ids, any::<(u64, u32)>(), digest(), layers(), dtype(), halves).prop_map(
        |(ids, numbers, model, layers, dtype, signature)| Ticket {
            requester: ids.0,
            claim: TicketClaim {
                carrier: PeerId(ids.1),
                host: PeerId(ids.2),
                session: numbers.0,
                model,
                layers,
                dtype,
                positions_max: numbers.1,
            },
            signature,
        },
    )
}

fn hello() -> impl Strategy<Value = Message> {
    (any::<(u16, u16, u16)>(), "\\PC{0,16}", "\\PC{0,40}").prop_map(
        |(numbers, app_version, device_name)| {
            Message::Hello(Hello {
                protocol: ProtocolRange::new(numbers.0.min(numbers.1), numbers.0.max(numbers.1))
                    .unwrap(),
                app_version,
                device_name,
                listen_port: numbers.2,
            })
        },
    )
}

fn wake_address() -> impl Strategy<Value = WakeAddress> {
    (any::<([u8; 6], [u8; 4])>(), 8_u8..=30).prop_map(|((mut mac, address), prefix)| {
        mac[0] = mac[0] & 0xfe | 2;
        WakeAddress::new(MacAddress(mac), address.into(), prefix).unwrap()
    })
}

fn help_terms() -> impl Strategy<Value = HelpTerms> {
    let sharing = vec![SharingNow::Off, SharingNow::Paused, SharingNow::On];
    let wake = vec(wake_address(), 0..=WAKE_ADDRESSES_MAX);
    (any::<[bool; 3]>(), prop::sample::select(sharing), wake).prop_map(
        |([answered, helps, asks], sharing, wake)| HelpTerms {
            answered,
            helps,
            asks,
            sharing,
            wake,
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        hello(),
        (any::<(bool, u16, u16, u64, u64)>(), vec(shard(), 0..5)).prop_map(|(n, shards)| {
            Message::Advert(Advert {
                sharing: n.0,
                shards,
                streams_free: n.1,
                queue_depth: n.2,
                memory_free_bytes: n.3,
                fetch_bytes: n.4,
            })
        }),
        (digest(), layers())
            .prop_map(|(model, layers)| Message::Place(PlacementRequest { model, layers })),
        (digest(), layers(), place_state())
            .prop_map(|(model, layers, state)| Message::Placed(Placed { model, layers, state })),
        (any::<(u64, u32)>(), digest(), layers(), dtype(), resume()).prop_map(
            |(n, model, layers, dtype, resume)| {
                let (session, positions_max) = n;
                Message::Open(Open { session, model, layers, dtype, positions_max, resume })
            }
        ),
        any::<u32>().prop_map(|position| Message::Opened { position }),
        step().prop_map(Message::Step),
        (any::<u64>(), vec(any::<u8>(), 1..300), any::<bool>()).prop_map(
            |(offset, bytes, last)| { Message::Chunk(Chunk { offset, bytes: bytes.into(), last }) }
        ),
        (step(), any::<(u32, u32)>()).prop_map(|(s, n)| {
            Message::Result(ResultHead {
                step: s.step,
                position: s.position,
                count: s.count,
                hidden: s.hidden,
                dtype: s.dtype,
                compute_us: n.0,
                queue_us: n.1,
                bulk: s.bulk,
            })
        }),
        any::<u32>().prop_map(|position| Message::Truncate { position }),
        any::<u32>().prop_map(|chunks| Message::Credit { chunks }),
        proptest::option::of(code()).prop_map(|code| Message::Close { code }),
        (code(), "\\PC{0,60}")
            .prop_map(|(code, sentence)| Message::Error(WireError { code, sentence })),
        "\\PC{0,60}".prop_map(|sentence| Message::Draining { sentence }),
        Just(Message::RequestKvCache),
        any::<(u32, u32, u64, u32, [u8; 16])>().prop_map(
            |(first, count, bytes, position, mark)| {
                let mark = PrefixHash(mark);
                Message::KvCachePiece(KvPieceHead { first, count, bytes, position, mark })
            }
        ),
        any::<u32>().prop_map(|position| Message::KvCacheTaken { position }),
        help_terms().prop_map(Message::HelpTerms),
        facts::facts(),
        kept().prop_map(Message::DropKept),
        any::<u64>().prop_map(|nonce| Message::Ping { nonce }),
        any::<u64>().prop_map(|nonce| Message::Pong { nonce }),
        trials(),
        ticket().prop_map(|ticket| Message::Forward(Box::new(ticket))),
        ticket().prop_map(|ticket| Message::Relay(Box::new(ticket))),
        proptest::option::of(code()).prop_map(|code| Message::Onward { code }),
        any::<(u64, u32, u32)>().prop_map(|n| {
            Message::Passed(Passed { step: n.0, compute_us: n.1, queue_us: n.2 })
        }),
        whole(),
        copies::copies(),
    ]
}

fn trials() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<(u64, Option<(u32, u64)>)>().prop_map(|(nonce, found)| {
            let found = found.map(|(round_trip_us, bytes_per_second)| WayFigures {
                round_trip_us,
                bytes_per_second,
            });
            Message::Move(Move { nonce, found })
        }),
        (0..=TRIAL_PADDING_MAX, 0..=TRIAL_BACK_MAX)
            .prop_map(|(padding, back)| Message::Trial(Trial { padding, back })),
    ]
}

fn whole() -> impl Strategy<Value = Message> {
    let offer = (digest(), any::<(Option<u32>, bool, Option<u32>)>());
    let offer = offer.prop_map(|(model, (ends_us, ends_held, load_kb_per_s))| OffloadOffer {
        model,
        ends_us,
        ends_held,
        load_kb_per_s,
    });
    // Any bits but those of NaN, which equal nothing.
    let number = || -1e9_f32..1e9_f32;
    let sampling = (any::<(u64, u32, u32)>(), (number(), number(), number()));
    let sampling = sampling.prop_map(|(n, f)| OffloadSampling {
        seed: n.0,
        temperature: f.0,
        top_k: n.1,
        top_p: f.1,
        min_p: f.2,
        repetition_penalty: f.0,
        repetition_window: n.2,
        frequency_penalty: f.1,
        presence_penalty: f.2,
    });
    prop_oneof![
        vec(offer, 0..5).prop_map(|offers| Message::OffloadOffers(OffloadOffers { offers })),
        (digest(), any::<(u32, u32, u32, u32)>(), sampling).prop_map(|(model, n, sampling)| {
            let (prompt, biases, tokens_max, resume) = n;
            let ask = OffloadRequest { model, prompt, biases, tokens_max, resume, sampling };
            Message::OffloadRequest(Box::new(ask))
        }),
        any::<(u32, u32, u32, u32)>().prop_map(|(positions, count, compute_us, queue_us)| {
            Message::OffloadTokens(OffloadTokens { positions, count, compute_us, queue_us })
        }),
        (prop::sample::select(vec![OffloadFinish::Stop, OffloadFinish::Length]), whole_kept())
            .prop_map(|(finish, kept)| Message::OffloadEnd { finish, kept }),
    ]
}

fn whole_kept() -> impl Strategy<Value = Option<OffloadKept>> {
    any::<Option<(u32, [u8; 16])>>().prop_map(|kept| {
        kept.map(|(position, mark)| OffloadKept { position, mark: PrefixHash(mark) })
    })
}

fn kept() -> impl Strategy<Value = KeptHistory> {
    (digest(), any::<(u32, [u8; 16])>()).prop_map(|(model, (position, mark))| KeptHistory {
        model,
        position,
        mark: PrefixHash(mark),
    })
}

fn place_state() -> impl Strategy<Value = PlaceState> {
    prop_oneof![
        any::<u8>().prop_map(|percent| PlaceState::Loading { percent }),
        Just(PlaceState::Held),
        code().prop_map(|code| PlaceState::Refused { code }),
        any::<u8>().prop_map(|percent| PlaceState::Fetching { percent }),
    ]
}

fn local() -> impl Strategy<Value = LocalMessage> {
    let rows = prop::sample::select(vec![LogitRows::None, LogitRows::Last, LogitRows::All]);
    prop_oneof![
        any::<[u8; 32]>().prop_map(|token| LocalMessage::Auth { token: Sensitive(token) }),
        any::<(u16, u64, u32, u16, u32, bool, u64)>().prop_map(|n| LocalMessage::Configure {
            streams_max: n.0,
            memory_bytes_max: n.1,
            gpu_bytes_max: n.6,
            idle_seconds: n.2,
            threads: n.3,
            backend: Backend::GpuAt(n.4),
            falls_back: n.5,
        }),
        ("\\PC{0,90}", digest(), part(), stamp()).prop_map(|(path, model, part, stamp)| {
            LocalMessage::Load { path: path.into(), model, part, stamp }
        }),
        (part(), any::<(u64, u32)>()).prop_map(|(part, n)| LocalMessage::Loaded {
            part,
            weight_bytes: n.0,
            load_ms: n.1,
        }),
        (part(), dtype(), any::<(u64, u32)>(), resume()).prop_map(|(part, dtype, n, resume)| {
            LocalMessage::OpenLocal { session: n.0, part, dtype, positions_max: n.1, resume }
        }),
        (step(), vec(any::<u32>(), 0..512), rows.clone()).prop_map(|(s, ids, rows)| {
            LocalMessage::Tokens {
                step: s.step,
                position: s.position,
                ids: Sensitive(ids),
                history_before: s.history_before,
                history_after: s.history_after,
                rows,
            }
        }),
        (step(), rows).prop_map(|(head, rows)| LocalMessage::StepLogits { head, rows }),
        logits(),
        Just(LocalMessage::Unload),
        Just(LocalMessage::Unloaded),
        Just(LocalMessage::Status),
        (vec(layers(), 0..9), any::<(bool, bool, u16, u16, u64, u64, u64)>(), counts()).prop_map(
            |(held, n, (passes, parked, parked_bytes, lent_bytes))| LocalMessage::StatusReport {
                held,
                embedding: n.0,
                head: n.1,
                sessions: n.2,
                guest_sessions: n.3,
                weight_bytes: n.4,
                cache_bytes: n.5,
                steps_done: n.6,
                passes,
                parked,
                parked_bytes,
                lent_bytes,
                backend: Backend::Native,
                on_gpu: GpuHolding {
                    layers: u32::from(n.2),
                    bytes: n.4,
                    lent_bytes: n.5,
                    kept_bytes: n.4,
                    shares_memory: n.1,
                },
            }
        ),
        any::<[u8; 32]>().prop_map(|peer| LocalMessage::OnBehalf { peer: PeerId(peer) }),
        any::<Option<[u8; 32]>>().prop_map(|peer| LocalMessage::Forget { peer: peer.map(PeerId) }),
        layers().prop_map(|layers| LocalMessage::Release { layers }),
        (any::<Option<[u8; 32]>>(), kept())
            .prop_map(|(peer, kept)| LocalMessage::DropKeptOf { peer: peer.map(PeerId), kept }),
        Just(LocalMessage::ListGpus),
        vec(gpu(), 0..3).prop_map(|gpus| LocalMessage::Gpus { gpus }),
    ]
}

fn logits() -> impl Strategy<Value = LocalMessage> {
    any::<(u64, u32, u32, u32, u32, u32)>().prop_map(|n| LocalMessage::Logits {
        step: n.0,
        position: n.1,
        count: n.2,
        vocabulary: n.3,
        compute_us: n.4,
        queue_us: n.5,
    })
}

fn gpu() -> impl Strategy<Value = GpuReport> {
    let kinds = vec![GpuKind::Discrete, GpuKind::Integrated, GpuKind::Software];
    let texts = ("\\PC{0,60}", "[a-z]{0,9}", "\\PC{0,60}");
    (any::<(u32, Option<u64>)>(), prop::sample::select(kinds), texts).prop_map(
        |((number, memory), kind, (name, api, driver))| GpuReport {
            number,
            name,
            api,
            driver,
            kind,
            memory,
        },
    )
}

fn counts() -> impl Strategy<Value = (PassCounts, u16, u64, u64)> {
    any::<(u64, u64, u16, u64, u16, u16, u64, u64)>().prop_map(|n| {
        let passes = PassCounts { shared: n.0, served: n.1, most: n.2, pieces: n.3, waiting: n.4 };
        (passes, n.5, n.6, n.7)
    })
}

fn worker_message() -> impl Strategy<Value = WorkerMessage> {
    prop_oneof![message().prop_map(WorkerMessage::Peer), local().prop_map(WorkerMessage::Local),]
}

/// A call on which the message may stand.
fn place(message: &impl WireMessage) -> CallId {
    let inside = CallId(u32::MAX);
    if message.kind().fits(inside) { inside } else { CallId::CONNECTION }
}

proptest! {
    #[test]
    fn what_is_written_is_read(message in worker_message(), seq: u32) {
        let call = place(&message);
        let frame = encode(call, seq, &message);
        let back = decode::<WorkerMessage>(frame.clone()).unwrap();
        prop_assert_eq!((back.call, back.seq, &back.message), (call, seq, &message));
        match message {
            WorkerMessage::Peer(message) => {
                prop_assert_eq!(decode::<Message>(frame).unwrap().message, message);
            }
            WorkerMessage::Local(_) => prop_assert!(decode::<Message>(frame).is_err()),
        }
    }

    #[test]
    fn a_body_has_one_length_and_no_other(message in worker_message(), surplus: u8) {
        let (call, kind) = (place(&message), message.kind());
        let frame = encode(call, 0, &message);
        let body = &frame[HEADER_BYTES..];
        let read = |body: &[u8]| {
            let mut bytes = frame[..HEADER_BYTES].to_vec();
            bytes[12..].copy_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(body);
            decode::<WorkerMessage>(bytes.into())
        };
        // The rest of a chunk is its tensor's bytes, as many as there are.
        if kind != Kind::Chunk {
            for present in 0..body.len() {
                let refused = Err(DecodeError::BadBody { kind });
                prop_assert_eq!(read(&body[..present]), refused, "{} bytes of {:?}", present, kind);
            }
            let refused = Err(DecodeError::TrailingBytes { kind, count: 1 });
            prop_assert_eq!(read(&[body, &[surplus]].concat()), refused);
        }
        // A header that counts otherwise than what is there is refused, whatever the kind.
        for claimed in [body.len() + 1, body.len().saturating_sub(1)] {
            if claimed != body.len() && claimed <= kind.body_bytes_max() {
                let mut bytes = frame.to_vec();
                bytes[12..16].copy_from_slice(&u32::try_from(claimed).unwrap().to_be_bytes());
                let is_refused =
                    matches!(decode::<WorkerMessage>(bytes.into()), Err(DecodeError::LengthMismatch { .. }));
                prop_assert!(is_refused);
            }
        }
    }

    #[test]
    fn damaged_frames_are_refused_or_read_but_never_more(
        message in worker_message(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut frame = encode(place(&message), 0, &message).to_vec();
        for (index, byte) in damage {
            let at = index.index(frame.len());
            frame[at] = byte;
        }
        let whole = Bytes::from(frame.clone());
        frame.truncate(cut.index(frame.len()));
        for bytes in [whole, Bytes::from(frame)] {
            // Whatever is accepted encodes back to as many bytes or fewer: nothing was made up, so
            // no more was allocated than arrived.
            if let Ok(frame) = decode::<WorkerMessage>(bytes.clone()) {
                let again = encode(frame.call, frame.seq, &frame.message);
                prop_assert!(again.len() <= bytes.len());
            }
        }
    }

    #[test]
    fn noise_never_panics(bytes in vec(any::<u8>(), 0..200), kind in 0_u8..0x50) {
        let mut framed = BytesMut::new();
        let header = Header {
            version: 1,
            kind: Kind::Ping,
            flags: 0,
            call: CallId(1),
            seq: 0,
            body_len: u32::try_from(bytes.len()).unwrap(),
        };
        framed.extend_from_slice(&header.to_bytes());
        framed[1] = kind;
        framed.extend_from_slice(&bytes);
        let _ = decode::<Message>(framed.clone().freeze());
        let _ = decode::<WorkerMessage>(framed.freeze());
        let _ = decode::<WorkerMessage>(bytes.into());
    }

    #[test]
    fn any_cut_of_a_tensor_is_put_together_again(
        tokens in 1_u32..9, hidden in 1_u32..40, dtype in dtype(),
        cuts in vec(any::<prop::sample::Index>(), 0..6), fill: u8,
    ) {
        let mut assembly = TensorAssembly::new(tokens, hidden, dtype).unwrap();
        let total = tokens as usize * dtype.row_bytes(hidden);
        let bytes: Bytes = (0..total).map(|i| fill.wrapping_add(i as u8)).collect();
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(total)).collect();
        ends.push(total);
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|end| *end > 0);
        let mut start = 0;
        for end in ends {
            let last = end == total;
            let chunk = Chunk { offset: start as u64, bytes: bytes.slice(start..end), last };
            let whole = assembly.take(chunk).unwrap();
            prop_assert_eq!(whole.is_some(), last);
            if let Some(whole) = whole {
                prop_assert_eq!(whole.bytes(), &bytes);
                prop_assert_eq!((whole.tokens(), whole.hidden()), (tokens, hidden));
            }
            start = end;
        }
    }

    #[test]
    fn a_range_lies_in_its_file_and_a_piece_in_its_range(
        from: u64, bytes: u64, length: u64, at: u64, count: u32,
    ) {
        for (from, bytes, length) in [(from, bytes, length), (from % 9, bytes % 9, length % 9)] {
            let want = Want { model: ModelDigest([7; 32]), document: Document::File, from, bytes };
            let Some(range) = want.range(length) else { continue };
            prop_assert!(range.start < range.end && range.end <= length);
            prop_assert_eq!(range.end - range.start, bytes);
            for (from, bytes) in [(at, count), (range.start, count % 9)] {
                let taken = PieceAssembly::new(&Piece { from, bytes }, &range);
                let end = u128::from(from) + u128::from(bytes);
                let is_next = from == range.start && bytes > 0 && end <= u128::from(range.end);
                prop_assert_eq!(taken.is_ok(), is_next && bytes <= 1 << 20);
            }
        }
    }

    #[test]
    fn arbitrary_chunks_never_panic_and_never_pass_for_a_tensor(
        tokens: u32, hidden: u32, dtype in dtype(),
        chunks in vec((0_u64..40, vec(any::<u8>(), 0..20), any::<bool>()), 0..8),
    ) {
        for (tokens, hidden) in [(tokens, hidden), (tokens % 4 + 1, hidden % 4 + 1)] {
            let Ok(mut assembly) = TensorAssembly::new(tokens, hidden, dtype) else { continue };
            let mut sound = true;
            let mut before = Vec::new();
            for (offset, bytes, last) in chunks.clone() {
                sound &= offset == before.len() as u64;
                before.extend_from_slice(&bytes);
                let chunk = Chunk { offset, bytes: bytes.into(), last };
                match assembly.take(chunk) {
                    Ok(Some(whole)) => {
                        prop_assert!(sound && last);
                        prop_assert_eq!(whole.bytes(), &before);
                        break;
                    }
                    Ok(None) => prop_assert!(sound && !last),
                    Err(_) => break,
                }
            }
        }
    }
}
