//! What is signed, hashed and proved, byte for byte. Devices of two versions must agree about it,
//! and a part that both sides leave out is missed by neither.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use curve25519_dalek::Scalar;
use ed25519_dalek::{Signature, SigningKey, Verifier as _};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use nook_base::{ActivationDtype, LayerRange, ModelDigest};
use nook_trust::pairing::pake::{BadPakeMessage, PAKE_MESSAGE_BYTES, Pake};
use nook_trust::pairing::{
    EXPORTER_BYTES, Exchange, Introduction, PairingChannel, PairingCode, Progress, Role,
};
use nook_trust::{DeviceKey, DeviceName, PeerId, TicketClaim};
use sha2::{Digest, Sha256, Sha512};
use zeroize::Zeroizing;

const SHOWER: PeerId = PeerId([0x11; 32]);
const TYPER: PeerId = PeerId([0x22; 32]);
const EXPORTER: [u8; EXPORTER_BYTES] = [0x33; EXPORTER_BYTES];

/// No key exchange at all: what is shared is what the exchange was started with.
struct Bare(Vec<u8>);

impl Pake for Bare {
    fn start(
        role: Role,
        password: &[u8],
        shower: PeerId,
        typer: PeerId,
    ) -> (Self, [u8; PAKE_MESSAGE_BYTES]) {
        let side = if role == Role::ShowCode { 0xaa } else { 0xbb };
        (Self([password, &shower.0, &typer.0].concat()), [side; PAKE_MESSAGE_BYTES])
    }

    fn finish(self, _: &[u8; PAKE_MESSAGE_BYTES]) -> Result<Zeroizing<Vec<u8>>, BadPakeMessage> {
        Ok(Zeroizing::new(self.0))
    }
}

fn start(role: Role) -> (Exchange<Bare>, Vec<u8>) {
    let (own, peer) = if role == Role::ShowCode { (SHOWER, TYPER) } else { (TYPER, SHOWER) };
    let channel = PairingChannel::new(own, peer, Zeroizing::new(EXPORTER)).unwrap();
    let introduction = Introduction {
        name: DeviceName::sanitised("desk"),
        app_version: "0.1.0".to_owned(),
        protocol: (1, 1),
        port: 4588,
    };
    Exchange::start(role, &PairingCode::parse("427901").unwrap(), channel, introduction)
}

/// A proof as the description of pairing has it, written down a second time.
fn proof(first: &[u8], second: &[u8], of: &str) -> Vec<u8> {
    let mut transcript = b"inglenook-pair transcript\x01".to_vec();
    for (id, message) in [(SHOWER, first), (TYPER, second)] {
        transcript.extend(id.0);
        transcript.extend((message.len() as u64).to_be_bytes());
        transcript.extend(message);
    }
    let transcript = Sha256::digest(&transcript);
    let password = [&b"inglenook-pair-v1\x00427901\x00"[..], &EXPORTER].concat();
    let material = [&password[..], &SHOWER.0, &TYPER.0, &EXPORTER].concat();
    let info = format!("inglenook-pair-v1 proof of the device that {of} the code");
    let mut key = [0; 32];
    let keys = Hkdf::<Sha256>::new(Some(&transcript), &material);
    keys.expand(info.as_bytes(), &mut key).unwrap();
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(&key).unwrap();
    mac.update(&transcript);
    [&[2][..], &mac.finalize().into_bytes()].concat()
}

#[test]
fn proofs_are_made_of_code_channel_ids_and_messages_in_one_way() {
    let (mut shower, first) = start(Role::ShowCode);
    let (mut typer, second) = start(Role::TypeCode);
    assert_eq!(shower.receive(&second), Ok(Progress::Wait));
    let typed = proof(&first, &second, "types");
    assert_eq!(typer.receive(&first), Ok(Progress::Send(typed.clone())));
    assert!(matches!(shower.receive(&typed), Ok(Progress::Store(_))));
    assert_eq!(shower.stored(), Ok(proof(&first, &second, "shows")));
}

/// Made by another program from the same seed.
#[test]
fn the_id_of_a_key_and_its_signature_of_a_ticket_never_change() {
    let key = DeviceKey::from_seed(&Zeroizing::new([5; 32]));
    let id = "3774845b9147b50cf00771ca20eb29cc3043c078f79ee13ebd0c63062a133b4d";
    assert_eq!(hex(&key.peer_id().0), id);
    let ticket = key.issue(TicketClaim {
        carrier: PeerId([8; 32]),
        host: PeerId([7; 32]),
        session: 0x0123_4567_89ab_cdef,
        model: ModelDigest([4; 32]),
        layers: LayerRange::with_len(3, 4),
        dtype: ActivationDtype::F16,
        positions_max: 4096,
    });
    let signature = "941b79f3ddbb2e337c040a66f901e8136404120c1bfac342de8651510146a706\
                     084ebea2f5b67bdb5b0969e5e25aa5cfdacf84db89fdd9a7501b8c96c2346202";
    assert_eq!(hex(ticket.signature.as_flattened()), signature);
}

/// A nonce that is no nonce: what is left of such a signature fits for whoever multiplies.
#[test]
fn a_signature_with_a_point_of_small_order_is_none() {
    let seed = [5; 32];
    let (key, message) = (SigningKey::from_bytes(&seed), b"ticket");
    let mut neutral = [0; 32];
    neutral[0] = 1;
    let public = key.verifying_key();
    let hash = Sha512::new().chain_update(neutral).chain_update(public).chain_update(message);
    let factor = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
    let answer = (factor * key.to_scalar()).to_bytes();
    let mut signature = [0; 64];
    signature.as_chunks_mut::<32>().0.copy_from_slice(&[neutral, answer]);
    assert!(public.verify(message, &Signature::from_bytes(&signature)).is_ok(), "loosely it fits");
    let own = DeviceKey::from_seed(&Zeroizing::new(seed)).public();
    assert!(own.verify(message, &signature).is_err());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
