//! nook-shard: see ARCHITECTURE.md.
