//! nook-wire: see ARCHITECTURE.md.
