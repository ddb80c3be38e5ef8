//! Where a model's file may lie.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use nook_base::LayerRange;

use crate::host::{Host, LAYERS};

/// Latin-1, as disks of older systems have it: no UTF-8.
const ODD: &[u8] = b"mod\xe8les \xff";

#[tokio::test]
async fn a_model_in_a_folder_whose_name_is_no_text_loads() {
    let odd = OsStr::from_bytes(ODD);
    assert_eq!(odd.to_str(), None);
    let host = Host::start_in(odd, "cpu", 1, 1 << 30).await.unwrap();
    assert_eq!(host.status().await.held, [LayerRange::all(LAYERS)]);
}
