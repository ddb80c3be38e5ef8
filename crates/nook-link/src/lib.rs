//! nook-link: see ARCHITECTURE.md.
