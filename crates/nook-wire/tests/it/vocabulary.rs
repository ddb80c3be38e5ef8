//! Invariant I-2, the half that the compiler keeps: no token id, prompt, reply text or logits can
//! be in a message to another device, because no field could hold it.
//!
//! Every field of every variant is named below without `..`. A new field, or a new type of field,
//! does not compile until somebody has argued for it here.

use bytes::Bytes;
use nook_base::{
    ActivationDtype, ErrorCode, FormFactor, LayerRange, ModelDigest, ModelPart, PeerId, Sensitive,
    WakeAddress,
};
use nook_wire::{
    Advert, CallId, Chunk, DecodeError, DeviceFacts, Document, Have, HaveModel, Hello, HelpTerms,
    KeptHistory, Kind, KvPieceHead, LocalMessage, LogitRows, Message, Move, OffloadFinish,
    OffloadKept, OffloadOffer, OffloadOffers, OffloadRequest, OffloadSampling, OffloadTokens, Open,
    Passed, Piece, PlaceState, Placed, PlacementRequest, PowerNow, PrefixHash, ProtocolRange,
    ReleaseDocument, Releases, ResultHead, ResumePoint, ShardAdvert, SharingNow, StepHead, Ticket,
    TicketClaim, Trial, Want, WantRelease, WayFigures, WireError, WireMessage, WorkerMessage,
    decode, encode,
};

/// A type that has no room for text or for a list of numbers that could be token ids.
trait HoldsNoText {}
impl HoldsNoText for bool {}
impl HoldsNoText for u8 {}
impl HoldsNoText for u16 {}
impl HoldsNoText for u32 {}
impl HoldsNoText for u64 {}
impl HoldsNoText for ModelDigest {}
impl HoldsNoText for LayerRange {}
impl HoldsNoText for ActivationDtype {}
impl HoldsNoText for ErrorCode {}
/// The hardware address of a network card and its network: at most four, and fixed by the machine.
impl HoldsNoText for WakeAddress {}
/// What kind of computer a device is, and what it runs on.
impl HoldsNoText for FormFactor {}
impl HoldsNoText for PowerNow {}
/// Two numbers.
impl HoldsNoText for ProtocolRange {}
/// 16 bytes of a hash keyed with a secret that never leaves the device that made it.
impl HoldsNoText for PrefixHash {}
/// A hash of a public key, the key itself, and a signature: one of each in a ticket, all of them
/// fixed before a word was said, or made from what was.
impl HoldsNoText for PeerId {}
impl HoldsNoText for [u8; 32] {}
impl HoldsNoText for [[u8; 32]; 2] {}
/// How freely tokens are chosen: settings of a client, bounded, one of each in a request.
impl HoldsNoText for f32 {}
impl<T: HoldsNoText> HoldsNoText for Option<T> {}

/// Fields that hold no text.
fn plain(_: &[&dyn HoldsNoText]) {}
/// The only texts: who speaks, what a model is called that may be copied, and sentences for people.
fn named_text(_: &String) {}
/// The only free bytes: those of an activation, whose head has fixed their number. Behind a WHOLE
/// ASK that was accepted, and behind WHOLE TOKENS, they are ids: to and from a device of the same
/// person. Behind PIECE they are those of a model's file or of a release, which were there before anything
/// was said.
fn activation_bytes(_: &Bytes) {}

#[allow(clippy::too_many_lines, reason = "one arm for each message")]
fn visit(message: &Message) {
    match message {
        Message::Hello(Hello { protocol, app_version, device_name, listen_port }) => {
            plain(&[protocol, listen_port]);
            named_text(app_version);
            named_text(device_name);
        }
        Message::Advert(Advert {
            sharing,
            shards,
            streams_free,
            queue_depth,
            memory_free_bytes,
            fetch_bytes,
        }) => {
            plain(&[sharing, streams_free, queue_depth, memory_free_bytes, fetch_bytes]);
            shards.iter().for_each(visit_shard);
        }
        Message::Place(PlacementRequest { model, layers }) => plain(&[model, layers]),
        Message::Placed(Placed { model, layers, state }) => {
            plain(&[model, layers]);
            match state {
                PlaceState::Held => {}
                PlaceState::Loading { percent } | PlaceState::Fetching { percent } => {
                    plain(&[percent]);
                }
                PlaceState::Refused { code } => plain(&[code]),
            }
        }
        Message::Open(Open { session, model, layers, dtype, positions_max, resume }) => {
            plain(&[session, model, layers, dtype, positions_max]);
            if let Some(ResumePoint { position, mark, copy }) = resume {
                plain(&[position, mark, copy]);
            }
        }
        Message::Opened { position } | Message::Truncate { position } => plain(&[position]),
        Message::Step(head) => visit_step(head),
        Message::Result(ResultHead {
            step,
            position,
            count,
            hidden,
            dtype,
            compute_us,
            queue_us,
            bulk,
        }) => {
            plain(&[step, position, count, hidden, dtype]);
            plain(&[compute_us, queue_us, bulk]);
        }
        Message::Chunk(Chunk { offset, bytes, last }) => {
            plain(&[offset, last]);
            activation_bytes(bytes);
        }
        Message::Credit { chunks } => plain(&[chunks]),
        Message::Close { code } => plain(&[code]),
        Message::Error(WireError { code, sentence }) => {
            plain(&[code]);
            named_text(sentence);
        }
        Message::Draining { sentence } => named_text(sentence),
        Message::RequestKvCache => {}
        // Its bytes are keys and values of attention: made from activations, as those are from
        // tokens.
        Message::KvCachePiece(KvPieceHead { first, count, bytes, position, mark }) => {
            plain(&[first, count, bytes, position, mark]);
        }
        Message::KvCacheTaken { position } => plain(&[position]),
        Message::HelpTerms(HelpTerms { answered, helps, asks, sharing, wake }) => {
            plain(&[answered, helps, asks]);
            wake.iter().for_each(|address| plain(&[address]));
            match sharing {
                SharingNow::Off | SharingNow::Paused | SharingNow::On => {}
            }
        }
        // Names of its parts, for people.
        Message::DeviceFacts(facts) => {
            let DeviceFacts {
                form,
                processor,
                gpu,
                memory_bytes,
                power,
                temperature,
                weights_per_second,
            } = &**facts;
            plain(&[form, memory_bytes, power, temperature, weights_per_second]);
            named_text(processor);
            named_text(gpu);
        }
        Message::DropKept(KeptHistory { model, position, mark }) => plain(&[model, position, mark]),
        Message::Ping { nonce } | Message::Pong { nonce } => plain(&[nonce]),
        Message::Move(Move { nonce, found }) => {
            plain(&[nonce]);
            if let Some(WayFigures { round_trip_us, bytes_per_second }) = found {
                plain(&[round_trip_us, bytes_per_second]);
            }
        }
        // Its padding is made by the codec and is no part of the message.
        Message::Trial(Trial { padding, back }) => plain(&[padding, back]),
        Message::Forward(ticket) | Message::Relay(ticket) => visit_ticket(ticket),
        Message::Onward { code } => plain(&[code]),
        Message::Passed(Passed { step, compute_us, queue_us }) => {
            plain(&[step, compute_us, queue_us]);
        }
        Message::OffloadOffers(OffloadOffers { offers }) => {
            for OffloadOffer { model, ends_us, ends_held, load_kb_per_s } in offers {
                plain(&[model, ends_us, ends_held, load_kb_per_s]);
            }
        }
        Message::OffloadRequest(ask) => visit_ask(ask),
        Message::OffloadTokens(OffloadTokens { positions, count, compute_us, queue_us }) => {
            plain(&[positions, count, compute_us, queue_us]);
        }
        Message::OffloadEnd { finish: OffloadFinish::Stop | OffloadFinish::Length, kept } => {
            if let Some(OffloadKept { position, mark }) = kept {
                plain(&[position, mark]);
            }
        }
        Message::Have(Have { models }) => {
            for HaveModel { model, bytes, layers, name } in models {
                plain(&[model, bytes, layers]);
                named_text(name);
            }
        }
        Message::Want(Want {
            model,
            document: Document::File | Document::Manifest,
            from,
            bytes,
        }) => {
            plain(&[model, from, bytes]);
        }
        Message::Piece(Piece { from, bytes }) => plain(&[from, bytes]),
        // Digests of files that anybody may fetch who makes or takes releases.
        Message::Releases(Releases { serial, list_bytes, signature_bytes, packages }) => {
            plain(&[serial, list_bytes, signature_bytes]);
            packages.iter().for_each(|package| plain(&[package]));
        }
        Message::WantRelease(WantRelease { document, from, bytes }) => {
            match document {
                ReleaseDocument::List | ReleaseDocument::Signature => {}
                ReleaseDocument::Package(package) => plain(&[package]),
            }
            plain(&[from, bytes]);
        }
    }
}

fn visit_ask(ask: &OffloadRequest) {
    let OffloadRequest { model, prompt, biases, tokens_max, resume, sampling } = ask;
    plain(&[model, prompt, biases, tokens_max, resume]);
    let OffloadSampling {
        seed,
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
        repetition_window,
        frequency_penalty,
        presence_penalty,
    } = sampling;
    plain(&[seed, temperature, top_k, top_p, min_p]);
    plain(&[repetition_penalty, repetition_window, frequency_penalty, presence_penalty]);
}

fn visit_ticket(ticket: &Ticket) {
    let Ticket { requester, claim, signature } = ticket;
    let TicketClaim { carrier, host, session, model, layers, dtype, positions_max } = claim;
    plain(&[requester, carrier, host, session, model]);
    plain(&[layers, dtype, positions_max, signature]);
}

fn visit_shard(shard: &ShardAdvert) {
    let ShardAdvert { model, layers, held, decode_us_per_layer, prefill_us_per_layer_token } =
        shard;
    plain(&[model, layers, held]);
    plain(&[decode_us_per_layer, prefill_us_per_layer_token]);
}

fn visit_step(head: &StepHead) {
    let StepHead { step, position, count, hidden, dtype, history_before, history_after, bulk } =
        head;
    plain(&[step, position, count, hidden, dtype]);
    plain(&[history_before, history_after, bulk]);
}

fn step(history: [u8; 16]) -> Message {
    Message::Step(StepHead {
        step: 1,
        position: 40,
        count: 8,
        hidden: 2048,
        dtype: ActivationDtype::F16,
        history_before: PrefixHash(history),
        history_after: PrefixHash(history),
        bulk: false,
    })
}

fn size(message: &Message) -> usize {
    visit(message);
    encode(CallId(1), 0, message).len()
}

#[test]
fn a_step_says_the_same_amount_whatever_was_said() {
    // Two conversations of equal length differ only in their keyed marks, whose size is fixed.
    assert_eq!(size(&step([0; 16])), size(&step([0xff; 16])));
    let open = |session| {
        size(&Message::Open(Open {
            session,
            model: ModelDigest([7; 32]),
            layers: LayerRange::with_len(2, 5),
            dtype: ActivationDtype::F16,
            positions_max: 4096,
            resume: Some(ResumePoint {
                position: 40,
                mark: PrefixHash([session as u8; 16]),
                copy: false,
            }),
        }))
    };
    assert_eq!(open(1), open(2));
    assert!(open(u64::MAX) < 100 && size(&step([1; 16])) < 80);
    let ticket = |session| {
        size(&Message::Relay(Box::new(Ticket {
            requester: [session as u8; 32],
            claim: TicketClaim {
                carrier: PeerId([2; 32]),
                host: PeerId([3; 32]),
                session,
                model: ModelDigest([7; 32]),
                layers: LayerRange::with_len(2, 5),
                dtype: ActivationDtype::F16,
                positions_max: 4096,
            },
            signature: [[session as u8; 32]; 2],
        })))
    };
    assert_eq!(ticket(1), ticket(2));
    assert!(ticket(u64::MAX) < 256);
}

#[test]
fn what_is_local_has_no_way_into_a_message_between_devices() {
    let tokens = WorkerMessage::Local(LocalMessage::Tokens {
        step: 0,
        position: 0,
        ids: Sensitive(vec![1, 2, 3]),
        history_before: PrefixHash::default(),
        history_after: PrefixHash::default(),
        rows: LogitRows::Last,
    });
    assert_eq!(tokens.clone().into_peer(), Err(tokens));
}

#[test]
fn a_device_refuses_every_local_kind() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.is_local()) {
        let mut frame = encode(CallId(1), 0, &Message::Opened { position: 0 }).to_vec();
        frame[1] = kind as u8;
        assert_eq!(
            decode::<Message>(frame.into()),
            Err(DecodeError::UnknownKind { number: kind as u8 })
        );
    }
}

#[test]
fn reserved_kinds_are_refused_by_everybody() {
    let known = |number: &u8| Kind::ALL.iter().any(|kind| *kind as u8 == *number);
    let unknown: Vec<u8> = (0..=u8::MAX).filter(|number| !known(number)).collect();
    assert_eq!(unknown.len(), 256 - Kind::ALL.len(), "no number stands for two kinds");
    for number in unknown {
        let mut frame = encode(CallId(1), 0, &Message::Opened { position: 0 }).to_vec();
        frame[1] = number;
        let frame = Bytes::from(frame);
        let refused = DecodeError::UnknownKind { number };
        assert_eq!(decode::<Message>(frame.clone()), Err(refused));
        assert_eq!(decode::<WorkerMessage>(frame), Err(refused));
    }
}

#[test]
fn debug_output_shows_no_ids_no_bytes_and_no_key() {
    let local = |message: LocalMessage| format!("{:?}", WorkerMessage::Local(message));
    let chunk = Chunk { offset: 7, bytes: Bytes::from_static(&[77; 9]), last: true };
    let part = ModelPart::whole(2);
    let shown = [
        local(LocalMessage::Tokens {
            step: 1,
            position: 2,
            ids: Sensitive(vec![77_777; 2]),
            history_before: PrefixHash([1; 16]),
            history_after: PrefixHash([2; 16]),
            rows: LogitRows::Last,
        }),
        local(LocalMessage::Auth { token: Sensitive([77; 32]) }),
        format!("{chunk:?} {part:?}"),
    ];
    assert!(shown.iter().all(|text| !text.contains("77")), "{shown:?}");
    assert!(shown[2].starts_with("Chunk(9 bytes at 7, last)"));
}
