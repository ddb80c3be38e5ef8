//! What is asked, and whether the answers are those of an undisturbed device.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nook_api::views::ChatRole;
use nook_base::clock;
use nook_control::{Client, ClientError};
use nook_testkit::{Replying, Told, Wish};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::OnceCell;

use crate::speed::{Pace, Speed};
use crate::witness::Witness;

/// Beginnings of conversations; the second is read in several pieces.
const QUESTIONS: [&str; 5] = [
    "Tell me a story about a lighthouse and a snail that climbs it.",
    LONG,
    "What does a purple vampire eat?",
    "Once upon a time there was a dog who could",
    "Why is the sea blue?",
];

const LONG: &str = "Once there was a girl called Bonny who had a red boat. The boat was small and \
    the lake was big. Every day she rowed to the island in the middle of the lake. On the island \
    lived an old goose. The goose had lost her hat. They looked for it under the trees and between \
    the stones. They asked the frog and the fox and the heron. Nobody had seen a hat. Then it began \
    to rain and they ran into a cave. In the cave stood a box with a lock. The goose had a key on a \
    string around her neck. She had never known what it was for. They opened the box together and \
    looked inside. There was a smaller box in it, and in that box another one. What was in the last \
    box, and who had put it there? Tell me how the story goes on, and how it ends for the goose.";

/// What is said next.
const FOLLOW_UPS: [&str; 2] = ["And then?", "Tell me more about the first one."];

/// Most turns of a conversation.
const TURNS_MAX: usize = 3;

/// Shortest and longest reply, in tokens.
const TOKENS: [u32; 3] = [16, 48, 96];

/// One of so many turns is stopped by whoever asked.
const STOPPED_OF: u32 = 8;

/// A conversation before it is held.
#[derive(Debug, Clone)]
pub(crate) struct Conversation {
    number: u32,
    seat: usize,
    questions: Vec<&'static str>,
    tokens: u32,
    /// After how many tokens of each turn its asker leaves.
    leaves: Vec<Option<usize>>,
}

/// Who is asked, and who knows what should be said.
pub(crate) struct Talk {
    pub(crate) asking: Vec<Client>,
    pub(crate) references: References,
    /// Who answers.
    pub(crate) model: &'static str,
    /// Whether replies of several devices are made once more by their asker alone.
    pub(crate) measures: bool,
    /// What else the machine did meanwhile.
    pub(crate) witness: Witness,
}

/// Undisturbed replies, each made once.
pub(crate) struct References {
    client: Client,
    // Guards a map of cells; never held across an await.
    known: Mutex<HashMap<String, Arc<OnceCell<Told>>>>,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    conversation: u32,
    turn: usize,
    pub(crate) kind: Kind,
    pub(crate) tokens: usize,
    pub(crate) failovers: usize,
    pub(crate) lost: usize,
    pub(crate) resumed: bool,
    pub(crate) pooled: bool,
    /// Where others helped, and it came to its end.
    pub(crate) speed: Option<Speed>,
    /// Who asked, by number; from when to when; and who computed.
    asker: usize,
    during: (Instant, Instant),
    devices: Vec<String>,
}

/// The kinds of endings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Every token as it should be.
    Correct,
    /// Cut, with a code, after tokens that were as they should be.
    Cut(String),
    /// Its asker left, after tokens that were as they should be.
    Stopped,
    /// Something else was said.
    Wrong(String),
    /// It neither went on nor ended, or ended without saying why.
    Stuck(String),
}

impl Conversation {
    /// The conversation `number`, always the same from the same seed.
    pub(crate) fn draw(seed: u64, number: u32, seat: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ u64::from(number).rotate_left(32));
        let turns = random.random_range(1..=TURNS_MAX);
        let mut questions = vec![QUESTIONS[random.random_range(0..QUESTIONS.len())]];
        questions.extend((1..turns).map(|_| FOLLOW_UPS[random.random_range(0..FOLLOW_UPS.len())]));
        let tokens = TOKENS[random.random_range(0..TOKENS.len())];
        let mut leave = |_| {
            let leaves = random.random_ratio(1, STOPPED_OF);
            leaves.then(|| random.random_range(0..tokens as usize))
        };
        let leaves = (0..turns).map(&mut leave).collect();
        Self { number, seat, questions, tokens, leaves }
    }
}

impl Talk {
    /// Holds a conversation; how each of its turns ended. One that was cut ends it.
    pub(crate) async fn hold(&self, conversation: &Conversation) -> Vec<Ending> {
        let mut endings = Vec::new();
        let mut messages: Vec<(ChatRole, String)> = Vec::new();
        let turns = conversation.questions.iter().zip(&conversation.leaves);
        for (turn, (question, leaves)) in turns.enumerate() {
            messages.push((ChatRole::User, (*question).to_owned()));
            let wish = Wish::chat(&messages, conversation.tokens).by(self.model);
            let key = format!("{} {messages:?}", conversation.tokens);
            let asker = conversation.seat % self.asking.len();
            let ending = |kind| Ending::new(conversation.number, turn, asker, kind);
            let expected = match self.references.expected(key, &wish).await {
                Ok(expected) => expected,
                Err(error) => {
                    endings.push(ending(Kind::Stuck(format!("the reference: {error:#}"))));
                    return endings;
                }
            };
            let asking = &self.asking[asker];
            let before = self.witness.look();
            let mut ended =
                answered(asking, &wish, *leaves, &expected, ending(Kind::Correct)).await;
            if let Some(speed) = ended.speed.as_mut().filter(|_| self.measures) {
                speed.meanwhile.together = self.witness.since(&before);
                let before = self.witness.look();
                let alone = alone(asking, &wish, &expected).await;
                speed.meanwhile.alone = self.witness.since(&before);
                match alone {
                    Ok(alone) => speed.alone = alone,
                    Err(why) => ended.kind = why,
                }
            }
            let goes_on = ended.kind == Kind::Correct;
            endings.push(ended);
            if !goes_on {
                break;
            }
            messages.push((ChatRole::Assistant, expected.text));
        }
        endings
    }
}

/// The speed of the same reply by its asker alone, which must say the same; none where it cannot
/// make the reply alone.
async fn alone(asking: &Client, wish: &Wish, expected: &Told) -> Result<Option<Pace>, Kind> {
    let reply = match wish.clone().alone().ask(asking).await {
        Ok(reply) => reply,
        Err(ClientError::Refused(_)) => return Ok(None),
        Err(error) => return Err(Kind::Stuck(format!("alone: {error:#}"))),
    };
    match reply.end().await {
        Ok(told) if told.aborted.is_some() => Ok(None),
        Ok(told) if told.ids == expected.ids => Ok(Pace::of(&told)),
        Ok(_) => Err(Kind::Wrong("other tokens, alone".to_owned())),
        Err(error) => Err(Kind::Stuck(format!("alone: {error:#}"))),
    }
}

/// Asks once, and compares what is said with what should be.
async fn answered(
    asking: &Client,
    wish: &Wish,
    leaves: Option<usize>,
    expected: &Told,
    mut ending: Ending,
) -> Ending {
    ending.during.0 = clock::now();
    let outcome = match wish.ask(asking).await {
        Ok(reply) => followed(reply, leaves).await,
        Err(ClientError::Refused(problem)) => {
            ending.kind = Kind::Cut(problem.code);
            return ending;
        }
        Err(error) => Err(error.into()),
    };
    let (told, stopped) = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            ending.kind = Kind::Stuck(format!("{error:#}"));
            return ending;
        }
    };
    ending.during.1 = clock::now();
    ending.devices = told.devices().into_iter().map(str::to_owned).collect();
    ending.tokens = told.ids.len();
    ending.failovers = told.failovers.len();
    ending.lost = told.lost.len();
    ending.resumed = told.resumed > 0;
    ending.pooled = told.devices().windows(2).any(|pair| pair[0] != pair[1]);
    let is_beginning = expected.ids.starts_with(&told.ids);
    ending.kind = match (&told.aborted, told.finish) {
        _ if told.prompt_ids != expected.prompt_ids => Kind::Wrong("another prompt".to_owned()),
        _ if !is_beginning => Kind::Wrong(format!("other tokens, after {:?}", told.failovers)),
        (Some((code, _)), _) => Kind::Cut(code.clone()),
        (None, Some(finish)) if told.ids == expected.ids => match expected.finish {
            Some(wanted) if wanted == finish && told.text == expected.text => Kind::Correct,
            wanted => Kind::Wrong(format!("ended by {finish:?} instead of {wanted:?}")),
        },
        (None, Some(finish)) => {
            Kind::Wrong(format!("{finish:?} after {} of {}", told.ids.len(), expected.ids.len()))
        }
        (None, None) if stopped => Kind::Stopped,
        (None, None) => Kind::Stuck("it ended without saying why".to_owned()),
    };
    let helped = ending.pooled || told.fell_back || !told.lost.is_empty();
    if helped && ending.kind == Kind::Correct {
        ending.speed = Speed::of(&told);
    }
    ending
}

/// Follows a reply to its end, or until its asker leaves.
async fn followed(mut reply: Replying, leaves: Option<usize>) -> anyhow::Result<(Told, bool)> {
    let Some(tokens) = leaves else { return Ok((reply.end().await?, false)) };
    let stopped = reply.until_or_end(tokens).await?;
    Ok((reply.told().clone(), stopped))
}

impl References {
    /// Replies of the node behind `client`.
    pub(crate) fn of(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    async fn expected(&self, key: String, wish: &Wish) -> anyhow::Result<Told> {
        let cell = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(key).or_default())
        };
        let made = cell.get_or_try_init(|| async {
            wish.clone().alone().ask(&self.client).await?.whole().await
        });
        made.await.cloned()
    }
}

impl Ending {
    fn new(conversation: u32, turn: usize, asker: usize, kind: Kind) -> Self {
        let now = clock::now();
        Self {
            conversation,
            turn,
            kind,
            tokens: 0,
            failovers: 0,
            lost: 0,
            resumed: false,
            pooled: false,
            speed: None,
            asker,
            during: (now, now),
            devices: Vec::new(),
        }
    }

    /// Whether a device that helped with this reply helped another asker meanwhile.
    pub(crate) fn shares_with(&self, other: &Self) -> bool {
        let is_meanwhile = self.during.0 < other.during.1 && other.during.0 < self.during.1;
        let helps = |it: &&String| self.devices.contains(it);
        self.asker != other.asker && is_meanwhile && other.devices.iter().any(|it| helps(&it))
    }

    /// Whether a promise was broken.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self.kind, Kind::Wrong(_) | Kind::Stuck(_))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conversation {}, turn {}: {:?}", self.conversation, self.turn, self.kind)
    }
}
