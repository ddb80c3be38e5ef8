//! nook-find: see ARCHITECTURE.md.
