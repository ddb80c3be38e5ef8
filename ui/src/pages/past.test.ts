/** Promises of `past.ts`: who took part, what happened and how it ended, in words. */
import { expect, it } from 'vitest';
import type { RouteView } from '../generated/RouteView';
import { endedWords, happenedWords, helpersOf } from './past';

const route = (...names: string[]): RouteView => ({ legs: names.map((name) =>
  ({ device_id: name, device: name, local: name === 'me', layers: [0, 1], embedding: false, head: false })) });
const failover = { from: 'Dad’s PC', to: 'Mum’s laptop', pause_ms: 310, after_tokens: 1200 };

it('names everybody who took part, also who left', () => {
  expect(helpersOf({ route: route('me', 'Dad’s PC', 'me'), happened: [
    { kind: 'lost', device: 'Dad’s PC' },
    { kind: 'took_over', failover, route: route('me', 'Mum’s laptop', 'me') },
  ] })).toBe('This computer, Dad’s PC and Mum’s laptop');
  expect(helpersOf({ route: route('me'), happened: [] })).toBe('This computer');
});

it('says what happened', () => {
  expect(happenedWords({ kind: 'lost', device: 'Dad’s PC' })).toBe('Dad’s PC was lost.');
  expect(happenedWords({ kind: 'awaited', device: 'Attic' })).toBe('It waited for Attic.');
  expect(happenedWords({ kind: 'took_over', failover, route: route('me') })).toBe('Mum’s laptop took over from Dad’s PC after 1,200 tokens, in 0.3 s.');
  expect(happenedWords({ kind: 'took_over_here', route: route('me') })).toBe('This computer took over.');
});

it('says how it ended', () => {
  expect(endedWords({ kind: 'under_way' })).toBe('Being made now.');
  expect(endedWords({ kind: 'done', tokens: 240, speed: { first_token_ms: 412, tokens_per_second: 19 } })).toBe('240 tokens, 19 tokens/s, the first one after 0.4 s.');
  expect(endedWords({ kind: 'aborted', code: 'pipeline_stalled' })).toBe('Ended early (pipeline_stalled).');
  expect(endedWords({ kind: 'stopped' })).toBe('Stopped by whoever asked.');
});
