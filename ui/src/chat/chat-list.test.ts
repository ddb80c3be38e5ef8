/** Promises of the list of conversations. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { toasts } from '../kit/toasts.svelte';
import { branchTitle, ChatList, grouped } from './chat-list.svelte';
import { AS_SETTINGS } from '../kit/reply-choices';

/** What does not matter for days. */
const REST = { title: '', instructions: '', only_here: false, choices: AS_SETTINGS, pinned: false, archived: false, folder: '', excerpt: null };

beforeEach(() => { vi.useFakeTimers(); });
afterEach(() => { vi.useRealTimers(); });

it('groups by the days that people count', () => {
  const noon = new Date(2026, 10, 21, 12);
  const hours = (n: number, id: number) => ({ ...REST, id, updated: noon.getTime() / 1000 - n * 3600 });
  const { days } = grouped([hours(1, 1), hours(13, 2), hours(40, 3), hours(24 * 30, 4)], noon);
  expect(days.map((g) => [g.name, g.chats.map((c) => c.id)])).toEqual([
    ['Today', [1]],
    ['Yesterday', [2]],
    ['Last seven days', [3]],
    ['Earlier', [4]],
  ]);
});

it('has each chat in one place: what is pinned or put away is so wherever it lies', () => {
  const chat = (id: number, more: object) => ({ ...REST, id, updated: 0, ...more });
  const { pinned, folders, days, archived } = grouped([
    chat(1, { pinned: true, folder: 'Kitchen' }), chat(2, { folder: 'Kitchen' }), chat(3, { folder: 'École' }), chat(4, {}),
    chat(5, { archived: true, folder: 'Attic' }), chat(6, { folder: 'Kitchen' }), chat(7, { folder: 'Zoo' }),
  ], new Date());
  const ids = (of: readonly { id: number }[]) => of.map(({ id }) => id);
  expect([ids(pinned), ids(archived), days.map((day) => ids(day.chats))]).toEqual([[1], [5], [[4]]]);
  expect(folders.map(({ name, chats }) => [name, ids(chats)])).toEqual([['École', [3]], ['Kitchen', [2, 6]], ['Zoo', [7]]]);
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
  expect([toasts.all.at(-1)?.message.text, list.entries[0]?.pinned]).toEqual(['The disk is full.', true]);
});

it('counts a clock that runs ahead as today', () => {
  const now = new Date(2026, 10, 21, 12);
  expect(grouped([{ ...REST, id: 1, updated: now.getTime() / 1000 + 9e5 }], now).days[0]?.name).toBe('Today');
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
  expect(toasts.all.at(-1)?.message).toMatchObject({ text: 'The disk is full.', isProblem: true });
});
