/** Promises of `context.ts`: the meter counts what was counted, and estimates the rest. */
import { expect, it } from 'vitest';
import type { MessageView } from '../generated/MessageView';
import { charactersPerToken, meter as meterOf, takenBy } from './context';
import type { Step } from './tree';

function step(text: string, tokens: [prompt: number, reply: number] | null): Step {
  const summary = tokens === null ? null : {
    model: 'm', finish_reason: 'stop' as const, prompt_tokens: tokens[0], completion_tokens: tokens[1], route: { legs: [] },
    tokens_per_second: 1, first_token_ms: 1, resumed_tokens: 0, computed_tokens: 0, failovers: [], total_ms: 1, timeline: [], predicted: null, shared: [],
  };
  const message: MessageView = { id: 1, parent: null, role: 'assistant', text, thought: null, created: 0, finish: 'complete', reworded: false, summary, path: null, stretches: [], cut_because: null, cut_code: null };
  return { message, siblings: [1], index: 0 };
}

const meter = (steps: Step[], typed: string, window: number) => meterOf(takenBy(steps), typed, window);

it('takes the last count and estimates what came later and what is typed', () => {
  const steps = [step('x'.repeat(200), [50, 50]), step('x'.repeat(40), null)];
  expect(charactersPerToken(steps)).toBe(4);
  expect(meter(steps, 'x'.repeat(80), 1000)).toEqual({ used: 130, window: 1000, percent: 13, level: 'room', tooLong: false });
});

it('estimates everything while nothing was counted', () => {
  expect(meter([], 'x'.repeat(300), 1000).used).toBe(100);
  expect(meter([], '', 1000)).toMatchObject({ used: 0, percent: 0 });
});

it('says when the room ends', () => {
  expect(meter([step('', [700, 150])], '', 1000).level).toBe('near');
  expect(meter([step('', [700, 300])], 'typed', 1000).level).toBe('over');
  expect(meter([], 'typed', 0).level).toBe('room');
});

it('calls too long only what cannot fit however the model cuts words into tokens', () => {
  expect(meter([], 'x'.repeat(3500), 1000)).toMatchObject({ level: 'over', tooLong: false });
  expect(meter([], 'x'.repeat(6500), 1000)).toMatchObject({ level: 'over', tooLong: true });
  // What was counted leaves no doubt.
  expect(meter([step('', [1000, 20])], '', 1000).tooLong).toBe(true);
  expect(meter([], 'x'.repeat(6500), 0).tooLong).toBe(false);
});
