//! nook-kernels: see ARCHITECTURE.md.
