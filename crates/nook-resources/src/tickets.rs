//! Tickets between the form in which they travel and the form that the gate reads.

use nook_trust::{Ticket, TicketClaim};

/// A ticket as it travels.
pub fn on_the_wire(ticket: &Ticket) -> nook_wire::Ticket {
    let TicketClaim { carrier, host, session, model, layers, dtype, positions_max } = ticket.claim;
    let mut signature = [[0; 32]; 2];
    signature.as_flattened_mut().copy_from_slice(&ticket.signature);
    let requester = ticket.requester;
    nook_wire::Ticket {
        requester,
        carrier,
        host,
        session,
        model,
        layers,
        dtype,
        positions_max,
        signature,
    }
}

/// A ticket as the gate reads it.
pub fn from_the_wire(ticket: &nook_wire::Ticket) -> Ticket {
    let nook_wire::Ticket {
        requester,
        carrier,
        host,
        session,
        model,
        layers,
        dtype,
        positions_max,
        signature: halves,
    } = *ticket;
    let mut signature = [0; 64];
    signature.copy_from_slice(halves.as_flattened());
    let claim = TicketClaim { carrier, host, session, model, layers, dtype, positions_max };
    Ticket { requester, claim, signature }
}
