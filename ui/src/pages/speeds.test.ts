/** Promises of the speeds beside a model: measured before predicted, each once, and none that is made up. */
import { expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { pipelineOf } from '../backend/fake/past';
import { speedLines } from './speeds';

const MODEL = 'Qwen2.5 7B';
const { house } = new FakeBackend({ tokenMs: 0 });

it('says what was measured with others, and what is predicted alone', () => {
  expect(speedLines(pipelineOf(house), MODEL)).toEqual(['about 5.3 words/s here', '14 words/s with Dad’s PC and Mum’s laptop']);
  expect(speedLines(pipelineOf(house), 'ember')).toEqual(['14 words/s here']);
});

it('takes what was predicted where nothing was measured, and the newest measure first', () => {
  const pipeline = pipelineOf(house);
  expect(speedLines({ ...pipeline, past: [] }, MODEL)).toEqual(['about 5.3 words/s here', 'about 15 words/s with Dad’s PC and Mum’s laptop']);
  const [, alone] = pipeline.past;
  if (alone?.end.kind !== 'done') throw new Error('the second reply was made here');
  const faster = { ...alone, model: MODEL, end: { ...alone.end, speed: { ...alone.end.speed, tokens_per_second: 8 } } };
  expect(speedLines({ ...pipeline, past: [faster, { ...alone, model: MODEL }] }, MODEL)[0]).toBe('6.0 words/s here');
});

it('counts no reply in which somebody was lost, and says nothing of what nobody knows', () => {
  const pipeline = pipelineOf(house);
  const [lost] = pipeline.past;
  if (lost === undefined) throw new Error('the household has a past');
  expect(lost.happened.length).toBeGreaterThan(0);
  expect(speedLines({ ...pipeline, last: null, past: [lost] }, MODEL)).toEqual([]);
  expect(speedLines(pipeline, 'another')).toEqual([]);
  expect(speedLines(null, MODEL)).toEqual([]);
});
