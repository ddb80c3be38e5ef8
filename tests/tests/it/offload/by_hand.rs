//! The same spoken by hand: the test plays the asking device, or the one that runs everything.

use super::*;

fn ask(model: ModelDigest, prompt: u32, tokens_max: u32) -> OffloadRequest {
    let sampling = OffloadSampling {
        seed: 1,
        temperature: 0.0,
        top_k: 40,
        top_p: 0.95,
        min_p: 0.05,
        repetition_penalty: 1.0,
        repetition_window: 64,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
    };
    OffloadRequest { model, prompt, biases: 0, tokens_max, resume: 0, sampling }
}

/// Asks `node` by hand; the call where it is accepted, else the code.
async fn asked(
    device: &Device,
    node: &Node,
    ask: OffloadRequest,
) -> anyhow::Result<Result<Call<Message>, ErrorCode>> {
    let peer = node.view().await?.me.id.parse()?;
    let mut call = device.until_linked(peer).await?.mux().open_call().await?;
    call.send(Message::OffloadRequest(Box::new(ask))).await?;
    match call.recv().await? {
        Message::Opened { position: 0 } => Ok(Ok(call)),
        Message::Error(error) => Ok(Err(error.code)),
        other => anyhow::bail!("a WHOLE ASK was answered by {other:?}"),
    }
}

/// The code of a refusal.
async fn refusal(
    device: &Device,
    node: &Node,
    ask: OffloadRequest,
) -> anyhow::Result<Option<ErrorCode>> {
    Ok(asked(device, node, ask).await?.err())
}

/// One node, which shares, its model, and a device of the test that it trusts so far.
async fn one_that_shares(trust: Trust) -> anyhow::Result<(Household, ModelDigest, Device, PeerId)> {
    let shares = NodePlan::new(FAST).with("distributed_inference.host.serve_shards", "true");
    let house = Household::strangers([shares]).await?;
    let (_, model) = house.asking().built_in().await?;
    let mut device = Device::start(OTHER)?;
    let peer = device.pair_with(house.asking(), trust).await?;
    Ok((house, model, device, peer))
}

#[tokio::test]
async fn the_host_itself_refuses_whole_requests_of_all_but_its_owners_devices() -> anyhow::Result<()>
{
    let (house, model, device, _) = one_that_shares(Trust::Guest).await?;
    let node = house.asking();
    for trust in [Trust::Guest, Trust::Trusted] {
        node.trust(OTHER, trust).await?;
        let refused = refusal(&device, node, ask(model, 3, 4)).await?;
        assert_eq!(refused, Some(ErrorCode::TrustDenied), "{trust:?}");
    }
    node.trust(OTHER, Trust::Own).await?;
    let cases = [
        (ask(ModelDigest([9; 32]), 3, 4), ErrorCode::WeightsMismatch),
        (ask(model, 0, 4), ErrorCode::BadRequest),
        (ask(model, 3, 0), ErrorCode::BadRequest),
        (ask(model, 3, u32::MAX), ErrorCode::TooLong),
        (ask(model, u32::MAX, 3), ErrorCode::BadRequest),
        (ask(model, 1 << 20, 3), ErrorCode::TooLong),
        (OffloadRequest { biases: u32::MAX, ..ask(model, 3, 4) }, ErrorCode::BadRequest),
        (
            OffloadRequest {
                sampling: OffloadSampling { top_p: f32::NAN, ..ask(model, 3, 4).sampling },
                ..ask(model, 3, 4)
            },
            ErrorCode::BadRequest,
        ),
    ];
    for (ask, code) in cases {
        assert_eq!(refusal(&device, node, ask.clone()).await?, Some(code), "{ask:?}");
    }
    // Ids that the model does not have.
    let mut call = asked(&device, node, ask(model, 2, 4)).await?.expect("an own device may");
    for chunk in chunks_of(ids_for_own_device(&[1, u32::MAX], &[])) {
        call.send(Message::Chunk(chunk)).await?;
    }
    let Message::Error(error) = call.recv().await? else { panic!("such ids were taken") };
    assert_eq!(error.code, ErrorCode::BadRequest);
    // And a request that is as it should be.
    let mut call = asked(&device, node, ask(model, 3, 4)).await?.expect("an own device may");
    let (said, finish, kept) = answered(&mut call, &[1, 2, 3]).await?;
    assert!(said == 4 || finish == OffloadFinish::Stop, "{said} tokens");
    assert!(kept.is_some_and(|it| it.position >= 3), "it is told what is kept: {kept:?}");
    node.share(false).await?;
    let refused = refusal(&device, node, ask(model, 3, 4)).await?;
    assert_eq!(refused, Some(ErrorCode::SwitchedOff));
    Ok(())
}

/// Sends the ids of an accepted request; how many tokens came, and what was said at the end.
async fn answered(
    call: &mut Call<Message>,
    prompt: &[u32],
) -> anyhow::Result<(usize, OffloadFinish, Option<OffloadKept>)> {
    for chunk in chunks_of(ids_for_own_device(prompt, &[])) {
        call.send(Message::Chunk(chunk)).await?;
    }
    let mut said = 0;
    loop {
        match call.recv().await? {
            Message::OffloadTokens(head) if head.count == 0 => {}
            Message::OffloadTokens(head) => {
                let mut ids = IdsAssembly::of_tokens(&head)?;
                let Message::Chunk(chunk) = call.recv().await? else { panic!("no ids came") };
                said += ids.take(chunk)?.expect("one chunk").ids.len();
            }
            Message::OffloadEnd { finish, kept } => return Ok((said, finish, kept)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_request_is_kept_under_the_name_that_its_asker_has_heard_and_else_not_at_all()
-> anyhow::Result<()> {
    let (house, model, device, peer) = one_that_shares(Trust::Own).await?;
    let node = house.asking();
    // It is kept while the asker may still be listening; an end out of order says that it was not.
    let mut call = asked(&device, node, ask(model, 3, 4)).await?.expect("an own device may");
    let (.., unheard) = answered(&mut call, &[1, 2, 3]).await?;
    until_kept(node, 1).await?;
    call.close(Some(ErrorCode::Cancelled));
    until_kept(node, 0).await?;
    let mut kept = Vec::new();
    for first in [4, 5] {
        let mut call = asked(&device, node, ask(model, 3, 4)).await?.expect("an own device may");
        let (.., name) = answered(&mut call, &[first, 2, 3]).await?;
        call.close(None);
        kept.extend(name);
        until_kept(node, u16::try_from(kept.len())?).await?;
    }
    let [one, other] = kept[..] else { panic!("no name: {kept:?}") };
    assert!(one.mark != other.mark && unheard.is_some_and(|it| it.position >= 3), "{unheard:?}");
    let link = device.until_linked(peer).await?;
    for (left, OffloadKept { position, mark }) in [(1, other), (0, one)] {
        link.mux().send(Message::DropKept(KeptHistory { model, position, mark })).await?;
        until_kept(node, left).await?;
    }
    Ok(())
}

/// What a device that a test plays was sent, kind by kind, until the node answers something else.
async fn until_offers(device: &mut Device) -> anyhow::Result<OffloadOffers> {
    loop {
        if let LinkEvent::Control { message: Message::OffloadOffers(offers), .. } =
            device.next_event().await?
        {
            return Ok(offers);
        }
    }
}

#[tokio::test]
async fn offers_are_told_to_own_devices_and_taken_back() -> anyhow::Result<()> {
    let (house, model, mut device, _) = one_that_shares(Trust::Trusted).await?;
    let node = house.asking();
    // The first thing that is said of whole requests comes after the level is raised.
    node.trust(OTHER, Trust::Own).await?;
    let offers = until_offers(&mut device).await?;
    assert_eq!(offers.offers.iter().map(|offer| offer.model).collect::<Vec<_>>(), [model]);
    node.trust(OTHER, Trust::Trusted).await?;
    // What was offered before may have been said once more meanwhile.
    while until_offers(&mut device).await? != OffloadOffers::default() {}
    Ok(())
}

#[tokio::test]
async fn a_helper_that_is_not_own_is_sent_no_whole_request_and_no_ids() -> anyhow::Result<()> {
    // Everything is switched on, and an own device is there; the recorder is trusted, no more.
    let house = whole_house().await?;
    let asking = house.asking();
    let device = Device::start("Attic PC")?;
    let lender = Lender::play(device, asking, LayerRange::with_len(1, 4), 1 << 30).await?;
    let told = asking.answer(&wish(30)).await?;
    assert_eq!(told.devices(), [FAST]);
    // Now the own one is gone, and the recorder helps.
    house.node(1).share(false).await?;
    asking.until("whole requests may not go there", |view| !takes_whole(view)).await?;
    let divided = asking.answer(&wish(30)).await?;
    assert!(divided.uses("Attic PC"), "{divided:?}");
    assert_eq!(divided.ids, told.ids);
    let recorded = lender.recorded();
    let whole = [Kind::OffloadOffers, Kind::OffloadRequest, Kind::OffloadTokens, Kind::OffloadEnd];
    assert!(!recorded.kinds().iter().any(|kind| whole.contains(kind)), "{:?}", recorded.kinds());
    let ids: Vec<u32> = told.prompt_ids.iter().chain(&told.ids).copied().collect();
    let secrets = Secrets::new()
        .text("the prompt", CANARY)
        .text("the reply", &told.text)
        .ids("the ids", &ids);
    assert_eq!(secrets.found_in(&recorded.capture()), [""; 0], "in what the helper was sent");
    // The same search finds the ids as an own device gets them.
    let sent = ids_for_own_device(&told.prompt_ids, &[]);
    assert!(!secrets.found_in(&sent).is_empty());
    Ok(())
}

/// A device that the asker calls its own, and that a test plays: it offers everything.
async fn offering(node: &Node) -> anyhow::Result<Device> {
    let (_, model) = node.built_in().await?;
    let mut device = Device::start(FAST)?;
    let peer = device.pair_with(node, Trust::Own).await?;
    let link = device.until_linked(peer).await?;
    let offer = OffloadOffer { model, ends_us: Some(1), ends_held: true, load_kb_per_s: None };
    let shard = nook_wire::ShardAdvert {
        model,
        layers: LayerRange::all(6),
        held: LayerRange::all(6),
        decode_us_per_layer: Some(1),
        prefill_us_per_layer_token: Some(1),
    };
    let advert = nook_wire::Advert {
        sharing: true,
        shards: vec![shard],
        streams_free: 4,
        queue_depth: 0,
        memory_free_bytes: 1 << 30,
        fetch_bytes: 0,
    };
    link.mux().send(Message::Advert(advert)).await?;
    link.mux().send(Message::OffloadOffers(OffloadOffers { offers: vec![offer] })).await?;
    node.until("whole requests may go there", takes_whole).await?;
    Ok(device)
}

/// The next whole request that the device is asked for, and the call that it came on.
async fn next_ask(device: &mut Device) -> anyhow::Result<(Call<Message>, Box<OffloadRequest>)> {
    let mut call = loop {
        if let LinkEvent::IncomingCall { call, .. } = device.next_event().await? {
            break call;
        }
    };
    let Message::OffloadRequest(ask) = call.recv().await? else { panic!("not asked") };
    Ok((call, ask))
}

/// The end of a reply while the device refuses every call, and what those calls began with.
async fn made_without(device: &mut Device, reply: Replying) -> anyhow::Result<(Told, Vec<Kind>)> {
    let mut asked = Vec::new();
    let refusing = async {
        while let Some(event) = device.any_event().await {
            if let LinkEvent::IncomingCall { mut call, .. } = event {
                asked.extend(call.recv().await.ok().map(|message| message.kind()));
                let _ = call.send(Message::refusal(ErrorCode::Busy)).await;
            }
        }
    };
    let told = tokio::select! {
        told = reply.whole() => told?,
        () = refusing => panic!("the links have ended"),
    };
    Ok((told, asked))
}

#[tokio::test]
async fn what_a_device_offers_counts_only_while_it_is_own() -> anyhow::Result<()> {
    let house = Household::strangers([asking()]).await?;
    let node = house.asking();
    let mut device = offering(node).await?;
    node.trust(FAST, Trust::Trusted).await?;
    node.until("whole requests may not go there", |view| !takes_whole(view)).await?;
    let reply = node.reply(&wish(12)).await?;
    let (told, asked) = made_without(&mut device, reply).await?;
    assert!(told.uses(ASKING), "{told:?}");
    assert!(!asked.contains(&Kind::OffloadRequest), "{asked:?}");
    Ok(())
}

/// Plays a device that takes the next whole request, says that a token has come, and `ends` with no
/// id sent. What the asker says of that device afterwards; its reply is made without it.
async fn check_end_before_ids(
    ends: impl AsyncFnOnce(Call<Message>) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    let house = Household::strangers([asking()]).await?;
    let node = house.asking();
    let mut device = offering(node).await?;
    let alone = node.answer(&wish(12).alone()).await?;
    let reply = node.reply(&wish(12)).await?;
    let (mut call, ask) = next_ask(&mut device).await?;
    call.send(Message::Opened { position: 0 }).await?;
    while !matches!(call.recv().await?, Message::Chunk(chunk) if chunk.last) {}
    let positions = ask.prompt;
    let head = OffloadTokens { positions, count: 1, compute_us: 1, queue_us: 1 };
    call.send(Message::OffloadTokens(head)).await?;
    ends(call).await?;
    let (told, _) = made_without(&mut device, reply).await?;
    assert_eq!(told.ids, alone.ids);
    let problems = node.view().await?.problems;
    let sentences = problems.into_iter().map(|problem| problem.sentence);
    Ok(sentences.filter(|sentence| sentence.contains(FAST)).collect())
}

#[tokio::test]
async fn a_device_that_stops_before_the_ids_of_a_token_is_no_suspect() -> anyhow::Result<()> {
    for code in [ErrorCode::Draining, ErrorCode::TrustDenied] {
        let stops = check_end_before_ids(async |mut call| {
            call.send(Message::refusal(code)).await?;
            call.close(Some(code));
            Ok(())
        });
        assert_eq!(stops.await?, [""; 0], "{code:?}");
    }
    // One that answers something else is.
    let strange = check_end_before_ids(async |mut call| {
        call.send(Message::Opened { position: 0 }).await?;
        // It stays, so that nothing else is wrong with it.
        assert!(call.recv().await.is_err());
        Ok(())
    });
    let problems = strange.await?;
    assert!(problems.iter().any(|problem| problem.contains("cannot be right")), "{problems:?}");
    Ok(())
}

#[tokio::test]
async fn no_id_leaves_before_the_other_side_has_agreed() -> anyhow::Result<()> {
    let house = Household::strangers([asking()]).await?;
    let node = house.asking();
    let mut device = offering(node).await?;
    let alone = node.answer(&wish(12).alone()).await?;
    let reply = node.reply(&wish(12)).await?;
    let (mut call, ask) = next_ask(&mut device).await?;
    assert_eq!(ask.prompt as usize, reply.told().prompt_ids.len());
    // It is waited for; nothing follows until it says yes, and it says no.
    call.send(Message::refusal(ErrorCode::TrustDenied)).await?;
    let after = call.recv().await;
    assert!(after.is_err(), "something was sent without leave: {after:?}");
    drop(call);
    // Whatever it is asked for as a helper it refuses, and the reply is made without it.
    let (told, _) = made_without(&mut device, reply).await?;
    assert_eq!(told.ids, alone.ids);
    assert!(told.uses(ASKING));
    Ok(())
}
