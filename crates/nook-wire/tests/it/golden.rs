//! The wire, byte by byte: one frame of each kind. A difference here is a new protocol version.

use std::fmt::Write;

use bytes::Bytes;
use nook_base::{
    ActivationDtype, Backend, ErrorCode, FormFactor, LayerRange, MacAddress, ModelDigest,
    ModelPart, PeerId, Sensitive, WakeAddress,
};
use nook_wire::{
    Advert, CallId, Chunk, DeviceFacts, Document, GpuHolding, GpuKind, GpuReport, Have, HaveModel,
    Hello, HelpTerms, KeptHistory, Kind, KvPieceHead, LocalMessage, LogitRows, Message, Move,
    OffloadFinish, OffloadKept, OffloadOffer, OffloadOffers, OffloadRequest, OffloadSampling,
    OffloadTokens, Open, PassCounts, Passed, Piece, PlaceState, Placed, PlacementRequest, PowerNow,
    PrefixHash, ProtocolRange, ReleaseDocument, Releases, ResultHead, ResumePoint, ShardAdvert,
    SharingNow, StepHead, Ticket, TicketClaim, Trial, Want, WantRelease, WayFigures, WireError,
    WireMessage, WorkerMessage, decode, encode,
};

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        if index == 16 {
            text.push(' ');
        }
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
    }
    text
}

fn step() -> StepHead {
    StepHead {
        step: 300,
        position: 40,
        count: 8,
        hidden: 2048,
        dtype: ActivationDtype::F32,
        history_before: PrefixHash([0xb1; 16]),
        history_after: PrefixHash([0xa2; 16]),
        bulk: true,
    }
}

fn open(resume: Option<ResumePoint>) -> Open {
    Open {
        session: 9,
        model: ModelDigest([0x3c; 32]),
        layers: LayerRange::with_len(2, 6),
        dtype: ActivationDtype::F16,
        positions_max: 4096,
        resume,
    }
}

type Golden<M> = Vec<(M, &'static str)>;

fn between_devices() -> Golden<Message> {
    let ways = trials();
    let first = [before_a_step(), steps_and_ends(), ways, from_host_to_host()].concat();
    [first, what_a_device_is(), whole_requests(), copies()].concat()
}

fn before_a_step() -> Golden<Message> {
    vec![
        (
            Message::Hello(Hello {
                protocol: ProtocolRange::new(1, 2).expect("two versions"),
                app_version: "0.1.0".to_owned(),
                device_name: "desk".to_owned(),
                listen_port: 4588,
            }),
            "0101000000000000000000090000000f 010205302e312e30046465736bec23",
        ),
        (
            Message::Advert(Advert {
                sharing: true,
                shards: vec![ShardAdvert {
                    model: ModelDigest([0x3c; 32]),
                    layers: LayerRange::with_len(2, 6),
                    held: LayerRange::with_len(2, 2),
                    decode_us_per_layer: Some(700),
                    prefill_us_per_layer_token: None,
                }],
                streams_free: 3,
                queue_depth: 1,
                memory_free_bytes: 1 << 33,
                fetch_bytes: 1 << 20,
            }),
            "01020000000000000000000900000034 01013c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c0208020401bc050003018080808020808040",
        ),
        (
            Message::Place(PlacementRequest {
                model: ModelDigest([0x3c; 32]),
                layers: LayerRange::with_len(2, 6),
            }),
            "01030000000000000000000900000022 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c0208",
        ),
        (
            Message::Placed(Placed {
                model: ModelDigest([0x3c; 32]),
                layers: LayerRange::with_len(2, 6),
                state: PlaceState::Loading { percent: 40 },
            }),
            "01040000000000000000000900000024 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c02080028",
        ),
        (
            Message::Placed(Placed {
                model: ModelDigest([0x3c; 32]),
                layers: LayerRange::with_len(2, 6),
                state: PlaceState::Fetching { percent: 40 },
            }),
            "01040000000000000000000900000024 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c02080328",
        ),
        (
            Message::Open(open(None)),
            "01050000010203050000000900000027 093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c020800802000",
        ),
        (Message::Opened { position: 40 }, "01060000010203050000000900000001 28"),
    ]
}

fn cable() -> WakeAddress {
    let mac = MacAddress([2, 0x42, 0xac, 0x11, 0, 9]);
    WakeAddress::new(mac, [10, 77, 0, 1].into(), 24).unwrap()
}

fn trials() -> Golden<Message> {
    vec![
        (
            Message::Trial(Trial { padding: 8, back: 300 }),
            "0114000000000000000000090000000b 08ac02dc1b77ae0bf34dad",
        ),
        (
            Message::Move(Move { nonce: 300, found: None }),
            "01150000000000000000000900000003 ac0200",
        ),
    ]
}

fn steps_and_ends() -> Golden<Message> {
    vec![
        (
            Message::Step(step()),
            "01070000010203050000000900000028 ac022808801001b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a201",
        ),
        (
            Message::Chunk(Chunk {
                offset: 300,
                bytes: Bytes::from_static(&[1, 2, 3, 4]),
                last: true,
            }),
            "01080002010203050000000900000006 ac0201020304",
        ),
        (
            Message::Result(ResultHead {
                step: 300,
                position: 40,
                count: 8,
                hidden: 2048,
                dtype: ActivationDtype::F16,
                compute_us: 1500,
                queue_us: 20,
                bulk: false,
            }),
            "0109000001020305000000090000000b ac022808801000dc0b1400",
        ),
        (Message::Truncate { position: 17 }, "010a0000010203050000000900000001 11"),
        (Message::Credit { chunks: 8 }, "010b0000010203050000000900000001 08"),
        (
            Message::Close { code: Some(ErrorCode::Cancelled) },
            "010c0000010203050000000900000002 0111",
        ),
        (
            Message::Error(WireError { code: ErrorCode::Busy, sentence: "Later.".to_owned() }),
            "010d0000010203050000000900000008 06064c617465722e",
        ),
        (
            Message::Draining { sentence: "Bye.".to_owned() },
            "010e0000010203050000000900000005 044279652e",
        ),
        (Message::Ping { nonce: 300 }, "01120000000000000000000900000002 ac02"),
        (Message::Pong { nonce: 300 }, "01130000000000000000000900000002 ac02"),
        (Message::RequestKvCache, "01300000010203050000000900000000"),
        (
            Message::KvCachePiece(KvPieceHead {
                first: 256,
                count: 44,
                bytes: 1 << 20,
                position: 300,
                mark: PrefixHash([0xb1; 16]),
            }),
            "01310000010203050000000900000018 80022c808040ac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1",
        ),
        (Message::KvCacheTaken { position: 300 }, "01320000010203050000000900000002 ac02"),
        (
            Message::HelpTerms(HelpTerms {
                answered: true,
                helps: false,
                asks: true,
                sharing: SharingNow::Paused,
                wake: vec![cable()],
            }),
            "01340000000000000000000900000010 01000101010242ac1100090a4d000018",
        ),
        (
            Message::DropKept(kept()),
            "01330000000000000000000900000032 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3cac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1",
        ),
    ]
}

fn what_a_device_is() -> Golden<Message> {
    vec![(
        Message::DeviceFacts(Box::new(DeviceFacts {
            form: Some(FormFactor::Tower),
            processor: "Ryzen 7".to_owned(),
            gpu: "RTX 4070".to_owned(),
            memory_bytes: Some(32 << 30),
            power: Some(PowerNow::Battery(64)),
            temperature: Some(61),
            weights_per_second: Some(30_000_000_000),
        })),
        "01350000000000000000000900000025 01020752797a656e203708525458203430373001808080808001010240013d0180d88ee16f",
    )]
}

fn kept() -> KeptHistory {
    KeptHistory { model: ModelDigest([0x3c; 32]), position: 300, mark: PrefixHash([0xb1; 16]) }
}

fn from_host_to_host() -> Golden<Message> {
    let ticket = Box::new(Ticket {
        requester: [0x71; 32],
        claim: TicketClaim {
            carrier: PeerId([0x72; 32]),
            host: PeerId([0x73; 32]),
            session: 9,
            model: ModelDigest([0x3c; 32]),
            layers: LayerRange::with_len(2, 6),
            dtype: ActivationDtype::F16,
            positions_max: 4096,
        },
        signature: [[0x5e; 32], [0x5f; 32]],
    });
    vec![
        (
            Message::Forward(ticket.clone()),
            "011800000102030500000009000000c6 717171717171717171717171717171717171717171717171717171717171717172727272727272727272727272727272727272727272727272727272727272727373737373737373737373737373737373737373737373737373737373737373093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c02080080205e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
        ),
        (
            Message::Relay(ticket),
            "011900000102030500000009000000c6 717171717171717171717171717171717171717171717171717171717171717172727272727272727272727272727272727272727272727272727272727272727373737373737373737373737373737373737373737373737373737373737373093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c02080080205e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f",
        ),
        (
            Message::Onward { code: Some(ErrorCode::TrustDenied) },
            "011a0000010203050000000900000002 0105",
        ),
        (
            Message::Passed(Passed { step: 300, compute_us: 1500, queue_us: 20 }),
            "011b0000010203050000000900000005 ac02dc0b14",
        ),
    ]
}

fn part() -> ModelPart {
    ModelPart { layers: LayerRange::with_len(0, 2), embedding: true, head: false }
}

fn whole_requests() -> Golden<Message> {
    let model = ModelDigest([0x3c; 32]);
    let sampling = OffloadSampling {
        seed: 9,
        temperature: 0.5,
        top_k: 40,
        top_p: 1.0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        repetition_window: 64,
        frequency_penalty: 0.0,
        presence_penalty: 0.5,
    };
    vec![
        (
            Message::OffloadOffers(OffloadOffers {
                offers: vec![OffloadOffer {
                    model,
                    ends_us: Some(700),
                    ends_held: true,
                    load_kb_per_s: None,
                }],
            }),
            "01380000000000000000000900000026 013c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c01bc050100",
        ),
        (
            Message::OffloadRequest(Box::new(OffloadRequest {
                model,
                prompt: 300,
                biases: 2,
                tokens_max: 200,
                resume: 40,
                sampling,
            })),
            "01390000010203050000000900000041 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3cac0202c80128090000003f280000803f000000000000803f40000000000000003f",
        ),
        (
            Message::OffloadTokens(OffloadTokens {
                positions: 301,
                count: 1,
                compute_us: 1500,
                queue_us: 20,
            }),
            "013a0000010203050000000900000006 ad0201dc0b14",
        ),
        (
            Message::OffloadEnd { finish: OffloadFinish::Length, kept: None },
            "013b0000010203050000000900000002 0100",
        ),
    ]
}

fn copies() -> Golden<Message> {
    let model = ModelDigest([0x3c; 32]);
    let name = "amber".to_owned();
    vec![
        (
            Message::Have(Have {
                models: vec![HaveModel { model, bytes: 1 << 20, layers: 6, name }],
            }),
            "0110000000000000000000090000002b 013c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c8080400605616d626572",
        ),
        (
            Message::Want(Want { model, document: Document::Manifest, from: 300, bytes: 1 << 20 }),
            "010f0000010203050000000900000026 3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c01ac02808040",
        ),
        (
            Message::Piece(Piece { from: 300, bytes: 1 << 18 }),
            "01110000010203050000000900000005 ac02808010",
        ),
        (
            Message::Releases(Releases {
                serial: 300,
                list_bytes: 2,
                signature_bytes: 300,
                packages: vec![[0x5a; 32]],
            }),
            "01160000000000000000000900000026 ac0202ac02015a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
        ),
        (
            Message::WantRelease(WantRelease {
                document: ReleaseDocument::Package([0x5a; 32]),
                from: 300,
                bytes: 1 << 20,
            }),
            "01170000010203050000000900000026 025a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5aac02808040",
        ),
    ]
}

fn to_the_worker() -> Golden<LocalMessage> {
    [setting_up(), working()].concat()
}

fn setting_up() -> Golden<LocalMessage> {
    let part = part();
    vec![
        (
            LocalMessage::Auth { token: Sensitive([0x5a; 32]) },
            "01400000010203050000000900000021 005a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a",
        ),
        (
            LocalMessage::Configure {
                streams_max: 4,
                memory_bytes_max: 1 << 33,
                gpu_bytes_max: 1 << 32,
                idle_seconds: 600,
                threads: 4,
                backend: Backend::GpuAt(2),
                falls_back: true,
            },
            "01410000010203050000000900000012 010480808080208080808010d80404030201",
        ),
        (
            LocalMessage::Load {
                path: "m.gguf".into(),
                model: ModelDigest([0x3c; 32]),
                part,
                stamp: None,
            },
            "0142000001020305000000090000002d 02066d2e676775663c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c0002010000",
        ),
        (
            LocalMessage::Loaded { part, weight_bytes: 1 << 20, load_ms: 40 },
            "01430000010203050000000900000009 030002010080804028",
        ),
        (
            LocalMessage::OpenLocal {
                session: 9,
                part,
                dtype: ActivationDtype::F16,
                positions_max: 4096,
                resume: None,
            },
            "0144000001020305000000090000000a 04090002010000802000",
        ),
    ]
}

const ON_GPU: GpuHolding = GpuHolding {
    layers: 2,
    bytes: 1 << 21,
    lent_bytes: 1 << 20,
    kept_bytes: 5,
    shares_memory: true,
};

fn working() -> Golden<LocalMessage> {
    vec![
        (
            LocalMessage::Tokens {
                step: 300,
                position: 40,
                ids: Sensitive(vec![1, 128_000]),
                history_before: PrefixHash([0xb1; 16]),
                history_after: PrefixHash([0xa2; 16]),
                rows: LogitRows::Last,
            },
            "0145000001020305000000090000002a 05ac0228020180e807b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a201",
        ),
        (
            LocalMessage::StepLogits { head: step(), rows: LogitRows::None },
            "0146000001020305000000090000002a 06ac022808801001b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a20100",
        ),
        (
            LocalMessage::Logits {
                step: 300,
                position: 41,
                count: 1,
                vocabulary: 128_256,
                compute_us: 1500,
                queue_us: 20,
            },
            "0147000001020305000000090000000b 07ac02290180ea07dc0b14",
        ),
        (LocalMessage::Unload, "01480000010203050000000900000001 08"),
        (LocalMessage::Unloaded, "01490000010203050000000900000001 09"),
        (LocalMessage::Status, "014a0000010203050000000900000001 0a"),
        (
            LocalMessage::StatusReport {
                held: vec![LayerRange::with_len(0, 2)],
                embedding: true,
                head: false,
                sessions: 2,
                guest_sessions: 1,
                weight_bytes: 1 << 20,
                cache_bytes: 1 << 16,
                steps_done: 77,
                passes: PassCounts { shared: 20, served: 60, most: 4, pieces: 17, waiting: 1 },
                parked: 3,
                parked_bytes: 1 << 15,
                lent_bytes: 1 << 14,
                backend: Backend::GpuAt(2),
                on_gpu: ON_GPU,
            },
            "014b0000010203050000000900000027 0b010002010002018080408080044d143c04110103808002808001030202808080018080400501",
        ),
        (
            LocalMessage::OnBehalf { peer: PeerId([0x9d; 32]) },
            "014c0000010203050000000900000021 0c9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d9d",
        ),
        (LocalMessage::Forget { peer: None }, "014d0000010203050000000900000002 0d00"),
        (
            LocalMessage::Release { layers: LayerRange::with_len(2, 4) },
            "01580000010203050000000900000003 0e0206",
        ),
        (
            LocalMessage::DropKeptOf { peer: None, kept: kept() },
            "01590000010203050000000900000034 0f003c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3cac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1",
        ),
        (LocalMessage::ListGpus, "015a0000010203050000000900000001 10"),
        (
            LocalMessage::Gpus { gpus: vec![gpu()] },
            "015b000001020305000000090000001d 110101034172630676756c6b616e074d65736120323500018080808020",
        ),
    ]
}

fn gpu() -> GpuReport {
    GpuReport {
        number: 1,
        name: "Arc".to_owned(),
        api: "vulkan".to_owned(),
        driver: "Mesa 25".to_owned(),
        kind: GpuKind::Discrete,
        memory: Some(8 << 30),
    }
}

/// The frame of `message` is `golden`, and reads back as the message.
fn check<M: WireMessage + PartialEq>(message: M, golden: &str) {
    let inside = CallId(0x0102_0305);
    let call = if message.kind().fits(inside) { inside } else { CallId::CONNECTION };
    let frame = encode(call, 9, &message);
    assert_eq!(hex(&frame), golden, "{message:?}");
    let back = decode::<M>(frame).expect("our own frame is readable");
    assert_eq!((back.call, back.seq, back.message), (call, 9, message));
}

#[test]
fn an_open_that_resumes_says_where_and_whether_by_a_copy() {
    let resume = ResumePoint { position: 300, mark: PrefixHash([0xb1; 16]), copy: false };
    check(
        Message::Open(open(Some(ResumePoint { copy: true, ..resume }))),
        "0105000001020305000000090000003a 093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c020800802001ac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b101",
    );
    check(
        Message::Open(open(Some(resume))),
        "0105000001020305000000090000003a 093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c020800802001ac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b100",
    );
}

#[test]
fn eight_bits_are_the_third_format_and_change_nothing_else() {
    check(
        Message::Open(Open { dtype: ActivationDtype::Q8, ..open(None) }),
        "01050000010203050000000900000027 093c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c020802802000",
    );
}

#[test]
fn the_end_of_a_whole_request_names_what_is_kept() {
    let kept = Some(OffloadKept { position: 300, mark: PrefixHash([0xb1; 16]) });
    check(
        Message::OffloadEnd { finish: OffloadFinish::Stop, kept },
        "013b0000010203050000000900000014 0001ac02b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1",
    );
}

#[test]
fn each_offer_says_how_fast_its_weights_are_loaded() {
    let model = ModelDigest([0x3c; 32]);
    let offer =
        |ends_us, load_kb_per_s| OffloadOffer { model, ends_us, ends_held: false, load_kb_per_s };
    check(
        Message::OffloadOffers(OffloadOffers {
            offers: vec![offer(None, Some(300)), offer(None, None)],
        }),
        "01380000000000000000000900000049 023c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c000001ac023c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c000000",
    );
}

#[test]
fn a_move_says_what_was_measured() {
    let found = Some(WayFigures { round_trip_us: 480, bytes_per_second: 110_000_000 });
    let message = Message::Move(Move { nonce: 300, found });
    check(message, "01150000000000000000000900000009 ac0201e00380efb934");
}

#[test]
fn every_kind_has_its_bytes() {
    let mut kinds = Vec::new();
    for (message, golden) in between_devices() {
        kinds.push(message.kind());
        check(WorkerMessage::Peer(message.clone()), golden);
        check(message, golden);
    }
    for (message, golden) in to_the_worker() {
        kinds.push(message.kind());
        check(WorkerMessage::Local(message), golden);
    }
    // Some kinds have a frame for each of their forms.
    kinds.dedup();
    assert_eq!(kinds, Kind::ALL, "a frame of each kind, in order");
}
