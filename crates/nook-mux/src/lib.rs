//! nook-mux: see ARCHITECTURE.md.
