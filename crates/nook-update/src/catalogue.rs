//! The list of models that a release signs beside the list of versions. Pure.
//!
//! Here is what makes it believable; what stands in it is read by `nook-fetch`. The order is that of
//! the list of versions: length, signature over the very bytes and the kind of file, and only then
//! is anything read of them.

use crate::keys::{Keys, SignatureError};
use crate::limits::CATALOGUE_BYTES_MAX;

/// What kind of file it is: the first word of what is signed beside its bytes.
pub const CATALOGUE_KIND: &str = "inglenook-catalogue";

/// What the list of models is called where a release lies, beside the list of versions.
pub const CATALOGUE_FILE: &str = "inglenook-models.toml";

/// A list of models that is not taken. The one before stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueRefusal {
    /// No key is known that could have signed it.
    #[error(
        "this program knows no key of a release, so no list of models can be checked. The list that it \
         brought along stays; who makes releases of their own names the key in INGLENOOK_UPDATES_KEY"
    )]
    NoKey,
    /// Its signature is not one.
    #[error(
        "the signature of the list of models cannot be read. The list that is here stays. Try again \
         later; if it stays so, the server's files are damaged"
    )]
    NoSignature,
    /// Somebody else has signed it.
    #[error(
        "the list of models is signed with a key that this program does not know. The list that is here \
         stays. If the project has announced a new key, install the new version by hand"
    )]
    WrongKey,
    /// It is not what was signed.
    #[error(
        "the list of models was changed after it was signed. The list that is here stays. Try again \
         later, over another network"
    )]
    Changed,
    /// It is another signed file.
    #[error(
        "what the server has as the list of models was signed as another file. The list that is here \
         stays. Try again later, over another network"
    )]
    OtherKind,
    /// Longer than any list.
    #[error(
        "the list of models has more than {most} bytes, which none has. The list that is here stays. Try \
         again later, over another network"
    )]
    TooLarge {
        /// The limit.
        most: usize,
    },
    /// Signed, and not understood.
    #[error(
        "the list of models cannot be used ({reason}). The list that is here stays. Install the newest \
         version of this program"
    )]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// A newer one was seen before: this is a replay.
    #[error(
        "the list of models was written {seconds} seconds before one that was seen already. The list \
         that is here stays. Try again later, over another network"
    )]
    Older {
        /// By how much it is older.
        seconds: u64,
    },
}

impl From<SignatureError> for CatalogueRefusal {
    fn from(error: SignatureError) -> Self {
        match error {
            SignatureError::NoKey => Self::NoKey,
            SignatureError::Unreadable => Self::NoSignature,
            SignatureError::WrongKey => Self::WrongKey,
            SignatureError::Changed => Self::Changed,
            SignatureError::OtherKind => Self::OtherKind,
        }
    }
}

/// The text of a list of models that one of `keys` has signed as such.
pub fn signed_catalogue<'a>(
    bytes: &'a [u8],
    signature: &[u8],
    keys: &Keys,
) -> Result<&'a str, CatalogueRefusal> {
    if bytes.len() > CATALOGUE_BYTES_MAX {
        return Err(CatalogueRefusal::TooLarge { most: CATALOGUE_BYTES_MAX });
    }
    keys.check_as(CATALOGUE_KIND, bytes, signature)?;
    let malformed = |error: std::str::Utf8Error| error.to_string();
    std::str::from_utf8(bytes)
        .map_err(|error| CatalogueRefusal::Malformed { reason: malformed(error) })
}

#[cfg(test)]
mod tests {
    use minisign::KeyPair;

    use super::*;

    const LIST: &[u8] = b"kind = \"inglenook-catalogue\"\n";

    fn signed(pair: &KeyPair, bytes: &[u8], comment: Option<&str>) -> Vec<u8> {
        minisign::sign(None, &pair.sk, bytes, comment, None).unwrap().to_bytes()
    }

    #[test]
    fn u8_only_what_a_known_key_has_signed_as_a_list_of_models_is_one() {
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        let thief = KeyPair::generate_unencrypted_keypair().unwrap();
        let keys = Keys::read(&pair.pk.to_base64()).unwrap();
        let of = |signature: &[u8], bytes| signed_catalogue(bytes, signature, &keys);
        let comment = Some("inglenook-catalogue 1");
        let good = signed(&pair, LIST, comment);
        assert_eq!(of(&good, LIST).unwrap().as_bytes(), LIST);
        assert_eq!(of(&signed(&thief, LIST, comment), LIST), Err(CatalogueRefusal::WrongKey));
        for at in 0..LIST.len() {
            let mut changed = LIST.to_vec();
            changed[at] ^= 1;
            let outcome = signed_catalogue(&changed, &good, &keys);
            assert_eq!(outcome, Err(CatalogueRefusal::Changed), "at {at}");
        }
        for other in [
            None,
            Some("inglenook-update 0.2.0 7"),
            Some("inglenook 0.2.0 7"),
            Some("inglenook-catalogues 1"),
            Some(""),
        ] {
            let outcome = of(&signed(&pair, LIST, other), LIST);
            assert_eq!(outcome, Err(CatalogueRefusal::OtherKind), "{other:?}");
        }
        // The kind written over that of another file's signature: the comment is signed too.
        let text = String::from_utf8(signed(&pair, LIST, Some("inglenook-update 0.2.0"))).unwrap();
        let forged = text.replace("comment: inglenook-update", "comment: inglenook-catalogue");
        assert_ne!(forged, text);
        assert_eq!(of(forged.as_bytes(), LIST), Err(CatalogueRefusal::Changed));
        assert_eq!(of(b"\xff", LIST), Err(CatalogueRefusal::NoSignature));
        let none = Keys::read("").unwrap();
        assert_eq!(signed_catalogue(LIST, &good, &none), Err(CatalogueRefusal::NoKey));
        let long = vec![b' '; CATALOGUE_BYTES_MAX + 1];
        let outcome = signed_catalogue(&long, &signed(&pair, &long, comment), &keys);
        assert!(matches!(outcome, Err(CatalogueRefusal::TooLarge { .. })), "{outcome:?}");
        let odd = signed_catalogue(b"\xff", &signed(&pair, b"\xff", comment), &keys);
        assert!(matches!(odd, Err(CatalogueRefusal::Malformed { .. })), "{odd:?}");
    }

    #[test]
    fn every_refusal_says_what_stays_and_what_to_do() {
        for refusal in [
            CatalogueRefusal::NoKey,
            CatalogueRefusal::NoSignature,
            CatalogueRefusal::WrongKey,
            CatalogueRefusal::Changed,
            CatalogueRefusal::OtherKind,
            CatalogueRefusal::TooLarge { most: 1 },
            CatalogueRefusal::Malformed { reason: "x".to_owned() },
            CatalogueRefusal::Older { seconds: 1 },
        ] {
            let sentence = refusal.to_string();
            let acts = ["Try again", "install", "Install", "names the key"];
            assert!(sentence.contains("stays"), "{sentence}");
            assert!(acts.iter().any(|act| sentence.contains(act)), "{sentence}");
        }
    }
}
