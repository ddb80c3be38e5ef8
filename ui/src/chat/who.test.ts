/** Promises of who helped: shares of the work, words of each computer, and nothing that nobody wrote down. */
import { render, screen, within } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import axe from 'axe-core';
import { expect, it, vi } from 'vitest';
import { startingHouse } from '../backend/fake/household';
import type { LegView } from '../generated/LegView';
import type { PartView } from '../generated/PartView';
import type { ReplySummary } from '../generated/ReplySummary';
import type { ReplyFace } from './face';
import { duration, computerRows, leadOf, timeOf, withHues } from './who';
import WhoHelped from './WhoHelped.svelte';

const house = startingHouse();
const [dad, mum] = house.devices;
const PEERS = house.devices.map(({ id }) => id);

function leg(who: 'me' | 'dad' | 'mum', layers: [number, number], ends = false): LegView {
  const device = { me: { id: 'me', name: 'Mia’s laptop' }, dad, mum }[who];
  return { device_id: device?.id ?? '', device: device?.name ?? '', local: who === 'me', layers, embedding: ends, head: ends };
}

const BOTH = { legs: [leg('me', [0, 0], true), leg('dad', [1, 20]), leg('mum', [21, 26]), leg('me', [27, 27], true)] };
const MUM = { legs: [leg('me', [0, 0], true), leg('mum', [1, 26]), leg('me', [27, 27], true)] };
const ALONE = { legs: [leg('me', [0, 27], true)] };

/** What a leg did for so many positions of a prompt and of a reply. */
function part(of: LegView, prompt: number, reply: number): PartView {
  const work = (positions: number) => ({ steps: 1, positions, compute_ms: 1, queue_ms: 0, network_ms: 0 });
  const { device_id, device, local, layers } = of;
  return { device_id, device, local, layers, first_token: 1, last_token: reply, prompt: work(prompt), reply: work(reply), bytes_out: 0, bytes_in: 0 };
}

function summary(values: Partial<ReplySummary>): ReplySummary {
  return {
    model: 'm', finish_reason: 'stop', prompt_tokens: 10, completion_tokens: 101, route: BOTH, tokens_per_second: 10,
    first_token_ms: 400, resumed_tokens: 0, computed_tokens: 0, failovers: [], total_ms: 22_000,
    timeline: BOTH.legs.map((one) => part(one, 10, 90)), predicted: null, shared: [], ...values,
  };
}

function face(values: Partial<ReplyFace>): ReplyFace {
  return {
    phase: 'finished', text: 'one two three four five', thought: null, route: BOTH, marks: [], cut: null, note: null, wait: null, shared: [],
    wordsPerSecond: null, finish: 'complete', reworded: false, model: null, summary: summary({}), stretches: [{ at: 0, after_tokens: 0, route: BOTH }], ...values,
  };
}

const rows = (of: ReplyFace, ended = true) => computerRows(of, ended, PEERS, house);

it('says of each computer what it is, its part, its share of the work and its words', () => {
  expect(rows(face({})).map(({ name, about, part, share, took }) => [name, about, part, share, took])).toEqual([
    ['This computer', 'reads and writes the words', '2 of 28', '7%', 'all of it'],
    ['Dad’s PC', 'RTX 4070, Cable', '20 of 28', '71%', 'all of it'],
    ['Mum’s laptop', 'Apple M2, Wi-Fi', '6 of 28', '21%', 'all of it'],
  ]);
  expect(rows(face({})).map(({ kind }) => kind)).toEqual(['laptop', 'tower', 'laptop']);
});

it('tells the words of one that left, and the part of one that took over', () => {
  // The third word is half written when the other takes over: whoever began it has it.
  const stretches = [{ at: 0, after_tokens: 0, route: BOTH }, { at: 'one two three'.length - 2, after_tokens: 3, route: MUM }];
  const left = face({ route: MUM, stretches, summary: summary({ route: MUM }) });
  expect(rows(left).map(({ part, took }) => [part, took])).toEqual([
    ['2 of 28', 'all of it'], ['20 of 28', 'words 1–3'], ['26 of 28', 'all of it'],
  ]);
});

it('names two runs of words, counts more, and says who computed none', () => {
  const at = (words: number) => 'one two three four five'.split(' ').slice(0, words).join(' ').length;
  const turns = (...routes: (typeof BOTH)[]) => face({ stretches: routes.map((route, word) => ({ at: at(word), after_tokens: word, route })) });
  const dads = (of: ReplyFace) => rows(of).find(({ name }) => name === 'Dad’s PC')?.took;
  expect(dads(turns(BOTH, MUM, BOTH))).toBe('word 1 and words 3–5');
  expect(dads(turns(BOTH, MUM, BOTH, MUM, BOTH))).toBe('in 3 stretches');
  expect(dads(face({ stretches: [{ at: 0, after_tokens: 0, route: BOTH }, { at: 0, after_tokens: 0, route: MUM }] }))).toBe('in none of its words');
});

it('leaves out what nobody wrote down, and what is not known before the end', () => {
  expect(rows(face({ stretches: [] })).map(({ took }) => took)).toEqual(['', '', '']);
  expect(rows(face({ summary: null })).map(({ share }) => share)).toEqual(['', '', '']);
  expect(rows(face({}), false).map(({ took }) => took)).toEqual(['', '', '']);
  expect(computerRows(face({}), true, [], { ...house, devices: [] }).map(({ about, kind }) => [about, kind])).toEqual([
    ['reads and writes the words', 'laptop'], ['', null], ['', null],
  ]);
  expect(timeOf(face({ summary: null }))).toBe('');
});

it('says in a sentence who did most, and who carried on', () => {
  const failovers = [{ from: 'Dad’s PC', to: 'Mum’s laptop', pause_ms: 310, after_tokens: 3 }];
  const timeline = (dads: number, mums: number) => [part(leg('dad', [1, 20]), 0, dads), part(leg('mum', [1, 20]), 0, mums), part(leg('me', [0, 0]), 0, 10)];
  expect(leadOf(face({}))).toBe('Dad’s PC did most of the work.');
  expect(leadOf(face({ summary: summary({ failovers, timeline: timeline(60, 40) }) }))).toBe(
    'Dad’s PC did most of the work until it left. Mum’s laptop carried on 0.3 s later.',
  );
  expect(leadOf(face({ summary: summary({ failovers, timeline: timeline(40, 60) }) }))).toBe(
    'Mum’s laptop did most of the work. Dad’s PC left; Mum’s laptop carried on 0.3 s later.',
  );
  expect(leadOf(face({ summary: summary({ timeline: timeline(50, 50) }) }))).toMatch(/ did the largest part of the work\.$/);
  expect(leadOf(face({ summary: null }))).toBe('Dad’s PC and Mum’s laptop helped.');
  expect(leadOf(face({ route: ALONE, stretches: [] }))).toBe('This computer wrote all of it.');
  expect(leadOf(face({ route: { legs: [leg('dad', [0, 27], true)] }, stretches: [] }))).toBe('Dad’s PC wrote all of it.');
});

it('compares the time with that of this computer alone, where it was predicted', () => {
  const alone = { first_token_ms: 5_000, load_ms: 0, tokens_per_second: 1, total_ms: 0, measured: true };
  const predicted = summary({ predicted: { alone, together: null } });
  expect(timeOf(face({ summary: predicted }))).toBe('22 s for 5 words. The first word came after 0.4 s. This computer alone: about 1 min 45 s.');
  expect(timeOf(face({}))).not.toContain('alone');
  // Nothing to compare with where nobody else took part.
  expect(timeOf(face({ summary: predicted, route: ALONE, stretches: [] }))).not.toContain('alone');
  expect([duration(4_000), duration(59_400), duration(60_000), duration(119_700)]).toEqual(['4.0 s', '59 s', '1 min', '2 min']);
});

it('knows the colours of both at a hand-over, and none where it cannot tell', () => {
  const stretches = [{ at: 0, after_tokens: 0, route: BOTH }, { at: 7, after_tokens: 2, route: MUM }];
  const marks = [{ at: 7, text: 'Dad’s PC left' }];
  expect(withHues(face({ route: MUM, stretches, marks }), PEERS)[0]?.hues).toEqual(['var(--d1)', 'var(--d2)']);
  expect(withHues(face({ route: MUM, stretches: [], marks }), PEERS)).toEqual(marks);
  expect(withHues(face({ route: MUM, stretches, marks: [{ at: 5, text: '' }] }), PEERS)[0]?.hues).toBeUndefined();
});

it('is a table with names for its rows and columns, marks the words, and has its figures a click deeper', async () => {
  const mark = vi.fn();
  render(WhoHelped, { id: 'who', face: face({}), ended: true, peers: PEERS, house, marked: false, mark });
  const named = screen.getAllByTestId('who-row').map((row) => within(row).getByRole('rowheader').textContent);
  expect(named[1]).toContain('Dad’s PC');
  const [table] = screen.getAllByRole('table');
  expect(table === undefined ? [] : within(table).getAllByRole('columnheader').map((head) => head.textContent)).toEqual(['Computer', 'Part of the model', 'Share of the work', 'Took part']);
  expect(screen.getByRole('img', { name: /Dad’s PC: layers 1–20/ })).toBeTruthy();
  await userEvent.click(screen.getByRole('button', { name: 'Show who wrote what' }));
  expect(mark).toHaveBeenCalledOnce();
  expect(screen.queryAllByTestId('timeline-row')).toEqual([]);
  await userEvent.click(screen.getByText('Details'));
  expect((await screen.findAllByTestId('timeline-row')).length).toBe(4);
  const { violations } = await axe.run(document.body, { rules: { 'color-contrast': { enabled: false }, region: { enabled: false } } });
  expect(violations.map((fault) => fault.id)).toEqual([]);
});

it('leaves out a column that says nothing of anybody', () => {
  render(WhoHelped, { id: 'who', face: face({ summary: null, stretches: [] }), ended: true, peers: PEERS, house, marked: false, mark: undefined });
  expect(screen.getAllByRole('columnheader').map((head) => head.textContent)).toEqual(['Computer', 'Part of the model']);
  expect(screen.queryByTestId('mark')).toBeNull();
});
