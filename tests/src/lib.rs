//! End-to-end tests of whole households; see the folder `tests/`. The parts they are made of are in
//! `nook-testkit`.
