/** The past of the fake household: how its old replies were made, and a chat as long as somebody wants it. */
import type { HouseholdView } from '../../generated/HouseholdView';
import type { MessageView } from '../../generated/MessageView';
import type { PastReplyView } from '../../generated/PastReplyView';
import type { PipelineView } from '../../generated/PipelineView';
import type { ReplySummary } from '../../generated/ReplySummary';
import type { StretchView } from '../../generated/StretchView';
import { DAD, MUM, PREDICTED, routeOf, timelineOf } from './household';
import { CODE, FRACTIONS, LEAVES, type OldMessage, STORY } from './replies';

/** The title of the long chat. */
export const LONG_TITLE = 'Everything that we ever asked';
/** It is older than all others. */
const LONG_HOURS = 24 * 60;

/** One chat of so many messages, replies of every kind among them; none where that is 0. Each says its number. */
export function longPast(count: number): [number, string, OldMessage[]][] {
  if (count === 0) return [];
  const replies = [LEAVES, CODE, STORY, FRACTIONS];
  const messages = Array.from({ length: count }, (_, at): OldMessage => at % 2 === 0
    ? { role: 'user', text: `Question ${String(at / 2 + 1)}: what about the leaves?` }
    : { role: 'assistant', text: `Answer ${String((at + 1) / 2)}.\n\n${replies[((at - 1) / 2) % replies.length] ?? STORY}` });
  return [[LONG_HOURS, LONG_TITLE, messages]];
}

/** A reply of the past. One that was handed over knows who computed which words; the others are from before
 *  that was written down, so their summaries have to tell. */
export function recall(house: HouseholdView, reply: MessageView, handedOver: boolean): void {
  const tokens = reply.text.match(/\s*\S{1,6}/g) ?? [];
  const route = routeOf(house, false);
  const after_tokens = Math.floor(tokens.length * 0.7);
  const without = { ...house, devices: house.devices.filter((d) => d.id !== DAD) };
  const last = handedOver ? routeOf(without, false) : route;
  const begun = { at: 0, after_tokens: 0, route };
  const at = tokens.slice(0, after_tokens).join('').length;
  const stretches = handedOver ? [begun, { at, after_tokens, route: last }] : [begun];
  reply.summary = pastSummary(house, tokens.length, stretches);
  if (handedOver) reply.stretches = stretches;
}

function pastSummary(house: HouseholdView, tokens: number, stretches: readonly StretchView[]): ReplySummary {
  const last = stretches.at(-1);
  const handedOverAfter = stretches.length > 1 ? last?.after_tokens ?? 0 : null;
  const from = house.devices.find((d) => d.id === DAD)?.name ?? '';
  const to = house.devices.find((d) => d.id === MUM)?.name ?? '';
  return {
    model: 'Qwen2.5 7B',
    finish_reason: 'stop',
    prompt_tokens: 24,
    completion_tokens: tokens,
    route: last?.route ?? { legs: [] },
    tokens_per_second: 19,
    first_token_ms: 412,
    resumed_tokens: 0,
    computed_tokens: 24 + tokens,
    total_ms: 412 + (tokens * 1000) / 19,
    timeline: timelineOf(stretches, 24, tokens),
    predicted: PREDICTED,
    shared: [],
    failovers: handedOverAfter === null ? [] : [{ from, to, pause_ms: 310, after_tokens: handedOverAfter }],
  };
}

/** What happened to the last replies of this device: one was handed over, one waited in vain, the others went well. */
export function pastReplies(house: HouseholdView): PastReplyView[] {
  const now = Math.floor(Date.now() / 1000);
  const [dad, mum] = [DAD, MUM].map((id) => house.devices.find((d) => d.id === id)?.name ?? '');
  const route = routeOf(house, false);
  const without = routeOf({ ...house, devices: house.devices.filter((d) => d.id !== DAD) }, false);
  const failover = { from: dad ?? '', to: mum ?? '', pause_ms: 310, after_tokens: 96 };
  const done = { kind: 'done' as const, tokens: 137, speed: { first_token_ms: 412, tokens_per_second: 19 } };
  const reply = (minutes: number, values: Partial<PastReplyView>): PastReplyView =>
    ({ began: now - minutes * 60, model: 'Qwen2.5 7B', prompt_tokens: 24, route, happened: [], end: done, ...values });
  return [
    reply(2, { happened: [{ kind: 'lost', device: dad ?? '' }, { kind: 'took_over', failover, route: without }] }),
    reply(9, { model: 'ember', route: routeOf(house, true) }),
    reply(31, { happened: [{ kind: 'awaited', device: mum ?? '' }], end: { kind: 'aborted', code: 'pipeline_stalled' } }),
    reply(44, { end: { kind: 'stopped' } }),
    ...[62, 75, 190].map((minutes) => reply(minutes, {})),
  ];
}

/** How the last reply was divided, and the one that is made while the house answers. */
export function pipelineOf(house: HouseholdView): PipelineView {
  const route = routeOf(house, false);
  const isShared = route.legs.some((leg) => !leg.local);
  const { alone, together } = PREDICTED;
  const running: PastReplyView = { began: Math.floor(Date.now() / 1000), model: 'Qwen2.5 7B', prompt_tokens: 24, route, happened: [], end: { kind: 'under_way' } };
  return {
    pooling: 'when_faster',
    last: {
      model: 'Qwen2.5 7B', prompt_tokens: 24, because: 'It is faster together.', route, topology: 'a boomerang', alone,
      alone_impossible: null, pooled: together && isShared ? { route, prediction: together } : null, whole: null, left_out: [], by_cable: null,
      went: house.sharing.answering ? null : { first_token_ms: 412, tokens_per_second: isShared ? 19 : 7 },
    },
    measured: [],
    placement: null,
    gains: [
      { device_id: DAD, device: 'Dad’s PC', model: 'Qwen2.5 7B', with_it: 20, without_it: 9.1, measured: true },
      { device_id: '0lddellx5n2kq7rw', device: 'Old Dell', model: 'Qwen2.5 7B', with_it: 12.3, without_it: 20, measured: false },
    ],
    past: [...(house.sharing.answering ? [running] : []), ...pastReplies(house)],
  };
}
