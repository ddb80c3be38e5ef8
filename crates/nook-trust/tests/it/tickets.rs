//! What a ticket lets in, and everything that it does not.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use nook_base::{ActivationDtype, ErrorCode, LayerRange, ModelDigest};
use nook_trust::purpose::Lend;
use nook_trust::{
    Admitted, DeviceKey, Gate, GatePolicy, PeerId, Refusal, Ticket, TicketClaim, TicketRefusal,
    TrustLevel,
};

const HOST: PeerId = PeerId([7; 32]);
const CARRIER: PeerId = PeerId([8; 32]);

fn claim() -> TicketClaim {
    TicketClaim {
        carrier: CARRIER,
        host: HOST,
        session: 0x0123_4567_89ab_cdef,
        model: ModelDigest([4; 32]),
        layers: LayerRange::with_len(3, 4),
        dtype: ActivationDtype::F16,
        positions_max: 4096,
    }
}

struct Scene {
    requester: DeviceKey,
    ticket: Ticket,
}

fn scene() -> Scene {
    let requester = DeviceKey::generate().unwrap();
    let ticket = requester.issue(claim());
    Scene { requester, ticket }
}

impl Scene {
    fn gate(&self, requester: TrustLevel, carrier: TrustLevel) -> Gate {
        let levels = [(self.requester.peer_id(), requester), (CARRIER, carrier)];
        Gate::new(GatePolicy::DEFAULT, levels)
    }

    fn shown(&self, ticket: &Ticket) -> Result<PeerId, TicketRefusal> {
        let gate = self.gate(TrustLevel::Trusted, TrustLevel::Guest);
        let admitted: Admitted<Lend> = gate.admit_ticket(ticket, CARRIER, HOST)?;
        Ok(admitted.peer())
    }
}

#[test]
fn a_ticket_lets_its_requester_in_and_never_its_carrier() {
    let scene = scene();
    assert_eq!(scene.shown(&scene.ticket), Ok(scene.requester.peer_id()));
    // However much the carrier is trusted, the requester's level decides.
    for level in [TrustLevel::Blocked, TrustLevel::Unknown, TrustLevel::Guest] {
        let gate = scene.gate(level, TrustLevel::Own);
        let refused = gate.admit_ticket(&scene.ticket, CARRIER, HOST).unwrap_err();
        assert!(matches!(refused, TicketRefusal::Requester(_)), "{level:?}: {refused:?}");
        assert_eq!(refused.code(), ErrorCode::TrustDenied);
    }
    let unknown = Gate::new(GatePolicy::DEFAULT, [(CARRIER, TrustLevel::Own)]);
    let peer = scene.requester.peer_id();
    let refused = TicketRefusal::Requester(Refusal::NotPaired { peer });
    assert_eq!(unknown.admit_ticket(&scene.ticket, CARRIER, HOST), Err(refused));
}

#[test]
fn a_carrier_must_be_paired() {
    let scene = scene();
    for level in [TrustLevel::Blocked, TrustLevel::Unknown] {
        let gate = scene.gate(TrustLevel::Own, level);
        let refused = TicketRefusal::Carrier { carrier: CARRIER };
        assert_eq!(gate.admit_ticket(&scene.ticket, CARRIER, HOST), Err(refused), "{level:?}");
    }
}

#[test]
fn t6_a_ticket_is_good_for_one_carrier_and_one_host() {
    let scene = scene();
    let other = PeerId([9; 32]);
    let levels = [
        (scene.requester.peer_id(), TrustLevel::Own),
        (CARRIER, TrustLevel::Own),
        (other, TrustLevel::Own),
    ];
    let gate = Gate::new(GatePolicy::DEFAULT, levels);
    let refused = Err(TicketRefusal::OtherDevices { carrier: CARRIER, host: HOST });
    assert_eq!(gate.admit_ticket(&scene.ticket, other, HOST), refused);
    assert_eq!(gate.admit_ticket(&scene.ticket, CARRIER, other), refused);
}

#[test]
fn t7_nothing_in_a_ticket_can_be_changed() {
    let scene = scene();
    let requester = scene.requester.peer_id();
    let changed = |change: &dyn Fn(&mut Ticket)| {
        let mut ticket = scene.ticket.clone();
        change(&mut ticket);
        scene.shown(&ticket)
    };
    let forged = Err(TicketRefusal::Forged { requester });
    assert_eq!(changed(&|ticket| ticket.claim.session ^= 1), forged);
    assert_eq!(changed(&|ticket| ticket.claim.model = ModelDigest([5; 32])), forged);
    for (start, len) in [(3, 5), (2, 4), (2, 5), (3, 0)] {
        let layers = LayerRange::with_len(start, len);
        assert_eq!(changed(&|ticket| ticket.claim.layers = layers), forged, "{layers}");
    }
    assert_eq!(changed(&|ticket| ticket.claim.dtype = ActivationDtype::F32), forged);
    assert_eq!(changed(&|ticket| ticket.claim.positions_max += 1), forged);
    for bit in 0..512 {
        let refused =
            changed(&|ticket| ticket.signature.as_flattened_mut()[bit / 8] ^= 1 << (bit % 8));
        assert_eq!(refused, forged, "bit {bit}");
    }
    // Another's key over the requester's claim is another's ticket, and that is a stranger's.
    let other = DeviceKey::generate().unwrap();
    let refused = scene.shown(&other.issue(claim()));
    assert!(matches!(refused, Err(TicketRefusal::Requester(Refusal::NotPaired { .. }))));
    let swapped = changed(&|ticket| ticket.requester = *other.public().as_bytes());
    assert_eq!(swapped, Err(TicketRefusal::Forged { requester: other.peer_id() }));
    // The neutral element, for which anybody can sign.
    let weak = changed(&|ticket| {
        ticket.requester = [0; 32];
        ticket.requester[0] = 1;
    });
    assert!(matches!(weak, Err(TicketRefusal::Key(_))), "{weak:?}");
}

/// Whoever holds a ticket can write itself, or another host, into it.
#[test]
fn t6_a_ticket_is_not_made_out_anew_by_who_holds_it() {
    let scene = scene();
    let (thief, other_host) = (PeerId([9; 32]), PeerId([10; 32]));
    let requester = scene.requester.peer_id();
    let levels =
        [(requester, TrustLevel::Own), (CARRIER, TrustLevel::Own), (thief, TrustLevel::Own)];
    let gate = Gate::new(GatePolicy::DEFAULT, levels);
    let forged = Err(TicketRefusal::Forged { requester });
    let mut stolen = scene.ticket.clone();
    stolen.claim.carrier = thief;
    assert_eq!(gate.admit_ticket(&stolen, thief, HOST), forged);
    let mut sent_on = scene.ticket.clone();
    sent_on.claim.host = other_host;
    assert_eq!(gate.admit_ticket(&sent_on, CARRIER, other_host), forged);
}
