//! nook-text: see ARCHITECTURE.md.
