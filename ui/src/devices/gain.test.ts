/** Promises of `gain.ts`: what a household brings is said against alone, predicted or measured, and never made up. */
import { expect, it } from 'vitest';
import { pipelineOf } from '../backend/fake/past';
import { startingHouse } from '../backend/fake/household';
import type { DecisionView } from '../generated/DecisionView';
import type { PipelineView } from '../generated/PipelineView';
import { type Gain, gainOf } from './gain';

const HOUSE = startingHouse();

function last(values: Partial<DecisionView>): PipelineView {
  const pipeline = pipelineOf(HOUSE);
  return { ...pipeline, last: pipeline.last && { ...pipeline.last, went: null, ...values } };
}

/** The line below the headline, as it is read. */
const said = ({ line }: Gain) => line.map(({ label, text }) => `${label} ${text}`.trim());
const at = (tokens_per_second: number) => ({ first_token_ms: 400, load_ms: 0, tokens_per_second, total_ms: 9000, measured: true });
const route = pipelineOf(HOUSE).last?.route ?? { legs: [] };

it('is a number of times, with both speeds in words', () => {
  const gain = gainOf(last({ alone: at(4), pooled: { route, prediction: at(18.4) } }), HOUSE, 2);
  expect(gain.headline).toBe('Together, 4.6 times as fast');
  expect(said(gain)).toEqual(['Together: models up to Qwen3 8B, about 14 words/s.', 'This laptop alone: up to Qwen3 4B, 3.0 words/s.']);
  expect(gain.how).toBe('Both are predicted, for the last reply of Qwen2.5 7B.');
});

it('is measured once the reply has ended, on the way that it took', () => {
  const together = gainOf(last({ alone: at(4), pooled: { route, prediction: at(12) }, went: { first_token_ms: 1, tokens_per_second: 20 } }), HOUSE, 2);
  expect(together.headline).toBe('Together, 5.0 times as fast');
  expect(together.how).toContain('Together is measured');
  const here = { legs: route.legs.filter((leg) => leg.local) };
  const alone = gainOf(last({ route: here, alone: at(4), pooled: { route, prediction: at(3) }, went: { first_token_ms: 1, tokens_per_second: 8 } }), HOUSE, 2);
  expect(alone.headline).toBe('This laptop alone is faster');
  expect(said(alone).join(' ')).toMatch(/Together: .*about 2\.3 words\/s\. This laptop alone: .*, 6\.0 words\/s\.$/);
  expect(alone.how).toContain('Alone is measured');
});

it('says that alone is as fast, or cannot be, in the same place', () => {
  expect(gainOf(last({ alone: at(10), pooled: { route, prediction: at(10.4) } }), HOUSE, 2).headline).toBe('Together, about as fast as alone');
  const only = gainOf(last({ alone: null, pooled: { route, prediction: at(8) } }), HOUSE, 2);
  expect(only.headline).toBe('Together, a model that is too large for one');
  expect(said(only)[1]).toBe('This laptop alone: up to Qwen3 4B, too small for Qwen2.5 7B.');
});

it('has no number where nothing is known', () => {
  for (const pipeline of [null, { ...pipelineOf(HOUSE), last: null }, last({ pooled: null, route: { legs: [] } })]) {
    const gain = gainOf(pipeline, HOUSE, 1);
    expect(gain.headline).toBe('One other computer can help');
    expect(said(gain).join(' ')).not.toContain('words/s');
    expect(gain.how).toBe('');
  }
  expect(said(gainOf(null, { ...HOUSE, devices: [] }, 0))).toEqual(['Add another to run bigger models, and faster.']);
  expect(gainOf(last({}), HOUSE, 0).headline).toBe('Only this computer so far');
});

it('calls this computer by its kind where that is known, and leaves models out that are the largest on both', () => {
  const nameless = { ...HOUSE, me: { ...HOUSE.me, facts: { ...HOUSE.me.facts, kind: null } }, catalogue: [] };
  const gain = gainOf(last({ alone: at(4), pooled: { route, prediction: at(18.4) } }), nameless, 2);
  expect(said(gain)).toEqual(['Together: about 14 words/s.', 'This computer alone: 3.0 words/s.']);
});

it('takes the whole reply elsewhere where that is faster', () => {
  const whole = { route, prediction: at(40) };
  expect(gainOf(last({ alone: at(4), pooled: { route, prediction: at(12) }, whole }), HOUSE, 2).headline).toBe('Together, 10 times as fast');
});
