//! nook-trust: see ARCHITECTURE.md.
