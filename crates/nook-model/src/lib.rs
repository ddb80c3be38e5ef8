//! nook-model: see ARCHITECTURE.md.
