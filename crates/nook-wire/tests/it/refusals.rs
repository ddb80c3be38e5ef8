//! Every guard of the codec and the assemblies, each with the reason it gives.

use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};
use nook_base::limits::{CHUNK_BYTES, CHUNK_BYTES_MAX, FRAME_BODY_BYTES_MAX, STEP_TOKENS_MAX};
use nook_base::{ActivationDtype, LayerRange, ModelDigest, PeerId, Sensitive};
use nook_wire::greeting::DEVICE_NAME_BYTES_MAX;
use nook_wire::kind::{CONTROL_BODY_BYTES_MAX, FLAG_LAST_CHUNK};
use nook_wire::message::SENTENCE_BYTES_MAX;
use nook_wire::{
    Advert, CallId, Chunk, DecodeError, HEADER_BYTES, Header, Kind, LocalMessage, LogitRows,
    LogitsAssembly, Message, PrefixHash, ResumePoint, ShardAdvert, TRIAL_BACK_MAX,
    TRIAL_PADDING_MAX, TensorAssembly, TensorError, Ticket, TicketClaim, Trial, WireMessage,
    WorkerMessage, chunks_of, decode, encode, encode_unsent,
};

/// A header that claims `body_len` bytes.
fn claim(kind: Kind, body_len: u32) -> [u8; HEADER_BYTES] {
    let call = if kind.fits(CallId(1)) { CallId(1) } else { CallId::CONNECTION };
    let header = Header { version: 1, kind, flags: 0, call, seq: 0, body_len };
    header.to_bytes()
}

#[test]
fn a_claimed_length_above_the_limit_is_refused_from_the_header_alone() {
    for kind in Kind::ALL {
        let max = kind.body_bytes_max();
        assert!(max <= FRAME_BODY_BYTES_MAX);
        for claimed in [max + 1, 16 << 20, u32::MAX as usize] {
            let claimed = u32::try_from(claimed).unwrap();
            assert_eq!(
                Header::parse(&claim(kind, claimed)),
                Err(DecodeError::BodyTooLong { kind, claimed, max })
            );
        }
        let allowed = u32::try_from(max).unwrap();
        assert_eq!(Header::parse(&claim(kind, allowed)).unwrap().kind, kind);
    }
}

#[test]
fn each_wrong_header_is_refused_with_its_reason() {
    let good = encode(CallId(1), 0, &Message::Opened { position: 300 });
    let kind = Kind::Opened;
    let changed = |at: usize, byte: u8| {
        let mut frame = good.to_vec();
        frame[at] = byte;
        decode::<Message>(frame.into()).unwrap_err()
    };
    assert_eq!(changed(0, 2), DecodeError::WrongVersion { got: 2 });
    assert_eq!(changed(3, 1), DecodeError::UnknownFlags { kind, flags: 1 });
    assert_eq!(changed(3, 2), DecodeError::UnknownFlags { kind, flags: 2 });
    let call = CallId::CONNECTION;
    assert_eq!(changed(7, 0), DecodeError::WrongPlace { kind, call });
    let mismatch = |claimed| DecodeError::LengthMismatch { kind, claimed, present: 2 };
    assert_eq!(changed(15, 3), mismatch(3));
    assert_eq!(changed(15, 0), mismatch(0));
    assert_eq!(decode::<Message>(good.slice(..15)), Err(DecodeError::ShortHeader { present: 15 }));
    let ping = encode(CallId::CONNECTION, 0, &Message::Ping { nonce: 1 });
    let mut on_a_call = ping.to_vec();
    on_a_call[7] = 1;
    assert!(matches!(decode::<Message>(on_a_call.into()), Err(DecodeError::WrongPlace { .. })));
}

/// A frame with any body.
fn raw(kind: Kind, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::from(&claim(kind, u32::try_from(body.len()).expect("small"))[..]);
    frame.extend_from_slice(body);
    frame.freeze()
}

#[test]
fn bytes_left_over_after_a_body_are_refused() {
    let (kind, count) = (Kind::Opened, 1);
    assert_eq!(
        decode::<Message>(raw(kind, &[40, 0])),
        Err(DecodeError::TrailingBytes { kind, count })
    );
}

#[test]
fn t4_a_trial_of_another_size_than_it_says_or_of_too_much_is_refused() {
    let kind = Kind::Trial;
    let read = |head: &[u32; 2], padding: usize| {
        let mut body = postcard::to_stdvec(head).expect("two numbers");
        body.extend(vec![7; padding]);
        decode::<Message>(raw(kind, &body)).map(|frame| frame.message)
    };
    let trial = |padding, back| Ok(Message::Trial(Trial { padding, back }));
    assert_eq!(read(&[0, 0], 0), trial(0, 0));
    assert_eq!(read(&[3, 4096], 3), trial(3, 4096));
    let bad = Err(DecodeError::BadBody { kind });
    assert_eq!(read(&[3, 0], 2), bad);
    assert_eq!(read(&[3, 0], 4), Err(DecodeError::TrailingBytes { kind, count: 1 }));
    let most = TRIAL_PADDING_MAX as usize;
    assert_eq!(read(&[TRIAL_PADDING_MAX, TRIAL_BACK_MAX], most), trial(32 << 10, 256 << 10));
    assert_eq!(read(&[TRIAL_PADDING_MAX + 1, 0], most + 1), bad);
    assert_eq!(read(&[0, TRIAL_BACK_MAX + 1], 0), bad);
}

#[test]
fn a_burst_is_of_the_size_that_was_asked_for_and_asks_back_once() {
    for bytes in [1, TRIAL_PADDING_MAX, TRIAL_PADDING_MAX + 1, TRIAL_BACK_MAX] {
        let burst: Vec<_> = Trial::burst(bytes, 7).collect();
        assert_eq!(burst.iter().map(|trial| trial.padding).sum::<u32>(), bytes);
        let (last, before) = burst.split_last().expect("some message");
        assert_eq!(last.back, 7);
        assert!(before.iter().all(|trial| trial.back == 0));
    }
    assert_eq!(Trial::burst(0, 7).count(), 0);
}

#[test]
fn a_range_that_runs_backwards_is_refused() {
    let mut body = vec![9];
    body.extend([0x3c; 32]);
    body.extend([6, 2, 0, 10, 0]);
    let kind = Kind::Open;
    let refused = Err(DecodeError::BadBody { kind });
    assert_eq!(decode::<Message>(raw(kind, &body)), refused);
    body[33..35].copy_from_slice(&[2, 6]);
    assert!(decode::<Message>(raw(kind, &body)).is_ok());
}

#[test]
fn a_field_that_may_be_absent_says_so_and_is_whole_or_absent() {
    let kind = Kind::Open;
    let plain = [&[9][..], &[0x3c; 32], &[2, 6, 0, 10]].concat();
    let read = |rest: &[u8]| {
        let frame = decode::<Message>(raw(kind, &[&plain[..], rest].concat()))?;
        let Message::Open(open) = frame.message else { panic!("an OPEN is an OPEN") };
        Ok(open.resume)
    };
    let bad = Err(DecodeError::BadBody { kind });
    assert_eq!(read(&[0]), Ok(None));
    // Not left out, neither absent nor present, not true and not false.
    let mark = [1; 16];
    let whole = [&[1, 7][..], &mark, &[1]].concat();
    for wrong in [&[][..], &[2], &[2, 7], &[&whole[..18], &[2]].concat()] {
        assert_eq!(read(wrong), bad, "{wrong:?}");
    }
    for copy in [false, true] {
        let point = ResumePoint { position: 7, mark: PrefixHash(mark), copy };
        assert_eq!(read(&[&whole[..18], &[u8::from(copy)]].concat()), Ok(Some(point)));
    }
    // A position that no 32 bits hold.
    let far = |last: u8| read(&[&[1, 0xff, 0xff, 0xff, 0xff, last][..], &mark, &[0]].concat());
    assert_eq!(far(0x0f).map(|it| it.map(|it| it.position)), Ok(Some(u32::MAX)));
    assert_eq!(far(0x7f), bad);
}

#[test]
fn a_hello_that_speaks_no_version_is_refused() {
    let kind = Kind::Hello;
    let read = |min, max| decode::<Message>(raw(kind, &[min, max, 0, 0, 0])).map(|_| ());
    assert_eq!([read(0, 0), read(0, 9), read(7, 9)], [Ok(()); 3]);
    assert_eq!([read(1, 0), read(9, 7)], [Err(DecodeError::BadBody { kind }); 2]);
}

#[test]
fn a_ticket_is_whole_and_stands_on_a_call() {
    let ticket = Ticket {
        requester: [1; 32],
        claim: TicketClaim {
            carrier: PeerId([2; 32]),
            host: PeerId([3; 32]),
            session: u64::MAX,
            model: ModelDigest([4; 32]),
            layers: LayerRange::with_len(1, 2),
            dtype: ActivationDtype::F32,
            positions_max: u32::MAX,
        },
        signature: [[5; 32]; 2],
    };
    let frame = encode(CallId(1), 0, &Message::Relay(Box::new(ticket)));
    let body = &frame[HEADER_BYTES..];
    let kind = Kind::Relay;
    for present in 0..body.len() {
        let refused = Err(DecodeError::BadBody { kind });
        assert_eq!(decode::<Message>(raw(kind, &body[..present])), refused, "{present}");
    }
    let surplus = [body, &[0]].concat();
    let refused = Err(DecodeError::TrailingBytes { kind, count: 1 });
    assert_eq!(decode::<Message>(raw(kind, &surplus)), refused);
    for kind in [Kind::Forward, Kind::Relay, Kind::Onward, Kind::Passed] {
        assert!(!kind.fits(CallId::CONNECTION) && kind.fits(CallId(1)), "{kind:?}");
    }
}

#[test]
fn a_claimed_list_length_makes_no_room() {
    // A list of 2^28 shards in an advert of six bytes, and one of 2^28 ids.
    let advert = raw(Kind::Advert, &[1, 0xff, 0xff, 0xff, 0x7f, 0]);
    assert!(decode::<Message>(advert).is_err());
    let kind = Kind::Tokens;
    let ids = raw(kind, &[5, 0, 0, 0xff, 0xff, 0xff, 0x7f]);
    let refused = Err(DecodeError::BadBody { kind });
    assert_eq!(decode::<WorkerMessage>(ids), refused);
}

#[test]
fn a_list_may_be_as_long_as_its_limit_and_no_longer() {
    let tokens = |count: usize| {
        let message = LocalMessage::Tokens {
            step: 0,
            position: 0,
            ids: Sensitive(vec![7; count]),
            history_before: PrefixHash::default(),
            history_after: PrefixHash::default(),
            rows: LogitRows::None,
        };
        decode::<WorkerMessage>(encode(CallId(1), 0, &WorkerMessage::Local(message)))
    };
    let max = STEP_TOKENS_MAX as usize;
    assert!(tokens(max).is_ok());
    let kind = Kind::Tokens;
    assert_eq!(tokens(max + 1), Err(DecodeError::BadBody { kind }));
}

#[test]
fn a_body_that_contradicts_its_kind_is_refused() {
    let kind = Kind::Unload;
    let status = encode(CallId(1), 0, &WorkerMessage::Local(LocalMessage::Status));
    let mut lie = status.to_vec();
    lie[1] = kind as u8;
    let refused = Err(DecodeError::BadBody { kind });
    assert_eq!(decode::<WorkerMessage>(lie.into()), refused);
}

#[test]
fn long_texts_are_cut_by_the_sender_and_refused_by_the_receiver() {
    let sentence = "ä".repeat(SENTENCE_BYTES_MAX);
    let frame = encode(CallId(1), 0, &Message::Draining { sentence });
    match decode::<Message>(frame).unwrap().message {
        Message::Draining { sentence } => assert_eq!(sentence.len(), SENTENCE_BYTES_MAX),
        other => panic!("{other:?}"),
    }
    let length = DEVICE_NAME_BYTES_MAX + 1;
    let mut body = vec![1, 1, 0];
    body.extend([(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
    body.extend(vec![b'x'; length]);
    body.push(0);
    let kind = Kind::Hello;
    let refused = Err(DecodeError::BadBody { kind });
    assert_eq!(decode::<Message>(raw(kind, &body)), refused);
}

#[test]
fn the_longest_lists_fit_into_a_frame() {
    let shard = ShardAdvert {
        model: ModelDigest([0xff; 32]),
        layers: LayerRange::new(u32::MAX - 1, u32::MAX).unwrap(),
        held: LayerRange::new(u32::MAX - 1, u32::MAX).unwrap(),
        decode_us_per_layer: Some(u32::MAX),
        prefill_us_per_layer_token: Some(u32::MAX),
    };
    let advert = Message::Advert(Advert {
        sharing: true,
        shards: vec![shard; 1000],
        streams_free: 1,
        queue_depth: 1,
        memory_free_bytes: u64::MAX,
        fetch_bytes: u64::MAX,
    });
    let frame = encode(CallId::CONNECTION, 0, &advert);
    assert!(frame.len() <= HEADER_BYTES + CONTROL_BODY_BYTES_MAX);
    match decode::<Message>(frame).unwrap().message {
        Message::Advert(advert) => assert_eq!(advert.shards.len(), 256),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_chunk_is_a_slice_of_its_frame() {
    let chunk = Chunk { offset: 1 << 40, bytes: vec![7; CHUNK_BYTES_MAX].into(), last: true };
    let frame = encode(CallId(1), 0, &Message::Chunk(chunk));
    assert_eq!(Header::parse(&frame).unwrap().flags, FLAG_LAST_CHUNK);
    let within = frame.as_ptr_range();
    match decode::<Message>(frame.clone()).unwrap().message {
        Message::Chunk(chunk) => {
            assert_eq!((chunk.bytes.len(), chunk.last), (CHUNK_BYTES_MAX, true));
            assert!(within.contains(&chunk.bytes.as_ptr()), "it was copied");
        }
        other => panic!("{other:?}"),
    }
    // Empty chunks would be endless work for nothing.
    let kind = Kind::Chunk;
    let refused = Err(DecodeError::BadBody { kind });
    assert_eq!(decode::<Message>(raw(kind, &[0])), refused);
}

#[test]
fn a_chunk_that_is_passed_on_is_the_slice_that_came() {
    let bytes = Bytes::from(vec![7; CHUNK_BYTES]);
    for (offset, last) in [(0, false), (1 << 40, true), (u64::MAX, true)] {
        let chunk = Chunk { offset, bytes: bytes.clone(), last };
        let came = encode(CallId(1), 7, &Message::Chunk(chunk));
        let read = decode::<Message>(came.clone()).unwrap().message;
        let inward = encode_unsent(CallId(1), &WorkerMessage::from_peer(read)).with_seq(7);
        let place = came[came.len() - CHUNK_BYTES..].as_ptr();
        assert_eq!(inward.payload().as_ptr(), place, "it was copied on its way in");
        assert_eq!(inward.into_bytes(), came);

        let read = decode::<WorkerMessage>(came.clone()).unwrap().message.into_peer().unwrap();
        let outward = encode_unsent(CallId(1), &read).with_seq(7);
        assert_eq!(outward.payload().as_ptr(), place, "it was copied on its way out");
        assert_eq!(outward.into_bytes(), came);
    }
}

#[test]
fn parts_are_written_to_their_last_byte_however_the_socket_takes_them() {
    let chunk = Chunk { offset: 300, bytes: Bytes::from_static(b"payload"), last: true };
    let whole = encode(CallId(1), 2, &Message::Chunk(chunk.clone()));
    let parts = encode_unsent(CallId(1), &Message::Chunk(chunk)).with_seq(2);
    for first in 0..=whole.len() {
        let mut rest = parts.clone();
        rest.advance(first);
        assert_eq!(rest.remaining(), whole.len() - first);
        let mut slices = [IoSlice::new(&[]); 3];
        let count = rest.chunks_vectored(&mut slices);
        let gathered = slices[..count].iter().flat_map(|slice| slice.iter().copied());
        assert_eq!(gathered.collect::<Vec<_>>(), whole[first..], "{first} taken");
        assert!(slices[..count].iter().all(|slice| !slice.is_empty()), "{first} taken");
        assert_eq!(rest.into_bytes(), whole[first..], "{first} taken");
    }
    assert_eq!(parts.chunks_vectored(&mut [IoSlice::new(&[])]), 1, "no more than there is room");
}

#[test]
fn t8_shapes_are_checked_before_a_byte_is_held() {
    let f32 = ActivationDtype::F32;
    for count in [0, 513, u32::MAX] {
        let refused = TensorError::CountOutOfRange { count };
        assert_eq!(TensorAssembly::new(count, 8, f32).unwrap_err(), refused);
        assert_eq!(LogitsAssembly::new(count, 8).unwrap_err(), refused);
    }
    for width in [0, 32_769, u32::MAX] {
        let refused = TensorError::WidthOutOfRange { width, max: 32_768 };
        assert_eq!(TensorAssembly::new(1, width, f32).unwrap_err(), refused);
    }
    assert!(TensorAssembly::new(512, 32_768, f32).is_ok());
}

#[test]
fn t8_each_wrong_chunk_is_refused_with_its_reason() {
    let chunk = |offset, len: usize, last| Chunk { offset, bytes: vec![1; len].into(), last };
    let check = |chunks: &[Chunk], expected: TensorError| {
        let mut assembly =
            TensorAssembly::new(2, 2, ActivationDtype::F16).expect("the shape is allowed");
        let (wrong, before) = chunks.split_last().expect("at least the wrong one");
        assert!(before.iter().all(|c| assembly.take(c.clone()).is_ok()));
        assert_eq!(assembly.take(wrong.clone()), Err(expected));
    };
    let gap = |expected, offset| TensorError::NotContiguous { expected, offset };
    let overrun = |got| TensorError::Overrun { expected: 8, got };
    let end = |got| TensorError::WrongEnd { expected: 8, got };
    check(&[chunk(1, 2, false)], gap(0, 1));
    check(&[chunk(0, 4, false), chunk(0, 4, true)], gap(4, 0));
    check(&[chunk(0, 4, false), chunk(6, 2, true)], gap(4, 6));
    check(&[chunk(0, 9, true)], overrun(9));
    check(&[chunk(0, 4, false), chunk(4, 5, true)], overrun(9));
    check(&[chunk(0, 4, true)], end(4));
    check(&[chunk(0, 8, false)], end(8));
    check(&[chunk(0, 8, true), chunk(8, 0, true)], overrun(8));
}

#[test]
fn a_large_tensor_travels_in_usual_chunks_and_a_small_one_uncopied() {
    let bytes = Bytes::from(vec![3; 2 * CHUNK_BYTES + 8]);
    let sizes: Vec<_> = chunks_of(bytes.clone())
        .map(|chunk| (chunk.offset as usize, chunk.bytes.len(), chunk.last))
        .collect();
    let c = CHUNK_BYTES;
    assert_eq!(sizes, [(0, c, false), (c, c, false), (2 * c, 8, true)]);
    assert_eq!(chunks_of(Bytes::new()).count(), 0);

    let small = bytes.slice(..16);
    let mut assembly = TensorAssembly::new(1, 4, ActivationDtype::F32).unwrap();
    let whole = assembly.take(chunks_of(small.clone()).next().unwrap());
    assert_eq!(whole.unwrap().unwrap().bytes().as_ptr(), small.as_ptr());
}

#[test]
fn logits_survive_bit_for_bit() {
    let rows = [1.0_f32, -0.0, f32::MIN_POSITIVE, f32::MAX, 1e-9, 7.5];
    let bytes: Bytes = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut assembly = LogitsAssembly::new(2, 3).unwrap();
    let mut got = None;
    for chunk in chunks_of(bytes) {
        got = assembly.take(chunk).unwrap();
    }
    assert_eq!(got.unwrap().map_bits(), rows.to_vec().map_bits());
}

trait MapBits {
    fn map_bits(&self) -> Vec<u32>;
}

impl MapBits for Vec<f32> {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|x| x.to_bits()).collect()
    }
}
