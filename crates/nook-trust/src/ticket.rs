//! A requester's signed word that one host may bring the steps of its call to another.
//!
//! Where two hosts of a route trust each other, the first hands its results to the second. The
//! second then takes steps over its link with the *carrier*, although the call is the
//! *requester's*. A [`Ticket`] is how it knows that the requester wants this, and
//! [`Gate::admit_ticket`] is where it decides: on the trust in the requester, never on that in the
//! carrier, of which only the pairing is asked.
//!
//! What a ticket cannot do is as important. It opens nothing: it joins the carrier's call to a call
//! that the requester itself has opened at the same host, over its own link, and that the gate has
//! let in. So a carrier never acts in the requester's name, whatever it signs or keeps.
//!
//! What is signed, and against what:
//! - *the three ids*: a ticket stolen by another carrier, or shown to another host, is worth
//!   nothing;
//! - *the session*: 64 random bits that name one call. A host takes one carrier for a call, before
//!   its first step, and forgets the name with the call. That is both the expiry and the end of
//!   replay, and it needs no clock: those of a household are wrong. A TLS exporter would bind the
//!   ticket to a channel between the hosts that the requester does not know;
//! - *model, layers, number format, longest position*: the host compares them with that call, so a
//!   ticket is not bent to a call for something else.

use nook_base::{ErrorCode, PeerId, Ticket, TicketClaim};

use crate::gate::{Admitted, Gate, Refusal};
use crate::key::{DeviceKey, DevicePublicKey, KeyError, SIGNATURE_BYTES};
use crate::level::TrustLevel;
use crate::purpose::Lend;

/// Keeps a signature from being good for anything else that this key signs.
const DOMAIN: &[u8] = b"inglenook-ticket-v1\0";

/// Why a ticket is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TicketRefusal {
    /// Whoever brings it is not paired here, or blocked.
    #[error("{carrier} brings steps and is not paired with this device")]
    Carrier {
        /// Who.
        carrier: PeerId,
    },
    /// It is made out for another carrier or another host.
    #[error("the ticket is made out for {carrier} to bring steps to {host}")]
    OtherDevices {
        /// The carrier that it names.
        carrier: PeerId,
        /// The host that it names.
        host: PeerId,
    },
    /// The key is none, or a weak one.
    #[error("the ticket's key is not usable: {0}")]
    Key(#[from] KeyError),
    /// The requester has not signed this.
    #[error("the ticket was not signed by {requester}")]
    Forged {
        /// Who is said to have signed it.
        requester: PeerId,
    },
    /// The gate does not let the requester in.
    #[error(transparent)]
    Requester(#[from] Refusal),
}

impl TicketRefusal {
    /// The code that crosses the wire.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode::TrustDenied
    }
}

/// What is signed: fields of fixed length in a fixed order, so that no two claims share bytes.
fn signed_bytes(claim: &TicketClaim, requester: PeerId) -> Vec<u8> {
    let TicketClaim { carrier, host, session, model, layers, dtype, positions_max } = claim;
    let mut bytes = DOMAIN.to_vec();
    for id in [requester.0, carrier.0, host.0, model.0] {
        bytes.extend_from_slice(&id);
    }
    bytes.extend_from_slice(&session.to_be_bytes());
    for number in [layers.start(), layers.end(), *positions_max] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    // By name, which no later format takes over; last, so that its length is no question.
    bytes.extend_from_slice(dtype.to_string().as_bytes());
    bytes
}

impl DeviceKey {
    /// Signs a claim in this device's name.
    #[must_use]
    pub fn issue(&self, claim: TicketClaim) -> Ticket {
        let signed = self.sign(&signed_bytes(&claim, self.peer_id()));
        let mut signature = [[0; 32]; 2];
        signature.as_flattened_mut().copy_from_slice(&signed);
        Ticket { requester: *self.public().as_bytes(), claim, signature }
    }
}

impl Gate {
    /// Lets in the requester of `ticket`, which `carrier` shows to this device, `here`; or says why
    /// not.
    ///
    /// The proof names the requester: it is worth what a call of the requester's own is worth.
    pub fn admit_ticket(
        &self,
        ticket: &Ticket,
        carrier: PeerId,
        here: PeerId,
    ) -> Result<Admitted<Lend>, TicketRefusal> {
        if self.level(carrier) < TrustLevel::Guest {
            return Err(TicketRefusal::Carrier { carrier });
        }
        let claim = &ticket.claim;
        if (claim.carrier, claim.host) != (carrier, here) {
            let TicketClaim { carrier, host, .. } = *claim;
            return Err(TicketRefusal::OtherDevices { carrier, host });
        }
        let key = DevicePublicKey::from_bytes(&ticket.requester)?;
        let requester = key.peer_id();
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(ticket.signature.as_flattened());
        key.verify(&signed_bytes(claim, requester), &signature)
            .map_err(|_| TicketRefusal::Forged { requester })?;
        Ok(self.admit(requester)?)
    }
}
