//! nook-store: see ARCHITECTURE.md.
