//! A toy model whose every output depends on every input before it, exactly.
//!
//! Numbers are integers between 1 and 127 times 1, 2, 4 or 8, the same for a whole row, and the
//! last one of each row is the largest, so f16, f32 and q8 (whose scale is then exactly that
//! factor) all hold them, and a split run can be compared bit for bit. A lost, doubled, swapped or
//! shifted position changes all that follows.

use nook_base::{Activation, ActivationDtype, ModelPart};

pub(crate) const HIDDEN: u32 = 5;
const MODULUS: u64 = 1021;
/// The largest number of a row before its factor, and always its last.
const LARGEST: u64 = 127;
/// Numbers of a row that say something.
const SAYING: usize = HIDDEN as usize - 1;

type Row = [u64; HIDDEN as usize];

/// One holder's layers with their memory (what a KV cache is to a real model).
#[derive(Clone)]
pub(crate) struct Toy {
    part: ModelPart,
    pub(crate) len: u32,
    memory: Vec<u64>,
    /// The memory before each position, to go back to.
    past: Vec<Vec<u64>>,
}

impl Toy {
    pub(crate) fn new(part: ModelPart) -> Self {
        let memory = vec![7; part.layers.len() as usize];
        Self { part, len: 0, memory, past: Vec::new() }
    }

    pub(crate) fn part(&self) -> ModelPart {
        self.part
    }

    /// Forgets every position but the first `len`.
    pub(crate) fn truncate(&mut self, len: u32) {
        if let Some(memory) = self.past.get(len as usize) {
            self.memory.clone_from(memory);
        }
        self.past.truncate(len as usize);
        self.len = len;
    }

    pub(crate) fn has_head(&self) -> bool {
        self.part.head
    }

    pub(crate) fn of_tokens(&mut self, ids: &[u32]) -> Vec<Row> {
        assert!(self.part.embedding, "token ids went to inner layers");
        let rows = ids.iter().map(|id| {
            let id = u64::from(*id);
            row_of(|h| id * 31 + h as u64 * 101)
        });
        let rows: Vec<Row> = rows.collect();
        self.forward(rows)
    }

    pub(crate) fn of_activation(&mut self, input: &Activation) -> Vec<Row> {
        assert!(!self.part.embedding, "activations went to the embedding");
        let numbers = input.to_f32();
        let rows =
            numbers.chunks_exact(HIDDEN as usize).map(|row| std::array::from_fn(|h| row[h] as u64));
        let rows = rows.collect();
        self.forward(rows)
    }

    fn forward(&mut self, mut rows: Vec<Row>) -> Vec<Row> {
        for row in &mut rows {
            self.past.push(self.memory.clone());
            for (layer, memory) in self.part.layers.iter().zip(&mut self.memory) {
                let x = *row;
                let position = u64::from(self.len);
                *row = row_of(|h| {
                    let next = x[(h + 1) % SAYING];
                    let mix = x[h] * 31 + next * 17 + *memory * 13 + position * 5;
                    mix + u64::from(layer) * 3 + h as u64 * 11
                });
                let sum: u64 = x.iter().zip(1..).map(|(x, factor)| x * factor).sum();
                *memory = (*memory * 29 + sum + 1) % MODULUS;
            }
            self.len += 1;
        }
        rows
    }
}

fn row_of(number: impl Fn(usize) -> u64) -> Row {
    let factor = 1 << (number(SAYING) % 4);
    let number = |h| if h < SAYING { number(h) % LARGEST + 1 } else { LARGEST };
    std::array::from_fn(|h| number(h) * factor)
}

pub(crate) fn activation(rows: &[Row], dtype: ActivationDtype) -> Activation {
    let numbers: Vec<f32> = rows.iter().flatten().map(|x| *x as f32).collect();
    Activation::from_f32(&numbers, HIDDEN, dtype).expect("toy numbers are small and rows are full")
}

/// The head and the greedy sampler in one.
pub(crate) fn token(row: &Row) -> u32 {
    let sum: u64 = row.iter().zip([1, 31, 127, 211]).map(|(x, f)| x * f).sum();
    (sum % 997) as u32
}

/// The undisturbed, undivided reply.
pub(crate) fn reply(layers: u32, prompt: &[u32], tokens: usize) -> Vec<u32> {
    let mut model = Toy::new(ModelPart::whole(layers));
    let mut next = prompt.to_vec();
    let mut reply = Vec::new();
    while reply.len() < tokens {
        let rows = model.of_tokens(&next);
        let last = rows.last().expect("the prompt is not empty");
        next = vec![token(last)];
        reply.push(next[0]);
    }
    reply
}
