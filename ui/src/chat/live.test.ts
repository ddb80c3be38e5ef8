/** Promises of `live.svelte.ts`: what a reply in the making shows after which events. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { RouteView } from '../generated/RouteView';
import { LiveReply } from './live.svelte';

const route: RouteView = { legs: [] };
const delta = (text: string, tokens = 1): ReplyEvent => ({ kind: 'token_delta', text, tokens });
const summary = {
  model: 'm',
  finish_reason: 'length' as const,
  prompt_tokens: 3,
  completion_tokens: 4,
  route,
  tokens_per_second: 8,
  first_token_ms: 200,
  resumed_tokens: 0,
  computed_tokens: 6,
  failovers: [],
  total_ms: 900,
  timeline: [],
  predicted: null,
  shared: [],
};

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

it('shows words at most thirty times a second, and all of them', () => {
  const reply = new LiveReply();
  reply.take(delta('Once'));
  expect(reply.text).toBe('');
  reply.take(delta(' upon'));
  vi.advanceTimersByTime(33);
  expect(reply.text).toBe('Once upon');
  reply.take(delta(' a time'));
  reply.take({ kind: 'done', summary });
  expect(reply.text).toBe('Once upon a time');
});

it('counts words for people, not tokens', () => {
  const reply = new LiveReply();
  reply.take(delta('Once upon a time'));
  reply.take({ kind: 'done', summary: { ...summary, completion_tokens: 8 } });
  expect(reply.wordsPerSecond).toBe(4);
  expect(reply.finish).toBe('length');
});

it('shows what is thought apart from the words, and counts all of it as speed', () => {
  const reply = new LiveReply();
  const thought = (text: string, tokens: number, ms: number): ReplyEvent => ({ kind: 'thought_delta', text, tokens, ms });
  expect(reply.phase).toBe('reading');
  reply.take(thought('Hm, ', 1, 40));
  expect(reply.phase).toBe('thinking');
  reply.take(thought('well.', 2, 900));
  reply.take(delta('Yes', 3));
  expect(reply.phase).toBe('writing');
  vi.advanceTimersByTime(33);
  expect(reply.thought).toEqual({ text: 'Hm, well.', ms: 900 });
  expect(reply.text).toBe('Yes');
  reply.take({ kind: 'done', summary: { ...summary, completion_tokens: 3 } });
  expect(reply.wordsPerSecond).toBe(8);
});

it('goes on with a thought that was cut in its middle', () => {
  const reply = new LiveReply({ text: '', thought: { text: 'Hm,', ms: 500 }, way: null, stretches: [] });
  expect(reply.phase).toBe('thinking');
  reply.take({ kind: 'thought_delta', text: ' well.', tokens: 1, ms: 700 });
  reply.take({ kind: 'pipeline_aborted', code: 'cancelled', sentence: 'Stopped.', wording: null });
  expect(reply.thought).toEqual({ text: 'Hm, well.', ms: 700 });
  expect(reply.phase).toBe('cut');
});

it('marks a hand-over at the very place and goes on', () => {
  const reply = new LiveReply();
  reply.take({ kind: 'started', prompt_tokens: 3, route, predicted: null });
  reply.take(delta('Once upon'));
  reply.take({ kind: 'shard_status', device: 'Dad’s PC', status: 'lost' });
  expect(reply.note).toContain('Dad’s PC');
  const failover = { from: 'Dad’s PC', to: 'Mum’s laptop', pause_ms: 310, after_tokens: 2 };
  reply.take({ kind: 'shard_failover', failover, route });
  expect(reply.note).toBeNull();
  expect(reply.marks).toEqual([{ at: 9, text: 'Dad’s PC left; Mum’s laptop carried on (0.3 s)' }]);
});

it('knows how long its first words were to take, until they come', () => {
  vi.setSystemTime(5_000);
  const prediction = { first_token_ms: 9_000, load_ms: 0, tokens_per_second: 7, total_ms: 31_000, measured: true };
  const reply = new LiveReply();
  reply.take({ kind: 'started', prompt_tokens: 3, route, predicted: prediction });
  expect(reply.wait).toEqual({ prediction, since: 5 });
  reply.take(delta('Once'));
  expect(reply.wait).toBeNull();
});

it('names helpers that have other replies to make too, for as long as they have, and all of them in the end', () => {
  const reply = new LiveReply();
  reply.take(delta('Once'));
  reply.take({ kind: 'shard_status', device: 'Dad’s PC', status: 'shared' });
  reply.take({ kind: 'shard_status', device: 'Attic', status: 'shared' });
  reply.take(delta(' upon', 2));
  expect(reply.shared).toEqual(['Dad’s PC', 'Attic']);
  expect(reply.note).toBeNull();
  reply.take({ kind: 'shard_status', device: 'Dad’s PC', status: 'online' });
  expect(reply.shared).toEqual(['Attic']);
  reply.take({ kind: 'done', summary: { ...summary, shared: ['Dad’s PC', 'Attic'] } });
  expect(reply.shared).toEqual(['Dad’s PC', 'Attic']);
});

it('says for whom it waits, and what is lost when that device does not come back', () => {
  const reply = new LiveReply();
  reply.take(delta('Once'));
  reply.take({ kind: 'shard_status', device: 'Dad’s PC', status: 'awaited' });
  expect(reply.note).toBe('Dad’s PC is gone, and nobody can go on without it. The reply waits until it is back…');
  reply.take(delta(' upon', 2));
  expect(reply.note).toBeNull();
  const wording = { kind: 'device_gone' as const, device: 'Dad’s PC' };
  reply.take({ kind: 'pipeline_aborted', code: 'shard_unavailable', sentence: 'In English.', wording });
  expect(reply.cut).toMatch(/^Dad’s PC computed .* press Continue when Dad’s PC is back\.$/);
  expect(reply.text).toBe('Once upon');
});

it('says when this computer goes on alone', () => {
  const reply = new LiveReply();
  reply.take(delta('Once'));
  reply.take({ kind: 'fallback_to_local', route });
  expect(reply.marks).toEqual([{ at: 4, text: 'This computer goes on alone' }]);
});

it('keeps what was shown when it is cut, and takes nothing afterwards', () => {
  const reply = new LiveReply();
  reply.take(delta('Once upon'));
  reply.take({ kind: 'pipeline_aborted', code: 'cancelled', sentence: 'Stopped.', wording: null });
  reply.take(delta(' too late'));
  expect([reply.phase, reply.text, reply.cut]).toEqual(['cut', 'Once upon', 'Stopped.']);
});

const over = (device: string): RouteView => ({
  legs: [{ device_id: device, device, local: false, layers: [0, 7], embedding: true, head: true }],
});

it('writes down which route computed which words', () => {
  const reply = new LiveReply();
  reply.take({ kind: 'started', prompt_tokens: 3, route: over('dad'), predicted: null });
  reply.take(delta('Once 🔥', 2));
  const failover = { from: 'dad', to: 'mum', pause_ms: 310, after_tokens: 2 };
  reply.take({ kind: 'shard_failover', failover, route: over('mum') });
  reply.take(delta(' upon', 3));
  expect(reply.stretches).toEqual([
    { at: 0, after_tokens: 0, route: over('dad') },
    { at: 7, after_tokens: 2, route: over('mum') },
  ]);
});

it('goes on with the stretches, hand-overs and tokens that a cut reply had', () => {
  const failovers = [{ from: 'dad', to: 'mum', pause_ms: 310, after_tokens: 4 }];
  const begun = {
    text: 'Once upon',
    thought: null,
    way: { route: over('mum'), failovers, completion_tokens: 9 },
    stretches: [{ at: 0, after_tokens: 0, route: over('dad') }, { at: 5, after_tokens: 4, route: over('mum') }],
  };
  const reply = new LiveReply(begun);
  expect(reply.marks.map((mark) => mark.at)).toEqual([5]);
  reply.take({ kind: 'started', prompt_tokens: 3, route: over('me'), predicted: null });
  reply.take(delta(' a time', 2));
  reply.take({ kind: 'pipeline_aborted', code: 'cancelled', sentence: 'Stopped.', wording: null });
  expect(reply.stretches.map((one) => [one.at, one.after_tokens])).toEqual([[0, 0], [5, 4], [9, 9]]);
  expect(reply.path).toEqual({ route: over('me'), failovers, completion_tokens: 11 });
});
