//! Downloads against a real server on this machine that behaves as badly as it is told.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../nook-testkit/src/file_server.rs"]
#[allow(dead_code, unreachable_pub, reason = "the household's tests use the rest")]
mod file_server;
mod kit;
mod mirrors;
mod pieces;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use file_server::{Fault, FileServer, Served};
use kit::{Desk, LIMITS, MEGABYTE, PACE, PATH, model, sha256};
use nook_fetch::{
    DISK_RESERVE_BYTES, FILE_BYTES_MAX, FetchError, Limits, Order, Phase, Pin, Progress, Source,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_comes_whole_checked_and_once() {
    let (desk, bytes) = (Desk::new(), model(3 * MEGABYTE + 17, 0));
    desk.server.serve(PATH, desk.serve(&bytes).with("X-Repo-Commit", "0a1b"));
    let fetched = desk.fetch().await.unwrap();
    Desk::check_whole(&fetched, &bytes);
    assert!(fetched.verified);
    assert_eq!(fetched.commit.as_deref(), Some("0a1b"));
    let told = desk.told.borrow().clone();
    assert_eq!(
        (told.phase, told.have, told.bytes),
        (Phase::Finishing, fetched.bytes, Some(fetched.bytes))
    );
    drop(fetched);
    // It was not taken away yet: nobody is asked for it again.
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    assert_eq!(desk.begins(), [0]);
    desk.fetch().await.unwrap().slot.discard().unwrap();
    assert_eq!(desk.files_here(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_off_or_stalls_goes_on_where_it_was() {
    let (desk, bytes) = (Desk::new(), model(5 * MEGABYTE, 1));
    let (cut, stall) = (MEGABYTE + 333, 2 * MEGABYTE);
    let served = desk.serve(&bytes).failing(Fault::CutAfter(cut)).failing(Fault::StallAfter(stall));
    desk.server.serve(PATH, served);
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    let first = cut as u64;
    assert_eq!(desk.begins(), [0, first, first + stall as u64]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_what_came_and_the_next_run_goes_on_there() {
    let (desk, bytes) = (Desk::new(), model(4 * MEGABYTE, 2));
    let kept = MEGABYTE + 5;
    desk.server.serve(PATH, desk.serve(&bytes).failing(Fault::StallAfter(kept)));
    desk.fetch_until_stalled(kept).await;
    // A new run, as after a restart of the program.
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    assert_eq!(desk.begins(), [0, kept as u64]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_no_ranges_begins_anew_and_nothing_is_doubled() {
    let (desk, bytes) = (Desk::new(), model(2 * MEGABYTE, 3));
    let served = Served { ranges: false, ..desk.serve(&bytes) };
    desk.server.serve(PATH, served.failing(Fault::CutAfter(MEGABYTE)));
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    assert_eq!(desk.begins(), [0, MEGABYTE as u64]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_a_file_are_never_mixed() {
    let (old, new) = (model(3 * MEGABYTE, 4), model(3 * MEGABYTE, 5));
    // With the publisher's digest, with a tag alone, and with nothing to tell versions apart.
    for marks in ["digest", "tag", "none"] {
        let desk = Desk::new();
        let serve = |bytes: &[u8], etag: &str| match marks {
            "digest" => Served { etag: Some("\"same\"".to_owned()), ..desk.serve(bytes) },
            "tag" => Served::file(bytes.to_vec(), etag),
            _ => Served { etag: None, ..Served::file(bytes.to_vec(), "") },
        };
        desk.server.serve(PATH, serve(&old, "\"old\"").failing(Fault::StallAfter(MEGABYTE)));
        desk.fetch_until_stalled(MEGABYTE).await;
        desk.server.serve(PATH, serve(&new, "\"new\""));
        let fetched = desk.fetch().await.unwrap();
        Desk::check_whole(&fetched, &new);
        assert_eq!(fetched.verified, marks == "digest", "{marks}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_what_its_publisher_says_is_deleted() {
    let (desk, bytes) = (Desk::new(), model(MEGABYTE, 6));
    let other = sha256(b"another file");
    let served =
        Served::file(bytes.clone(), "\"1\"").with("X-Linked-Etag", &format!("\"{other}\""));
    desk.server.serve(PATH, served);
    let error = desk.fetch().await.unwrap_err();
    assert_eq!(error, FetchError::Digest { expected: other, found: sha256(&bytes) });
    assert_eq!(desk.files_here(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_digest_wins_over_the_servers_word() {
    let (mut desk, bytes) = (Desk::new(), model(MEGABYTE, 7));
    desk.pin = Some(sha256(b"what the catalogue knows"));
    desk.server.serve(PATH, desk.serve(&bytes));
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::NotTheOne { .. }), "{error}");
    assert_eq!(desk.bytes_here(), 0, "nothing was loaded");
    // A server that names none is found out at the end.
    desk.server.serve(PATH, Served::file(bytes.clone(), "\"1\""));
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Digest { .. }), "{error}");
    desk.pin = Some(sha256(&bytes));
    let fetched = desk.fetch().await.unwrap();
    Desk::check_whole(&fetched, &bytes);
    assert!(fetched.verified);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_origin_speaks_for_the_file_wherever_it_sends_the_download() {
    let (desk, bytes) = (Desk::new(), model(2 * MEGABYTE, 8));
    let storage = FileServer::start().unwrap();
    // The storage has marks of its own, and no say in what the file is.
    let stored = Served::file(bytes.clone(), "\"part-hash-4\"")
        .with("X-Linked-Etag", &format!("\"{}\"", sha256(b"a lie")));
    storage.serve("/blob?sig=1", stored.failing(Fault::CutAfter(MEGABYTE)));
    let origin = Served::redirect(&format!("{}/blob?sig=1", storage.address()))
        .with("X-Linked-Etag", &format!("\"{}\"", sha256(&bytes)))
        .with("X-Linked-Size", &bytes.len().to_string());
    desk.server.serve(PATH, origin);
    let fetched = desk.fetch().await.unwrap();
    Desk::check_whole(&fetched, &bytes);
    assert!(fetched.verified);
    let asked = storage.asked();
    assert_eq!(asked[1].range.as_deref(), Some(format!("bytes={MEGABYTE}-").as_str()));
    assert_eq!(desk.begins(), [0, MEGABYTE as u64], "the origin is asked first, each time");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_have_an_end_and_never_leave_this_machine_in_the_clear() {
    let desk = Desk::new();
    desk.server.serve(PATH, Served::redirect(PATH));
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::Redirect { .. }), "{error}");
    let asked = desk.server.asked().len();
    assert_eq!(asked, nook_fetch::REDIRECTS_MAX + 1);
    for to in ["http://example.org/model.gguf", "file:///etc/passwd", "ftp://127.0.0.1/x"] {
        desk.server.serve(PATH, Served::redirect(to));
        let error = desk.fetch().await.unwrap_err();
        assert!(matches!(error, FetchError::Redirect { .. }), "{to}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_will_not_get_better_ends_at_once_and_what_may_is_tried_again() {
    let desk = Desk::new();
    let sentences = [
        (404, "no such file"),
        (401, "with your account"),
        (403, "with your account"),
        (418, "status 418"),
    ];
    for (asked, (status, why)) in (1..).zip(sentences) {
        desk.server.serve(PATH, Served::default().failing(Fault::Status(status, Vec::new())));
        let error = desk.fetch().await.unwrap_err();
        assert!(error.to_string().contains(why), "{status}: {error}");
        assert_eq!(desk.server.asked().len(), asked, "{status} is asked once");
    }
    let bytes = model(1000, 9);
    let later = vec![("Retry-After".to_owned(), "0".to_owned())];
    let served = desk.serve(&bytes).failing(Fault::Status(429, later));
    let served = served.failing(Fault::Status(500, Vec::new()));
    desk.server.serve(PATH, served.failing(Fault::Status(503, Vec::new())));
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    // A path that nobody serves.
    let source: Source = "hf:o/r/other.gguf".parse().unwrap();
    let order = Order { source, pin: Pin::default() };
    let stop = CancellationToken::new();
    let gone = desk.fetcher.fetch(&desk.folder, &order, &stop, &desk.told).await.unwrap_err();
    assert!(gone.to_string().contains("no such file"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_lies_about_lengths_fills_no_disk_and_holds_nobody_up() {
    let (desk, bytes) = (Desk::new(), model(MEGABYTE, 10));
    // It promises more than it has, once.
    desk.server.serve(PATH, desk.serve(&bytes).failing(Fault::ClaimLength(9 << 20)));
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    desk.folder.discard(&desk.order().source.key()).unwrap();
    // It sends more than the origin promised.
    let short = Served::file(bytes.clone(), "\"1\"")
        .with("X-Linked-Etag", &format!("\"{}\"", sha256(&bytes)))
        .with("X-Linked-Size", "1000");
    desk.server.serve(PATH, short);
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::TooLong { bytes: 1000, .. }), "{error}");
    assert_eq!(desk.files_here(), 0);
    // It claims what no household has room for.
    let huge = desk.serve(&bytes).failing(Fault::ClaimLength(FILE_BYTES_MAX + 1));
    desk.server.serve(PATH, Served { fields: Vec::new(), ..huge });
    let error = desk.fetch().await.unwrap_err();
    let (bytes, most) = (FILE_BYTES_MAX + 1, FILE_BYTES_MAX);
    assert_eq!(error, FetchError::TooLarge { bytes, most });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_brings_nothing_new_is_given_up_and_the_bytes_stay() {
    let (desk, bytes) = (Desk::new(), model(3 * MEGABYTE, 11));
    let mut served = desk.serve(&bytes).failing(Fault::CutAfter(2 * MEGABYTE));
    for _ in 0..PACE.tries_max {
        served = served.failing(Fault::CutAfter(0));
    }
    desk.server.serve(PATH, served);
    let error = desk.fetch().await.unwrap_err();
    let FetchError::GaveUp { tries, .. } = &error else { panic!("{error}") };
    assert_eq!(*tries, PACE.tries_max);
    assert_eq!(desk.bytes_here(), 2 * MEGABYTE as u64);
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_given_up_too() {
    let desk = Desk::new();
    let source: Source = "http://127.0.0.1:9/model.gguf".parse().unwrap();
    let order = Order { source, pin: Pin::default() };
    let stop = CancellationToken::new();
    let error = desk.fetcher.fetch(&desk.folder, &order, &stop, &desk.told).await.unwrap_err();
    assert!(matches!(error, FetchError::GaveUp { .. }), "{error}");
    assert!(!error.to_string().contains("http://"), "no address is told on: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_vouches_for_gets_no_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut tls = rustls::ServerConnection::new(self_signed()).unwrap();
        // The client refuses the certificate, so not one byte of a request arrives.
        let refused = std::iter::repeat_with(|| tls.complete_io(&mut stream));
        refused.take(8).any(|step| step.is_err())
    });
    let desk = Desk::new();
    let source: Source = format!("https://127.0.0.1:{port}/model.gguf").parse().unwrap();
    let order = Order { source, pin: Pin::default() };
    let stop = CancellationToken::new();
    let error = desk.fetcher.fetch(&desk.folder, &order, &stop, &desk.told).await.unwrap_err();
    if matches!(error, FetchError::Certificates { .. }) {
        // A system without any certificate asks nobody at all.
        return;
    }
    assert!(matches!(error, FetchError::Untrusted { .. }), "{error}");
    assert!(server.join().unwrap(), "the handshake broke off");
}

fn self_signed() -> Arc<rustls::ServerConfig> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("one");
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider);
    let config =
        config.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    Arc::new(config.with_single_cert(vec![made.cert.der().clone()], key).expect("its key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn m5_one_file_has_one_writer() {
    let (desk, bytes) = (Desk::new(), model(2 * MEGABYTE, 12));
    desk.server.serve(PATH, desk.serve(&bytes).failing(Fault::StallAfter(MEGABYTE)));
    let (stop, mut heard) = (CancellationToken::new(), desk.told.subscribe());
    let second = async {
        heard.wait_for(|progress| progress.have >= MEGABYTE as u64).await.unwrap();
        let other = watch::Sender::new(Progress::default());
        let order = desk.order();
        let refused = desk.fetcher.fetch(&desk.folder, &order, &stop, &other).await;
        stop.cancel();
        refused.unwrap_err()
    };
    let (first, second) = tokio::join!(desk.fetch_until(&stop), second);
    assert!(matches!(second, FetchError::Busy { .. }), "{second}");
    assert!(matches!(first, Err(FetchError::Stopped) | Ok(_)), "{first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_room_is_said_before_the_first_byte() {
    let (desk, bytes) = (Desk::new(), model(3 * MEGABYTE, 13));
    desk.server.serve(PATH, desk.serve(&bytes).failing(Fault::CutAfter(MEGABYTE)));
    let needed = bytes.len() as u64;
    desk.disk.free.store(DISK_RESERVE_BYTES + needed - 1, Ordering::SeqCst);
    let error = desk.fetch().await.unwrap_err();
    assert_eq!(error, FetchError::NoRoom { needed, free: DISK_RESERVE_BYTES + needed - 1 });
    assert!(error.to_string().contains("Delete a model"), "{error}");
    assert_eq!(desk.bytes_here(), 0);
    desk.disk.free.store(DISK_RESERVE_BYTES + needed, Ordering::SeqCst);
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_place_of_a_model_is_not_kept() {
    let desk = Desk::new();
    let page = b"<!doctype html><title>Hotel Wi-Fi</title>".to_vec();
    desk.server.serve(PATH, Served::file(page, "\"1\""));
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::NotGguf { .. }), "{error}");
    assert!(error.to_string().contains("log-in"), "{error}");
    assert_eq!(desk.files_here(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_unknown_length_comes_whole_and_counts_as_unchecked() {
    let (desk, bytes) = (Desk::new(), model(MEGABYTE + 1, 14));
    let served = Served { no_length: true, ..Served::file(bytes.clone(), "\"1\"") };
    desk.server.serve(PATH, served);
    let fetched = desk.fetch().await.unwrap();
    Desk::check_whole(&fetched, &bytes);
    assert!(!fetched.verified);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_unknown_length_ends_at_the_largest_that_is_taken() {
    let most = 3 * MEGABYTE as u64;
    let desk = Desk::with(Limits { file_bytes_max: most, ..LIMITS }, None);
    let endless = Served::file(model(5 * MEGABYTE, 15), "\"1\"");
    desk.server.serve(PATH, Served { no_length: true, ..endless });
    let error = desk.fetch().await.unwrap_err();
    let FetchError::TooLarge { bytes, most: limit } = error else { panic!("{error}") };
    assert!(bytes > most && limit == most, "{error}");
    assert_eq!(desk.files_here(), 0, "it can become nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_others_fill_on_the_way_is_not_filled_to_its_end() {
    for no_length in [false, true] {
        let (desk, bytes) = (Desk::new(), model(8 * MEGABYTE, 16));
        let served = Served { no_length, ..Served::file(bytes.clone(), "\"1\"") };
        desk.server.serve(PATH, served);
        let step = LIMITS.sync_every_bytes;
        // Enough at the first look, and not at the second.
        desk.disk.free.store(DISK_RESERVE_BYTES + 9 * MEGABYTE as u64, Ordering::SeqCst);
        desk.disk.shrinks_by.store(8 * MEGABYTE as u64, Ordering::SeqCst);
        let error = desk.fetch().await.unwrap_err();
        assert!(matches!(error, FetchError::NoRoom { .. }), "{error}");
        let here = desk.bytes_here();
        assert!((step..2 * step).contains(&here), "{here} of {}", bytes.len());
        // With room again it goes on there.
        desk.disk.free.store(u64::MAX, Ordering::SeqCst);
        Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
        assert_eq!(desk.begins(), [0, here]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_say_the_length_again_cannot_cut_a_file_short() {
    let (desk, bytes) = (Desk::new(), model(3 * MEGABYTE, 17));
    let plain = Served::file(bytes.clone(), "\"1\"");
    desk.server.serve(PATH, plain.clone().failing(Fault::StallAfter(MEGABYTE)));
    desk.fetch_until_stalled(MEGABYTE).await;
    // A piece of a whole that is as long as it may be, and a connection that ends in the middle.
    let vague = Served { no_total: true, no_length: true, ..plain };
    desk.server.serve(PATH, vague.failing(Fault::CutAfter(MEGABYTE)));
    Desk::check_whole(&desk.fetch().await.unwrap(), &bytes);
    assert_eq!(desk.begins(), [0, 1, 2].map(|at| at * MEGABYTE as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_is_named_once_holds_until_the_end() {
    for is_damaged in [false, true] {
        let (desk, bytes) = (Desk::new(), model(3 * MEGABYTE, 18));
        desk.server.serve(PATH, desk.serve(&bytes).failing(Fault::StallAfter(MEGABYTE)));
        desk.fetch_until_stalled(MEGABYTE).await;
        // The same mark, no digest any more.
        let mut rest = bytes.clone();
        rest[2 * MEGABYTE] ^= u8::from(is_damaged);
        desk.server.serve(PATH, Served::file(rest, "\"storage\""));
        match desk.fetch().await {
            Ok(fetched) if !is_damaged => {
                Desk::check_whole(&fetched, &bytes);
                assert!(fetched.verified);
            }
            Err(FetchError::Digest { expected, .. }) if is_damaged => {
                assert_eq!(expected, sha256(&bytes));
                assert_eq!(desk.files_here(), 0);
            }
            other => panic!("damaged: {is_damaged}: {other:?}"),
        }
        assert_eq!(desk.begins(), [0, MEGABYTE as u64]);
    }
}
