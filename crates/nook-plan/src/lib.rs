//! nook-plan: see ARCHITECTURE.md.
