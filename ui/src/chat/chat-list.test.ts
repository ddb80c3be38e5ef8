/** Promises of the list of conversations. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { branchTitle, byDay, ChatList } from './chat-list.svelte';

/** What does not matter for days. */
const REST = { title: '', instructions: '', only_here: false, pinned: false, archived: false, excerpt: null };

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

it('groups by the days that people count', () => {
  const noon = new Date(2026, 10, 21, 12);
  const hours = (n: number, id: number) => ({ ...REST, id, updated: noon.getTime() / 1000 - n * 3600 });
  const groups = byDay([hours(1, 1), hours(13, 2), hours(40, 3), hours(24 * 30, 4)], noon);
  expect(groups.map((g) => [g.name, g.chats.map((c) => c.id)])).toEqual([
    ['Today', [1]],
    ['Yesterday', [2]],
    ['Last seven days', [3]],
    ['Earlier', [4]],
  ]);
});

it('has a group of its own for what is pinned, whenever it was', () => {
  const noon = new Date(2026, 10, 21, 12);
  const long = { ...REST, id: 1, pinned: true, updated: 0 };
  const groups = byDay([long, { ...REST, id: 2, updated: noon.getTime() / 1000 }], noon);
  expect(groups.map((g) => [g.name, g.chats.map((c) => c.id)])).toEqual([['Pinned', [1]], ['Today', [2]]]);
});

it('has what is put away in no group', () => {
  const chats = [{ ...REST, id: 1, archived: true, updated: 0 }, { ...REST, id: 2, updated: 0 }];
  expect(byDay(chats, new Date()).flatMap((g) => g.chats.map((c) => c.id))).toEqual([2]);
});

it('numbers the chats that go on from within another one', () => {
  expect(branchTitle('Soup', new Set(['Soup']))).toBe('Soup (2)');
  expect(branchTitle('Soup (2)', new Set(['Soup', 'Soup (2)']))).toBe('Soup (3)');
  expect(branchTitle('Soup (2)', new Set(['Soup (2)', 'Soup (3)']))).toBe('Soup (4)');
  expect(branchTitle('Moon landing (1969)', new Set(['Moon landing (1969)']))).toBe('Moon landing (2)');
});

it('keeps what is pinned', async () => {
  const backend = new FakeBackend({ tokenMs: 0 });
  const list = new ChatList(backend);
  await list.load();
  const last = list.entries.at(-1);
  await list.pin(last?.id ?? 0, true);
  expect(list.entries[0]).toEqual({ ...last, pinned: true });
  vi.spyOn(backend, 'pinConversation').mockRejectedValue(new Error('The disk is full.'));
  await list.pin(last?.id ?? 0, false);
  expect([list.problem, list.entries[0]?.pinned]).toEqual(['The disk is full.', true]);
});

it('counts a clock that runs ahead as today', () => {
  const now = new Date(2026, 10, 21, 12);
  expect(byDay([{ ...REST, id: 1, updated: now.getTime() / 1000 + 9e5 }], now)[0]?.name).toBe('Today');
});

it('searches once after a pause in typing, for all words', async () => {
  const backend = new FakeBackend({ tokenMs: 0 });
  const asked = vi.spyOn(backend, 'conversations');
  const list = new ChatList(backend);
  for (const typed of ['s', 'so', 'soup c', 'soup carrots']) list.find(typed);
  await vi.advanceTimersByTimeAsync(200);
  expect(asked).toHaveBeenCalledExactlyOnceWith('soup carrots');
  expect(list.entries.map((entry) => entry.title)).toEqual(['Soup with what is left']);
});

it('shows the answer to the last search, however late an older one comes', async () => {
  const backend = new FakeBackend({ tokenMs: 0 });
  const list = new ChatList(backend);
  let late: (found: []) => void = () => undefined;
  vi.spyOn(backend, 'conversations').mockImplementationOnce(() => new Promise((done) => { late = done; }));
  const first = list.load();
  await list.load();
  late([]);
  await first;
  expect(list.entries.length).toBeGreaterThan(0);
});

it('knows the title of the open chat while a search finds others', async () => {
  const list = new ChatList(new FakeBackend({ tokenMs: 0 }));
  await list.load();
  const open = list.entries.find((entry) => !entry.title.startsWith('Soup'));
  if (open === undefined) throw new Error('the made-up household has other chats');
  list.find('soup carrots');
  await vi.advanceTimersByTimeAsync(200);
  expect(list.entries.map((entry) => entry.id)).not.toContain(open.id);
  expect(list.titleOf(open.id)).toBe(open.title);
  await list.remove(open.id);
  expect(list.titleOf(open.id)).toBeUndefined();
});

it('says why a change did not happen', async () => {
  const backend = new FakeBackend({ tokenMs: 0 });
  const list = new ChatList(backend);
  vi.spyOn(backend, 'renameConversation').mockRejectedValue(new Error('The disk is full.'));
  await list.rename(1, 'Another title');
  expect(list.problem).toBe('The disk is full.');
});
