//! Several servers for one file, asked in the owner's order.

use std::sync::atomic::Ordering;

use nook_fetch::FetchError;

use crate::file_server::{Fault, Served};
use crate::kit::{Desk, MEGABYTE, PATH, begins, model, sha256};

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_gives_what_the_first_does_not_have() {
    let ((desk, next), bytes) = (Desk::mirrored(), model(MEGABYTE, 19));
    next.serve(PATH, desk.serve(&bytes));
    let page = Served::file(b"<!doctype html>".to_vec(), "\"1\"");
    let bad = [
        Served::default().failing(Fault::Status(404, Vec::new())),
        Served::default().failing(Fault::Status(403, Vec::new())),
        Served::redirect("http://example.org/model.gguf"),
        page,
    ];
    for (asked, served) in (1..).zip(bad) {
        desk.server.serve(PATH, served);
        let fetched = desk.fetch().await.unwrap();
        Desk::check_whole(&fetched, &bytes);
        fetched.slot.discard().unwrap();
        assert_eq!((desk.server.asked().len(), next.asked().len()), (asked, asked));
    }
    // None of them has it: each says so for itself.
    desk.server.serve(PATH, Served::redirect("http://example.org/model.gguf"));
    next.serve(PATH, Served::default().failing(Fault::Status(404, Vec::new())));
    let error = desk.fetch().await.unwrap_err();
    let FetchError::Nowhere { errors } = &error else { panic!("{error}") };
    assert!(matches!(errors[..], [FetchError::Redirect { .. }, FetchError::NotThere { .. }]));
    assert!(error.to_string().contains("2 servers") && error.to_string().contains("status 404"));
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_of_this_computer_is_no_reason_to_ask_another_server() {
    let ((desk, next), bytes) = (Desk::mirrored(), model(MEGABYTE, 20));
    desk.server.serve(PATH, desk.serve(&bytes));
    desk.disk.free.store(0, Ordering::SeqCst);
    let error = desk.fetch().await.unwrap_err();
    assert!(matches!(error, FetchError::NoRoom { .. }), "{error}");
    assert_eq!(next.asked().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_two_servers_make_one_file_only_where_a_digest_says_that_it_is_one() {
    for has_digest in [true, false] {
        let ((desk, next), bytes) = (Desk::mirrored(), model(3 * MEGABYTE, 21));
        let other = model(3 * MEGABYTE, 22);
        let (first, second) = match has_digest {
            true => (desk.serve(&bytes), desk.serve(&bytes)),
            // The same mark on two servers says nothing.
            false => (Served::file(other, "\"1\""), Served::file(bytes.clone(), "\"1\"")),
        };
        let dying = first.failing(Fault::CutAfter(MEGABYTE)).failing(Fault::CutAfter(0));
        desk.server.serve(PATH, dying);
        next.serve(PATH, second);
        let fetched = desk.fetch().await.unwrap();
        Desk::check_whole(&fetched, &bytes);
        assert_eq!(fetched.verified, has_digest);
        let piece = MEGABYTE as u64;
        assert_eq!(desk.begins(), [0, piece]);
        let expected = if has_digest { vec![piece] } else { vec![piece, 0] };
        assert_eq!(begins(&next), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_of_a_mirror_never_ends_as_a_model() {
    let (good, bad) = (model(2 * MEGABYTE, 23), model(2 * MEGABYTE, 24));
    let lie = |bytes: &[u8]| {
        let named = format!("\"{}\"", sha256(&good));
        Served::file(bytes.to_vec(), "\"1\"").with("X-Linked-Etag", &named)
    };
    let honest = |bytes: &[u8]| {
        Served::file(bytes.to_vec(), "\"1\"")
            .with("X-Linked-Etag", &format!("\"{}\"", sha256(bytes)))
    };
    let half = lie(&bad).failing(Fault::CutAfter(MEGABYTE)).failing(Fault::CutAfter(0));
    let mirrors = [
        ("names its own digest", honest(&bad)),
        ("names none", Served::file(bad.clone(), "\"1\"")),
        ("names the right one for wrong bytes", lie(&bad)),
        ("begins with wrong bytes", half),
    ];
    for (what, mirror) in mirrors {
        let (mut desk, next) = Desk::mirrored();
        desk.pin = Some(sha256(&good));
        desk.server.serve(PATH, mirror.clone());
        next.serve(PATH, lie(&good));
        let fetched = desk.fetch().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        Desk::check_whole(&fetched, &good);
        assert!(fetched.verified, "{what}");
        // With nobody who has the right one there is none.
        fetched.slot.discard().unwrap();
        desk.server.serve(PATH, mirror);
        next.serve(PATH, lie(&bad));
        let error = desk.fetch().await.unwrap_err();
        assert!(matches!(error, FetchError::Nowhere { .. }), "{what}: {error}");
        assert_eq!(desk.bytes_here(), 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_server_says_of_a_file_binds_the_next() {
    let (good, bad) = (model(2 * MEGABYTE, 25), model(2 * MEGABYTE, 26));
    let (desk, next) = Desk::mirrored();
    // It was named in an earlier run, by a server that says nothing at all today.
    desk.server.serve(PATH, desk.serve(&good).failing(Fault::StallAfter(MEGABYTE)));
    desk.fetch_until_stalled(MEGABYTE).await;
    desk.server.serve(PATH, Served::default().failing(Fault::Status(404, Vec::new())));
    next.serve(PATH, desk.serve(&bad));
    let error = desk.fetch().await.unwrap_err();
    let FetchError::Nowhere { errors } = &error else { panic!("{error}") };
    assert!(matches!(errors[1], FetchError::NotTheOne { .. }), "{error}");
    assert_eq!(desk.bytes_here(), MEGABYTE as u64, "what came from the first is kept");
    // Named just now, by a server that then breaks off.
    let (desk, next) = Desk::mirrored();
    let dying = desk.serve(&good).failing(Fault::CutAfter(0)).failing(Fault::CutAfter(0));
    desk.server.serve(PATH, dying);
    next.serve(PATH, desk.serve(&bad));
    let error = desk.fetch().await.unwrap_err();
    let FetchError::Nowhere { errors } = &error else { panic!("{error}") };
    assert!(matches!(errors[1], FetchError::NotTheOne { .. }), "{error}");
}
