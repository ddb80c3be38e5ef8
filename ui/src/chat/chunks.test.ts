/** Promises of `chunks.ts`: every message is in one chunk, in order, and a chunk knows about how tall it is. */
import { expect, it } from 'vitest';
import type { MessageView } from '../generated/MessageView';
import { ALWAYS_MOUNTED, CHUNK_MESSAGES, chunksOf, guessedHeight, wordsOf } from './chunks';
import type { Step } from './tree';

function steps(count: number, text = 'words'): Step[] {
  return Array.from({ length: count }, (_, id) => {
    const message: MessageView = { id, parent: null, role: id % 2 === 0 ? 'user' : 'assistant', text, thought: null, created: 0, finish: 'complete', reworded: false, summary: null, path: null, stretches: [], cut_because: null, cut_code: null };
    return { message, siblings: [id], index: 0 };
  });
}

it('holds every message once, in order, and grows at the end only', () => {
  for (const count of [0, 1, CHUNK_MESSAGES, 4 * CHUNK_MESSAGES + 1]) {
    const chunks = chunksOf(steps(count));
    expect(chunks.flatMap((chunk) => chunk.steps.map((step) => step.message.id))).toEqual(steps(count).map((step) => step.message.id));
    expect(chunks.map((chunk) => chunk.key)).toEqual(chunks.map((_, place) => place));
    expect(chunks.filter((chunk) => chunk.last)).toEqual(chunks.slice(-ALWAYS_MOUNTED));
  }
});

it('guesses more height for more words, and none for nothing', () => {
  const [short, long] = ['words', 'words '.repeat(500)].map((text) => guessedHeight({ key: 0, steps: steps(2, text), last: false }));
  expect(long).toBeGreaterThan(short ?? Infinity);
  expect(short).toBeGreaterThan(0);
  expect(guessedHeight({ key: 0, steps: [], last: false })).toBe(0);
});

it('has all words for a search, but not all of a very long text', () => {
  const words = wordsOf({ key: 0, steps: [...steps(1, 'a leaf'), ...steps(1, 'x'.repeat(1_000_000))], last: false });
  expect(words).toContain('a leaf');
  expect(words.length).toBeLessThan(100_000);
});
