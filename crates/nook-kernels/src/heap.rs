//! What the heap keeps of memory that was freed, given back to the system.
//!
//! Allocators keep freed memory for what is allocated next. glibc's gives back by itself only what
//! lies at the end of its heap; the holes before it stay with the process, as many as there were at
//! its busiest moments, and somewhat more each time. Whoever has freed a lot and will be idle calls
//! [`give_back`].

#![allow(unsafe_code, reason = "declares a function of the system's C library")]

/// Gives back every free page of the heap. Takes about a millisecond for each 10 MB of holes, in
/// which other threads wait with allocations. Does nothing where the allocator is not glibc's:
/// others give back by themselves.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: this is its declaration in malloc.h of glibc (malloc_trim(3)). It may be called
        // from any thread at any time, with any number of bytes to leave at the end.
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        // It says whether there was anything, which makes no difference here.
        let _ = malloc_trim(0);
    }
}
