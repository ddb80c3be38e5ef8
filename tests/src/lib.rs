//! End-to-end tests; see the folder `tests/`.
