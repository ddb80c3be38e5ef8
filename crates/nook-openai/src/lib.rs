//! nook-openai: see ARCHITECTURE.md.
