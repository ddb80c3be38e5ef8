/** Promises of `words.ts`: what people read of fits and downloads. */
import { expect, it } from 'vitest';
import type { DownloadView } from '../../generated/DownloadView';
import { fitWords, partWords, percent, stateWords } from './words';

const loading: DownloadView = { key: 'k', name: 'qwen3-4b', origin: 'Qwen/Qwen3-4B-GGUF', copied: false, file: 'f.gguf', state: 'loading',
  have_bytes: 1.2e9, file_bytes: 4.8e9, bytes_per_second: 12e6, seconds_left: 300, problem: null };

it('says where a model fits', () => {
  expect(fitWords({ kind: 'here', devices: [], tokens_per_second: null })).toBe('Fits on this computer.');
  expect(fitWords({ kind: 'with', devices: ['Dad’s PC', 'Attic'], tokens_per_second: null })).toBe('Works together with Dad’s PC and Attic.');
  expect(fitWords({ kind: 'here', devices: [], tokens_per_second: 16 })).toBe('Fits on this computer. About 12 words/s.');
  expect(fitWords({ kind: 'with', devices: ['Attic'], tokens_per_second: 5.2 })).toBe('Works together with Attic. About 3.9 words/s.');
  expect(fitWords({ kind: 'nowhere', devices: [], tokens_per_second: null })).toContain('Needs more memory');
});

it.each([
  [{}, '12 MB a second, 5 minutes left'],
  [{ seconds_left: 42 }, '12 MB a second, 42 seconds left'],
  [{ seconds_left: 59.9 }, '12 MB a second, 1 minute left'],
  [{ seconds_left: 3599 }, '12 MB a second, 1 hour left'],
  [{ seconds_left: 9000 }, '12 MB a second, 2.5 hours left'],
  [{ seconds_left: null }, '12 MB a second'],
  [{ bytes_per_second: null }, 'Loading'],
  [{ state: 'paused' as const }, 'Paused'],
  [{ state: 'cancelled' as const }, 'Cancelled; what came is kept'],
])('a download %j', (change, words) => {
  expect(stateWords({ ...loading, ...change })).toBe(words);
});

it('says how much is here, also while nobody knows how much there is', () => {
  expect([partWords(loading), percent(loading)]).toEqual(['1.2 GB of 4.8 GB', 25]);
  const unknown = { ...loading, file_bytes: null };
  expect([partWords(unknown), percent(unknown)]).toEqual(['1.2 GB', null]);
  expect(percent({ ...loading, have_bytes: 5e9 })).toBe(100);
});
