/** Promises of what is said until the first words come. */
import { expect, it } from 'vitest';
import { waitWords } from './wait';

const SLOW = { first_token_ms: 40_000, load_ms: 10_000, tokens_per_second: 7, total_ms: 71_000, measured: true };
const at = (passed: number, prediction = SLOW) => waitWords({ prediction, since: 100 }, 'Qwen3 8B', 100 + passed);

it('says nothing of how long it takes where nobody knows, or where it is short', () => {
  expect(waitWords(null, 'Qwen3 8B', 100)).toBeNull();
  expect(at(0, { ...SLOW, first_token_ms: 4_900, load_ms: 0 })).toBeNull();
});

it('tells the loading of the model first, and then the reading', () => {
  expect(at(0)).toEqual({ words: 'Getting Qwen3 8B ready: 0 of about 10 seconds', part: 0 });
  expect(at(8)).toEqual({ words: 'Getting Qwen3 8B ready: 8 of about 10 seconds', part: 0.8 });
  expect(at(10)).toEqual({ words: 'Reading: 30 seconds left', part: 0 });
  expect(at(25)).toEqual({ words: 'Reading: 15 seconds left', part: 0.5 });
  expect(at(39.9)?.words).toBe('Reading: 1 second left');
});

it('counts a short loading as reading', () => {
  expect(at(1, { ...SLOW, load_ms: 1_900 })).toEqual({ words: 'Reading: 39 seconds left', part: 1 / 40 });
});

it('says so when it takes longer, and shows no end then', () => {
  expect(at(40)).toEqual({ words: 'Reading: it takes longer than expected', part: null });
  expect(at(4_000)?.part).toBeNull();
});

it('is no earlier than its beginning where the clock was set back', () => {
  expect(at(-50)?.words).toContain('0 of about 10');
});
