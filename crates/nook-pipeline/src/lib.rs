//! nook-pipeline: see ARCHITECTURE.md.
