//! A worker computes where it is told to, or says why it does not.

use std::path::Path;

use nook_base::{Backend, ErrorCode, LayerRange, ModelPart, PeerId};
use nook_kernels::Format;
use nook_model::synthetic::{Family, Recipe};
use nook_shard::{WorkerError, WorkerLimits};

use crate::host::{Host, LAYERS, MODEL, Opening, Refused, WIDTH, bits, layers, limits, small};

const PLENTY: u64 = 1 << 30;

async fn refusal(device: &str) -> (ErrorCode, String) {
    match Host::start_on(device, 1, PLENTY).await {
        Err(WorkerError::Refused { code, sentence }) => (code, sentence),
        Err(other) => panic!("{device}: {other}"),
        Ok(_) => panic!("{device} is there"),
    }
}

/// A worker that is told to compute with `backend`; what it says to loading what
/// `write` makes.
async fn told(
    variables: &[(&str, &str)],
    (backend, falls_back): (Backend, bool),
    write: fn(&Path),
) -> Result<Host, (Host, WorkerError)> {
    let limits = WorkerLimits { backend, falls_back, ..limits(2, PLENTY) };
    Host::start_with(variables, limits, write).await
}

async fn refused(
    variables: &[(&str, &str)],
    backend: Backend,
    write: fn(&Path),
) -> (ErrorCode, String, Host) {
    match told(variables, (backend, false), write).await {
        Err((host, WorkerError::Refused { code, sentence })) => (code, sentence, host),
        Err((_, other)) => panic!("{backend}: {other}"),
        Ok(_) => panic!("{backend} could do it"),
    }
}

/// Whether a driver offers a GPU, Mesa's software adapter included.
fn has_gpu(test: &str) -> bool {
    let has = !nook_model::nook_gpu::adapters().is_empty();
    assert!(has || nook_base::env::text("CI").is_none(), "CI needs mesa-vulkan-drivers: {test}");
    has
}

/// A file with an order for the worker's GPU, deleted once it was obeyed.
fn order(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("order");
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap().to_owned();
    (folder, file)
}

/// A model of which one tensor has a format that candle has no kernel for, and that is wide enough to
/// keep its weights in the format of its file.
fn rare(file: &Path) {
    const TENSOR: &[u8] = b"blk.0.attn_q.weight";
    const IQ3_S: u32 = 21;
    let wide =
        Recipe { hidden: 768, head_dim: 192, feed_forward: 768, ..Recipe::tiny(Format::Q3K, 3) };
    wide.write(file).unwrap();
    // Blocks of both formats have the same size, and any bits are numbers in either.
    let mut bytes = std::fs::read(file).unwrap();
    let name = bytes.windows(TENSOR.len()).position(|it| it == TENSOR).unwrap();
    // Behind the name: how many dimensions, two of them, the format.
    let at = name + TENSOR.len() + 4 + 2 * 8;
    bytes[at..at + 4].copy_from_slice(&IQ3_S.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

/// A model with parts that candle has no code for.
fn with_parts(file: &Path) {
    Recipe::of(Family::Gemma3n, Format::F32, 3).write(file).unwrap();
}

/// No driver of any API is found with these.
const NO_DRIVER: [(&str, &str); 2] =
    [("VK_DRIVER_FILES", "/nowhere.json"), ("VK_ICD_FILENAMES", "/nowhere.json")];

#[tokio::test]
async fn a_device_that_is_not_there_is_refused_and_named() {
    let (code, sentence) = refusal("toaster").await;
    assert_eq!(code, ErrorCode::BadRequest);
    assert!(sentence.contains("\"toaster\"") && sentence.contains("`gpu:0`"), "{sentence}");
    // No machine has so many cards; without the feature, the build says that it knows none.
    let (code, sentence) = refusal("cuda:4000000").await;
    assert_eq!(code, ErrorCode::GpuMissing);
    assert!(sentence.contains("NVIDIA"), "{sentence}");
}

#[cfg(not(any(feature = "cuda", feature = "metal")))]
#[tokio::test]
async fn what_this_build_cannot_do_is_told_with_the_setting_that_can() {
    for backend in [Backend::CandleCuda(0), Backend::CandleMetal(0)] {
        let (code, sentence, _host) = refused(&[], backend, small).await;
        assert_eq!(code, ErrorCode::GpuMissing, "{backend}");
        assert!(sentence.contains("built without"), "{sentence}");
        assert!(sentence.contains("`distributed_inference.backend`"), "{sentence}");
    }
}

#[tokio::test]
async fn the_variable_wins_over_what_the_node_says() {
    let variable = [("INGLENOOK_DEVICE", "cpu")];
    let host = told(&variable, (Backend::GpuAt(63), false), small).await;
    let host = host.unwrap_or_else(|(_, error)| panic!("{error}"));
    assert_eq!(host.status().await.backend, Backend::Native);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_a_driver_there_is_no_gpu_and_the_cpu_computes_in_silence() {
    let (code, sentence, host) = refused(&NO_DRIVER, Backend::Gpu, small).await;
    assert_eq!(code, ErrorCode::GpuMissing);
    assert!(sentence.contains("install its driver"), "{sentence}");
    assert_eq!(host.worker.gpus().await, Ok(Vec::new()));
    let host = told(&NO_DRIVER, (Backend::Auto, false), small).await;
    let host = host.unwrap_or_else(|(_, error)| panic!("{error}"));
    assert_eq!(host.status().await.backend, Backend::Native);
}

#[tokio::test]
async fn an_adapter_that_is_not_there_is_refused_with_those_that_are() {
    if !has_gpu("an adapter that is not there") {
        return;
    }
    let (code, sentence, host) = refused(&[], Backend::GpuAt(63), small).await;
    let gpus = host.worker.gpus().await.unwrap();
    assert_eq!(code, ErrorCode::GpuMissing);
    assert!(sentence.contains("gpu:63") && sentence.contains(&gpus[0].name), "{sentence}");
}

#[tokio::test]
async fn a_model_that_a_gpu_has_no_memory_for_is_refused_by_figure_and_the_worker_lives() {
    if !has_gpu("too little memory") {
        return;
    }
    let (_folder, file) = order("budget 4096");
    let variables = [("INGLENOOK_TEST_GPU", &*file)];
    let (code, sentence, host) = refused(&variables, Backend::GpuAt(0), small).await;
    assert_eq!(code, ErrorCode::GpuOutOfMemory);
    assert!(sentence.contains("of 4096 are free"), "{sentence}");
    let status = host.status().await;
    assert!(status.held.is_empty() && status.weight_bytes == 0, "{status:?}");
}

#[tokio::test]
async fn a_part_that_candle_has_no_code_for_is_refused_by_name() {
    let (code, sentence, _host) = refused(&[], Backend::Candle, with_parts).await;
    assert_eq!(code, ErrorCode::GpuNoKernel);
    let named = sentence.contains("inputs of layers by token");
    assert!(named && !sentence.contains("damaged"), "{sentence}");
}

/// Variables of the worker, what was measured as fastest, what writes the model's file, and how many
/// of its layers are there then.
type Case<'a> = (Vec<(&'a str, &'a str)>, Backend, fn(&Path), u32);

#[tokio::test]
async fn what_a_measured_gpu_cannot_do_the_cpu_does() {
    if !has_gpu("falling back") {
        return;
    }
    let (_folder, file) = order("budget 4096");
    let cases: [Case<'_>; 3] = [
        (vec![("INGLENOOK_TEST_GPU", &*file)], Backend::GpuAt(0), small, 0),
        (Vec::new(), Backend::GpuAt(63), small, 0),
        // A GPU has kernels for every format.
        (Vec::new(), Backend::GpuAt(0), rare, LAYERS),
    ];
    for (variables, backend, write, there) in cases {
        let host = told(&variables, (backend, true), write).await;
        let host = host.unwrap_or_else(|(_, error)| panic!("{backend}: {error}"));
        let status = host.status().await;
        assert_eq!(status.held, [LayerRange::all(LAYERS)], "{backend}");
        assert_eq!(status.on_gpu.layers, there, "{backend}");
        assert_eq!(status.on_gpu.bytes > 0, there > 0, "{backend}: {status:?}");
        let computes = if there > 0 { backend } else { Backend::Native };
        assert_eq!(status.backend, computes);
        if host.model.file().shape().hidden == WIDTH {
            let mut talk = host.open(Opening::of(1, layers(1, 2))).await.unwrap().seeded(5);
            assert_eq!(
                bits(&talk.walk(&[9, 1]).await.unwrap()),
                bits(&host.alone(layers(1, 2), 5, 10))
            );
        }
    }
}

#[tokio::test]
async fn what_lies_on_a_card_is_not_lent_of_the_memory_of_the_computer() {
    if !has_gpu("memory of a card") {
        return;
    }
    let guest = PeerId([3; 32]);
    let part = layers(1, 2);
    let lent = async |budget: &str| {
        let (_folder, file) = order(budget);
        let variables = [("INGLENOOK_TEST_GPU", &*file)];
        // Not one layer may be lent of it.
        let (backend, falls_back) = (Backend::GpuAt(0), true);
        let limits = WorkerLimits { backend, falls_back, ..limits(2, 4096) };
        let host = Host::start_empty_with(&variables, limits).await;
        let loaded = host.worker.load_for(guest, &host.file, MODEL, part).await;
        (loaded, host.status().await, host)
    };
    let (loaded, status, host) = lent("budget 67108864").await;
    loaded.unwrap();
    assert_eq!((status.on_gpu.layers, status.lent_bytes), (2, 0), "{status:?}");
    assert!(status.weight_bytes > 4096 && status.on_gpu.bytes > 4096, "{status:?}");
    host.worker.release(part).await.unwrap();
    let status = host.status().await;
    assert!(status.held.is_empty() && status.lent_bytes == 0, "{status:?}");

    let (loaded, status, _host) = lent("budget 4096").await;
    let Err(WorkerError::Refused { code, sentence }) = loaded else { panic!("{loaded:?}") };
    assert_eq!(code, ErrorCode::OutOfMemory);
    assert!(sentence.contains("are allowed and free") && status.held.is_empty(), "{sentence}");
}

/// A worker with nothing loaded, on a GPU with 64 MiB of its own, that may lend `gpu_bytes_max` of
/// those; named by its owner or, with `falls_back`, with the processor beside it.
async fn with_card(gpu_bytes_max: u64, memory_bytes_max: u64, falls_back: bool) -> Host {
    let (_folder, file) = order("budget 67108864");
    let variables = [("INGLENOOK_TEST_GPU", &*file)];
    let backend = Backend::GpuAt(0);
    let limits = WorkerLimits { backend, falls_back, gpu_bytes_max, ..limits(2, memory_bytes_max) };
    let host = Host::start_empty_with(&variables, limits).await;
    // Opens the GPU, before the order is gone.
    host.worker.load(&host.file, MODEL, ModelPart::inner(layers(0, 0))).await.unwrap();
    host
}

#[tokio::test]
async fn graphics_memory_is_lent_up_to_its_cap_and_the_owner_has_all_of_it() {
    if !has_gpu("a cap on graphics memory") {
        return;
    }
    const KEY: &str = "distributed_inference.host.max_lent_gpu_memory_mb";
    let guest = PeerId([3; 32]);
    // Enough for what is noted of a conversation, and for no layer.
    const LITTLE: u64 = 1 << 16;
    let free = with_card(u64::MAX, LITTLE, false).await;
    let load = async |host: &Host, part| host.worker.load_for(guest, &host.file, MODEL, part).await;
    load(&free, layers(0, 1)).await.unwrap();
    let one = free.status().await.on_gpu.lent_bytes;
    assert!(one > LITTLE, "{one}");

    let tight = with_card(2 * one, LITTLE, false).await;
    load(&tight, layers(0, 2)).await.unwrap();
    let Err(WorkerError::Refused { code, sentence }) = load(&tight, layers(2, 1)).await else {
        panic!("that is beyond the cap");
    };
    assert_eq!(code, ErrorCode::OutOfMemory);
    let figures = "MB of graphics memory more, 0 MB are allowed and free";
    assert!(sentence.contains(figures) && sentence.contains(KEY), "{sentence}");
    let status = tight.status().await;
    assert_eq!((status.on_gpu.layers, status.on_gpu.lent_bytes), (2, 2 * one));
    // A conversation needs more there; the owner may have all of it, and a layer of the guest's is
    // its own from then on.
    let refused = tight.open(Opening::of(1, layers(0, 2))).await.map(|_| ());
    assert_eq!(refused, Err(Refused(ErrorCode::OutOfMemory)));
    tight.load().await.unwrap();
    let status = tight.status().await;
    assert_eq!((status.on_gpu.layers, status.on_gpu.lent_bytes), (LAYERS, 0), "{status:?}");
    // Over the owner's layers conversations of guests take what the cap leaves, as it is now.
    let capped = |gpu_bytes_max| {
        let backend = Backend::GpuAt(0);
        WorkerLimits { backend, gpu_bytes_max, ..limits(2, LITTLE) }
    };
    let open = async || tight.open(Opening::of(1, layers(0, 2))).await;
    tight.worker.configure(capped(u64::MAX)).await;
    let talk = open().await.unwrap();
    let caches = tight.status().await.on_gpu.lent_bytes;
    drop(talk);
    tight.until("the end of the conversation", |status| status.sessions == 0).await;
    tight.worker.configure(capped(caches - 1)).await;
    assert_eq!(open().await.map(|_| ()), Err(Refused(ErrorCode::OutOfMemory)));
    tight.worker.configure(capped(caches)).await;
    assert!(open().await.is_ok());
}

#[tokio::test]
async fn what_the_cap_on_graphics_memory_has_no_room_for_lies_with_the_processor_beside_it() {
    if !has_gpu("a cap on graphics memory and a processor beside it") {
        return;
    }
    let guest = PeerId([3; 32]);
    let all = LayerRange::all(LAYERS);
    let free = with_card(u64::MAX, PLENTY, true).await;
    free.worker.load_for(guest, &free.file, MODEL, all).await.unwrap();
    let status = free.status().await;
    assert_eq!((status.on_gpu.layers, status.lent_bytes), (LAYERS, 0), "{status:?}");

    // Two layers with what one long conversation remembers of them, and not three.
    let window = free.model.file().shape().context_length;
    let each = (status.on_gpu.lent_bytes + free.model.cache_bytes(all, window)) / u64::from(LAYERS);
    let cap = each * 5 / 2;
    let host = with_card(cap, PLENTY, true).await;
    host.worker.load_for(guest, &host.file, MODEL, all).await.unwrap();
    let status = host.status().await;
    assert_eq!((status.held, status.on_gpu.layers), (vec![all], 2));
    assert!(status.lent_bytes > 0 && status.on_gpu.lent_bytes <= cap, "the rest is in memory");
    let talk = host.open(Opening::of(1, layers(0, LAYERS))).await.unwrap();
    assert!(host.status().await.on_gpu.lent_bytes <= cap);
    drop(talk);
    host.until("the end of the conversation", |status| status.sessions == 0).await;
    // Given back, they are placed anew: for the owner all on the card.
    host.worker.forget(None).await;
    host.worker.release(all).await.unwrap();
    host.load().await.unwrap();
    let status = host.status().await;
    assert_eq!((status.on_gpu.layers, status.on_gpu.lent_bytes), (LAYERS, 0), "{status:?}");

    // No room in either: refused by the figure of the computer's memory.
    let full = with_card(0, 4096, true).await;
    let refused = full.worker.load_for(guest, &full.file, MODEL, all).await;
    let Err(WorkerError::Refused { code, sentence }) = refused else { panic!("{refused:?}") };
    assert_eq!(code, ErrorCode::OutOfMemory);
    assert!(sentence.contains("max_lent_memory_mb"), "{sentence}");
}

#[tokio::test]
async fn a_gpu_that_is_lost_ends_its_worker_with_a_status_of_its_own() {
    if !has_gpu("a lost device") {
        return;
    }
    let (_folder, file) = order("lose 2");
    let variables = [("INGLENOOK_TEST_GPU", &*file)];
    let host = told(&variables, (Backend::GpuAt(0), false), small).await;
    let host = host.unwrap_or_else(|(_, error)| panic!("{error}"));
    let mut talk = host.open(Opening::of(1, layers(1, 2))).await.unwrap();
    assert_eq!(talk.walk(&[3, 1]).await.map(|rows| rows.len()), Ok(4 * WIDTH as usize));
    // The end of the process may overtake the code.
    let Err(Refused(code)) = talk.step(1).await else { panic!("its device is gone") };
    assert!([ErrorCode::GpuLost, ErrorCode::WorkerCrashed].contains(&code), "{code}");
    let end = host.worker.ended().await;
    assert!(end.gpu_lost && !end.asked, "{end:?}");
    assert!(end.last_lines.iter().any(|line| line.contains("was lost")), "{end:?}");
}

#[tokio::test]
async fn computing_that_panics_ends_its_worker() {
    let (_folder, file) = order("panic 2");
    let variables = [("INGLENOOK_TEST_GPU", &*file)];
    let host = told(&variables, (Backend::Native, false), small).await;
    let host = host.unwrap_or_else(|(_, error)| panic!("{error}"));
    let mut talk = host.open(Opening::of(1, layers(1, 2))).await.unwrap();
    assert_eq!(talk.walk(&[3, 1]).await.map(|rows| rows.len()), Ok(4 * WIDTH as usize));
    assert!(talk.step(1).await.is_err(), "the thread is gone, and perhaps the process");
    let end = host.worker.ended().await;
    assert!(!end.gpu_lost && !end.asked, "{end:?}");
    assert!(end.status.ends_with(": 1"), "{end:?}");
    // What the panic itself wrote may be longer than what is kept: it carries a backtrace where a
    // person wants one.
    let said =
        end.last_lines.last().is_some_and(|line| line.contains("compute thread has panicked"));
    assert!(said, "{end:?}");
}

#[tokio::test]
async fn a_worker_that_computes_with_candle_agrees_with_the_usual_one() {
    let host = Host::start_on("candle-cpu", 4, PLENTY).await.unwrap();
    let part = layers(1, 2);
    let mut talk = host.open(Opening::of(1, part)).await.unwrap().seeded(5);
    let got = talk.walk(&[40, 1, 2, 1]).await.unwrap();
    let expected = host.alone(part, 5, 44);
    let sum =
        |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| f64::from(x * x)).sum::<f64>();
    let off = sum(&mut got.iter().zip(&expected).map(|(a, b)| a - b));
    let rms = (off / sum(&mut expected.iter().copied())).sqrt();
    assert_eq!(host.status().await.backend, Backend::Candle);
    // The model is small, so both compute in single precision.
    assert!(got.len() == expected.len() && rms < 3e-5, "{rms:.1e}");
    assert!(rms > 0.0, "another code gives other last bits: was it used?");
}

#[tokio::test]
async fn weights_that_candle_has_no_kernel_for_are_named_with_what_they_take() {
    let variables = [("INGLENOOK_DEVICE", "candle-cpu")];
    let host = told(&variables, (Backend::Auto, false), rare).await;
    let host = host.unwrap_or_else(|(_, error)| panic!("{error}"));
    host.worker.stop().await;
    let lines = host.worker.ended().await.last_lines;
    // A matrix of 768 x 768: in 110 bytes for 256 numbers, or in two for each.
    let said = "candle has no kernels for IQ3_S: these weights are held as f16, all of them in 1 MB \
                instead of 0 MB";
    assert!(lines.iter().any(|line| line.contains(said)), "{lines:?}");
}
