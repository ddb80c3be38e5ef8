/** Promises of `face.ts`: both predictions of a reply in words, as far as they are known. */
import { expect, it } from 'vitest';
import type { PredictionView } from '../generated/PredictionView';
import type { ReplySummary } from '../generated/ReplySummary';
import type { RouteView } from '../generated/RouteView';
import { aloneSpeed, helpersOf, leftOf, predictedText } from './face';

const at = (tokens_per_second: number): PredictionView =>
  ({ first_token_ms: 1, load_ms: 0, tokens_per_second, total_ms: 1, measured: true });

function summaryOf(predicted: ReplySummary['predicted'], tokens = 8): ReplySummary {
  return {
    model: 'm', finish_reason: 'stop', prompt_tokens: 1, completion_tokens: tokens, route: { legs: [] }, tokens_per_second: 1,
    first_token_ms: 1, resumed_tokens: 0, computed_tokens: 0, failovers: [], total_ms: 1, timeline: [], predicted, shared: [],
  };
}

// Four words of eight tokens: half as many words as tokens a second.
function said(predicted: ReplySummary['predicted'], tokens?: number): string {
  return predictedText(summaryOf(predicted, tokens), 'one two three four');
}

it('knows how fast this computer alone would have been', () => {
  expect(aloneSpeed(summaryOf({ alone: at(6), together: at(40) }), 'one two three four')).toBe(3);
  expect(aloneSpeed(summaryOf({ alone: null, together: at(40) }), 'one two three four')).toBeNull();
  expect(aloneSpeed(summaryOf(null), 'one two three four')).toBeNull();
  expect(aloneSpeed(summaryOf({ alone: at(6), together: null }, 1), 'one two three four')).toBeNull();
});

it('says both speeds that were predicted, in words', () => {
  expect(said({ alone: at(6), together: at(40) })).toBe('Predicted beforehand: 20 words/s together, 3.0 words/s on this computer alone.');
  expect(said({ alone: null, together: at(40) })).toContain('cannot hold the model alone');
  expect(said({ alone: at(6), together: null })).toContain('No other computer could help');
});

it('says nothing where nothing was predicted, or nothing can be counted', () => {
  expect(said(null)).toBe('');
  expect(said({ alone: at(6), together: null }, 1)).toBe('');
});

const route = (...names: string[]): RouteView => ({ legs: names.map((name) =>
  ({ device_id: name, device: name, local: name === 'me', layers: [0, 1], embedding: false, head: false })) });

it('names every helper once: who left it first, then in the order of the route', () => {
  const before = [{ at: 0, after_tokens: 0, route: route('me', 'dad', 'attic', 'me') }];
  expect(helpersOf({ route: route('me', 'mum', 'attic', 'me'), stretches: before })).toEqual(['dad', 'mum', 'attic']);
  expect(helpersOf({ route: route('me'), stretches: [] })).toEqual([]);
  expect(helpersOf({ route: null, stretches: [] })).toEqual([]);
});

it('knows who took part before the route that a reply ended with, each once', () => {
  const stretches = [route('me', 'dad', 'me'), route('me', 'attic', 'dad'), route('me', 'mum')]
    .map((one, at) => ({ at, after_tokens: at, route: one }));
  expect(leftOf({ route: route('me', 'mum'), stretches }).map((leg) => leg.device_id)).toEqual(['dad', 'attic']);
  expect(leftOf({ route: route('me', 'dad'), stretches: stretches.slice(0, 1) })).toEqual([]);
  expect(leftOf({ route: route('me'), stretches: [] })).toEqual([]);
});
