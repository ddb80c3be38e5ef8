//! Passes a program's output on and remembers how it ended.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::say::{self, Voice};

/// As many lines as hold the failures that a test program lists at its end.
const LINES_MAX: usize = 60;

/// What the program started itself may hold the pipe for longer than the program lived.
const WAIT_FOR_REST: Duration = Duration::from_secs(2);

/// The last lines of a program that runs.
#[derive(Debug)]
pub(super) struct LastLines {
    lines: Arc<Mutex<VecDeque<String>>>,
    ended: Receiver<()>,
}

impl LastLines {
    /// Passes what comes from `pipe` on to standard output, line by line.
    pub(super) fn of(pipe: PipeReader) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let (end, ended) = sync_channel(1);
        let kept = Arc::clone(&lines);
        let voice = Voice::here();
        std::thread::spawn(move || {
            voice.take();
            for line in BufReader::new(pipe).split(b'\n') {
                let Ok(line) = line else { break };
                let line = String::from_utf8_lossy(&line).into_owned();
                say::line(&line);
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == LINES_MAX {
                    kept.pop_front();
                }
                kept.push_back(line);
            }
            // Whoever waits may have given up.
            let _ = end.send(());
        });
        Self { lines, ended }
    }

    /// The lines, once the program has ended.
    pub(super) fn take(self) -> Vec<String> {
        // What comes later is still passed on, and belongs to no failure.
        let _ = self.ended.recv_timeout(WAIT_FOR_REST);
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
