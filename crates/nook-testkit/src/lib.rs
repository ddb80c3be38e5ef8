//! nook-testkit: see ARCHITECTURE.md.
