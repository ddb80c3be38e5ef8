//! nook-node: see ARCHITECTURE.md.
