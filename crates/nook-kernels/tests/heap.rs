//! Memory that was freed between what is kept goes back to the system when asked.
//!
//! A program of its own, because it measures the memory of its process: other tests must not use
//! any at the same time.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[test]
fn holes_between_what_is_kept_go_back() {
    const BLOCK: usize = 4 << 10;
    const BLOCKS: usize = 16_384;
    let mut blocks: Vec<Option<Vec<u8>>> = (0..BLOCKS).map(|_| Some(vec![1; BLOCK])).collect();
    // One of sixty-four stays, so that no hole is at the end of the heap.
    for (number, block) in blocks.iter_mut().enumerate() {
        if number % 64 != 63 {
            *block = None;
        }
    }
    let before = resident_kib();
    nook_kernels::heap::give_back();
    let after = resident_kib();
    // Of 64 MB; the allocator may have found another place for some of it.
    assert!(after + (32 << 10) < before, "{before} KiB before, {after} after");
    assert!(blocks.iter().flatten().all(|block| block.iter().all(|byte| *byte == 1)));
}

/// Memory of this process that belongs to no file, see proc_pid_status(5).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
