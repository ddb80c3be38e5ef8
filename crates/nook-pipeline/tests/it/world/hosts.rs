//! The hosts of the simulated house: how they open calls, compute, remember, hand results on and
//! answer.

use super::*;

impl World {
    pub(super) fn host(&mut self, attempt: AttemptId) -> &mut Host {
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert!(host.open && !host.closed, "a step before OPENED or after CLOSE");
        assert!(!host.draining, "a step for somebody who leaves");
        host
    }

    pub(super) fn open(
        &mut self,
        attempt: AttemptId,
        place: Place,
        (part, dtype): (nook_base::ModelPart, ActivationDtype),
        resume: Option<(u32, PrefixHash)>,
    ) {
        let delay = Duration::from_micros(200 + self.chance(3_000));
        let resumed = resume.map(|point| self.remembered((place, part, dtype), point));
        let (toy, mark, marks) = match resumed.flatten() {
            Some(Host { toy, mark, marks, .. }) => (toy, mark, marks),
            None => (Toy::new(part), PrefixHash::EMPTY, BTreeMap::new()),
        };
        let position = toy.len;
        let host = Host::new((place, dtype), toy, (mark, marks), self.now);
        let mut refusal = None;
        let mut answers = true;
        if let Some(index) = self.index(place) {
            assert!(!part.embedding && !part.head);
            let state = self.peers[index].clone();
            let holds = |range: &LayerRange| range.contains(part.layers);
            assert!(self.case.peers[index].ranges.iter().any(holds));
            answers = !state.silent;
            refusal = if state.dead {
                Some(None)
            } else if state.draining {
                Some(Some(ErrorCode::Draining))
            } else if state.full || self.calls(index) >= self.case.peers[index].streams {
                Some(Some(ErrorCode::Busy))
            } else {
                None
            };
        } else if self.local_refuses_middle && !part.embedding && !part.head {
            refusal = Some(Some(ErrorCode::OutOfMemory));
        }
        if refusal.is_none() && resume.is_some_and(|(asked, _)| asked != position) {
            refusal = Some(Some(ErrorCode::HistoryMismatch));
        }
        let earlier = self.hosts.insert(attempt, host);
        assert!(earlier.is_none(), "an attempt was used twice");
        let event = match refusal {
            None => Event::Opened { attempt, position },
            Some(None) => Event::Lost { attempt },
            Some(Some(code)) => Event::Failed { attempt, code, sentence: "no".to_owned() },
        };
        if answers {
            self.after(delay, Some(attempt), event);
        }
    }

    /// The host of a call that was closed in order keeps what it has, if it still can.
    pub(super) fn keep(&mut self, attempt: AttemptId) {
        let is_gone = |peer: &PeerState| peer.dead || peer.silent || peer.draining;
        let host = &self.hosts[&attempt];
        assert_eq!(host.steps, host.answered, "closed as in order in the middle of a step");
        let is_lost = self.index(host.place).is_some_and(|index| is_gone(&self.peers[index]));
        if host.toy.len > 0 && !host.dead && !is_lost {
            let toy = Toy::new(host.toy.part());
            let host = self.hosts.get_mut(&attempt).expect("just seen");
            let toy = std::mem::replace(&mut host.toy, toy);
            let (marks, dtype, place) = (host.marks.clone(), host.dtype, host.place);
            let (mark, free_at) = (host.mark, self.start);
            self.kept.push(Host::new((place, dtype), toy, (mark, marks), free_at));
        }
    }

    /// What a host still knows under this name and mark, cut to the position.
    pub(super) fn remembered(
        &mut self,
        who: (Place, nook_base::ModelPart, ActivationDtype),
        (position, mark): (u32, PrefixHash),
    ) -> Option<Host> {
        let fits = |host: &Host| {
            (host.place, host.toy.part(), host.dtype) == who
                && host.marks.get(&position) == Some(&mark)
        };
        let index = self.kept.iter().position(fits)?;
        let mut host = self.kept.remove(index);
        host.toy.truncate(position);
        host.marks.retain(|at, _| *at <= position);
        host.mark = mark;
        Some(host)
    }

    pub(crate) fn index(&self, place: Place) -> Option<usize> {
        (0..self.peers.len()).find(|index| place == Place::Peer(peer(*index)))
    }

    /// A host is asked to hand its results to another call.
    pub(super) fn forward(&mut self, attempt: AttemptId, next: AttemptId) {
        let is_fresh = |host: &Host| host.open && !host.closed && host.steps == 0;
        assert!(is_fresh(&self.hosts[&attempt]) && is_fresh(&self.hosts[&next]), "not fresh");
        let place = self.hosts[&attempt].place;
        assert_ne!(place, self.hosts[&next].place);
        let Some(index) = self.index(place).filter(|index| !self.peers[*index].silent) else {
            return;
        };
        let is_linked = match self.case.forward {
            Hands::Nobody => panic!("nobody can hand anything on"),
            Hands::Everybody => true,
            Hands::Some => self.chance(2) == 0,
        };
        if is_linked {
            self.hosts.get_mut(&attempt).expect("just seen").onward = Some(next);
            self.hosts.get_mut(&next).expect("just seen").fed_by = Some(attempt);
        }
        let refused = (!is_linked).then_some(ErrorCode::TrustDenied);
        let wait = std::mem::take(&mut self.peers[index].delay_next);
        let delay = wait + Duration::from_micros(300 + self.chance(3_000));
        self.after(delay, Some(attempt), Event::Forwarding { attempt, refused });
    }

    /// Steps that may be under way to a host: each host before it in a chain adds a window.
    pub(super) fn room(&self, attempt: AttemptId) -> u64 {
        let mut room = self.case.window as u64;
        let mut at = self.hosts[&attempt].fed_by;
        while let Some(before) = at {
            room += self.case.window as u64;
            at = self.hosts[&before].fed_by;
        }
        room
    }

    pub(super) fn step(
        &mut self,
        attempt: AttemptId,
        given: Given,
        out: &[[u64; HIDDEN as usize]],
    ) {
        let Given { step, position, marks, rows, input, at } = given;
        let count = out.len() as u32;
        let (history, room, chunk) = (self.history, self.room(attempt), self.case.chunk);
        let host = self.hosts.get_mut(&attempt).expect("only what was opened");
        assert_eq!(position + count, host.toy.len, "not at the cache's length");
        assert_eq!((step, marks.0), (host.steps, host.mark));
        assert!(position + count <= history && count <= chunk);
        host.steps += 1;
        host.mark = marks.1;
        host.marks.insert(position, marks.0);
        host.marks.insert(position + count, marks.1);
        assert!(host.steps - host.answered <= room, "more steps under way than allowed");
        if rows == LogitRows::Last {
            assert_eq!(position + count, history, "logits of a known token");
            let last = out.last().expect("a step has a row");
            host.logits = Some((history - 1, toy::token(last)));
        }
        let (place, free_at, dtype) = (host.place, host.free_at, host.dtype);
        let is_head = host.toy.has_head();
        let wait = self.step_time(place, count);
        let at = free_at.max(at) + wait;
        self.hosts.get_mut(&attempt).expect("just used").free_at = at;
        let event = if is_head {
            Event::Logits { attempt, step, position, compute_us: 10, queue_us: 0 }
        } else {
            Event::Output {
                attempt,
                step,
                position,
                count,
                activation: toy::activation(out, dtype),
                compute_us: u32::MAX,
                queue_us: 5,
            }
        };
        self.answer((attempt, marks), place, at, event, input);
    }

    /// A result goes to the next host instead of home.
    pub(super) fn hand_on(
        &mut self,
        from: AttemptId,
        marks: (PrefixHash, PrefixHash),
        at: Instant,
        event: Event,
    ) {
        let Some(next) = self.hosts[&from].onward.filter(|_| !self.hosts[&from].cut) else {
            return;
        };
        let Event::Output { step, position, activation, .. } = event else {
            return self.at(at, Some(from), event);
        };
        let notice = Duration::from_micros(100 + self.chance(2_000));
        let passed = Event::Passed { attempt: from, step, compute_us: 7, queue_us: 5 };
        self.at(at + notice, Some(from), passed);
        let on_the_way = Duration::from_micros(100 + self.chance(1_000));
        let host = self.hosts.get_mut(&next).expect("only what was opened");
        if host.closed || host.dead {
            return;
        }
        let fits =
            position == host.toy.len && step == host.steps && activation.dtype() == host.dtype;
        if !fits || activation.check_finite().is_err() {
            let (code, sentence) = (ErrorCode::CorruptActivation, "no".to_owned());
            return self.at(at, Some(next), Event::Failed { attempt: next, code, sentence });
        }
        let out = host.toy.of_activation(&activation);
        self.outcome.forwarded.push((next.number(), position, out.len() as u32));
        let at = at + on_the_way;
        let (rows, input) = (LogitRows::None, Some(activation));
        self.step(next, Given { step, position, marks, rows, input, at }, &out);
    }

    pub(super) fn step_time(&mut self, place: Place, count: u32) -> Duration {
        let Some(index) = self.index(place) else {
            return Duration::from_micros(100 + self.chance(300));
        };
        let us =
            self.case.peers[index].step_us * u64::from(count) * self.peers[index].slower.max(1);
        let us = us + self.chance(400);
        Duration::from_micros(us) + std::mem::take(&mut self.peers[index].delay_next)
    }

    pub(super) fn answer(
        &mut self,
        (attempt, marks): (AttemptId, (PrefixHash, PrefixHash)),
        place: Place,
        mut at: Instant,
        mut event: Event,
        input: Option<Activation>,
    ) {
        let is_wide = self.hosts[&attempt].dtype == ActivationDtype::F32;
        let is_in_the_middle = self.hosts[&attempt].onward.is_some();
        let is_fed = self.hosts[&attempt].fed_by.is_some();
        if let Some(index) = self.index(place) {
            let state = &mut self.peers[index];
            if state.silent {
                return;
            }
            // Within a chain nobody has both what was sent and what came of it; what looks like
            // rows is judged at its end, by bounds that toy numbers do not have.
            let is_unseen = match state.garbage_next {
                Some(Garbage::Zero) => is_in_the_middle,
                Some(Garbage::Copy) => is_in_the_middle || is_fed,
                _ => false,
            };
            if is_unseen {
                state.garbage_next = Some(Garbage::NotANumber);
            }
            let end = at + std::mem::take(&mut state.trickle_next);
            while at + PIECE < end {
                at += PIECE;
                self.at(at, Some(attempt), Event::Progress { attempt });
            }
            let state = &mut self.peers[index];
            if state.draining && self.case.giving.is_some() {
                // As below, and whoever gives what it remembers says nothing of the step.
                let host = self.hosts.get_mut(&attempt).expect("just used");
                host.crossed_at.get_or_insert(position_of(&event));
                return;
            }
            if state.draining {
                // The goodbye and the step have crossed: it is not computed any more.
                let code = ErrorCode::Draining;
                event = Event::Failed { attempt, code, sentence: "bye".to_owned() };
            } else if std::mem::take(&mut state.overflow_next) && !is_wide {
                let code = ErrorCode::ActivationOverflow;
                event = Event::Failed { attempt, code, sentence: "too large".to_owned() };
            } else if state.lies {
                event = spoil(event, Garbage::Nudged, None);
            } else if let Some(code) = state.error_next.take() {
                event = Event::Failed { attempt, code, sentence: "sorry".to_owned() };
            } else if let Some(garbage) = state.garbage_next.take() {
                event = spoil(event, garbage, input);
            }
        }
        if is_in_the_middle {
            return self.hand_on(attempt, marks, at, event);
        }
        if let Some(later) = self.case.echo {
            self.at(at + later, None, event.clone());
        }
        if let Some(host) = self.hosts.get_mut(&attempt) {
            host.silent_from = host.silent_from.max(at);
        }
        self.at(at, Some(attempt), event);
    }
}

fn position_of(event: &Event) -> u32 {
    match event {
        Event::Output { position, .. } | Event::Logits { position, .. } => *position,
        _ => panic!("no answer: {event:?}"),
    }
}
