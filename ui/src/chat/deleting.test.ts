/** Promises of deleting a chat: gone from the list at once, deleted later, taken back whole, and never forgotten. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Refusal } from '../backend/backend';
import { FakeBackend } from '../backend/fake';
import { SHOWN_MS, toasts } from '../kit/toasts.svelte';
import { ChatDesk } from './desk.svelte';

const KEY = 'inglenook.deleting';
let backend: FakeBackend;
let desk: ChatDesk;

const ids = () => desk.list.entries.map(({ id }) => id);
const there = async () => (await backend.conversations(null)).map(({ id }) => id);

beforeEach(async () => {
  vi.useFakeTimers();
  backend = new FakeBackend({ tokenMs: 0 });
  desk = new ChatDesk(backend, localStorage);
  await desk.start();
});

afterEach(async () => {
  for (const toast of toasts.all) toasts.undo(toast);
  await toasts.finish();
  vi.useRealTimers();
});

/** The second chat of the list, which has one before it and one behind it. */
function second(): number {
  const id = ids()[1];
  if (id === undefined) throw new Error('the made-up household has chats');
  return id;
}

it('leaves the list at once and the house when the time is over', async () => {
  const id = second();
  desk.drafts.keep(id, 'half a sentence');
  desk.remove(id);
  expect(ids()).not.toContain(id);
  expect(await there()).toContain(id);
  await vi.advanceTimersByTimeAsync(SHOWN_MS);
  await toasts.finish();
  expect(await there()).not.toContain(id);
  expect(ids()).not.toContain(id);
  expect([localStorage.getItem(KEY), desk.drafts.of(id), toasts.all.length]).toEqual([null, '', 0]);
});

it('comes back where it stood, open as it was, with its draft', async () => {
  const before = ids();
  const id = second();
  await desk.open(id);
  desk.type('half a sentence');
  const back = vi.fn();
  desk.remove(id, back);
  expect([desk.current.id, desk.draft]).toEqual([null, '']);
  // What the house says meanwhile does not bring it back.
  await desk.list.load();
  expect(ids()).not.toContain(id);
  toasts.undoNewest();
  expect(back).toHaveBeenCalledOnce();
  expect(ids()).toEqual(before);
  expect([desk.current.id, desk.draft, localStorage.getItem(KEY)]).toEqual([id, 'half a sentence', null]);
  await vi.advanceTimersByTimeAsync(2 * SHOWN_MS);
  expect(await there()).toContain(id);
});

it('does not push away what was begun meanwhile', async () => {
  const id = second();
  await desk.open(id);
  desk.remove(id);
  desk.type('something else');
  toasts.undoNewest();
  expect([desk.current.id, desk.draft]).toEqual([null, 'something else']);
  expect(ids()).toContain(id);
});

it('stays, and says why, where the house refuses', async () => {
  const before = ids();
  const id = second();
  vi.spyOn(backend, 'deleteConversation').mockRejectedValueOnce(new Error('The disk is full.'));
  desk.remove(id);
  await vi.advanceTimersByTimeAsync(SHOWN_MS);
  await toasts.finish();
  expect(ids()).toEqual(before);
  expect(localStorage.getItem(KEY)).toBeNull();
  desk.remove(id);
  vi.spyOn(backend, 'deleteConversation').mockRejectedValueOnce(new Error('The disk is full.'));
  await vi.advanceTimersByTimeAsync(SHOWN_MS);
  expect(toasts.all.map(({ message }) => [message.text, message.isProblem])).toEqual([
    ['“Packing list for the mountains” was not deleted: The disk is full.', true],
  ]);
});

it('is done where another window has done it already', async () => {
  const id = second();
  desk.remove(id);
  await backend.deleteConversation(id);
  vi.spyOn(backend, 'deleteConversation').mockRejectedValueOnce(new Refusal({ code: 'not_found', sentence: 'That chat is gone.' }));
  await toasts.finish();
  expect([toasts.all.length, desk.list.titleOf(id), localStorage.getItem(KEY)]).toEqual([0, undefined, null]);
});

it('is deleted by the next window where this one ended before', async () => {
  const id = second();
  desk.remove(id);
  const next = new ChatDesk(backend, localStorage);
  await next.start();
  expect(await there()).not.toContain(id);
  expect(next.list.entries.map((one) => one.id)).not.toContain(id);
  expect(localStorage.getItem(KEY)).toBeNull();
});

it('is tried again later where the next window cannot ask, and is never seen meanwhile', async () => {
  const id = second();
  desk.remove(id);
  const next = new ChatDesk(backend, localStorage);
  vi.spyOn(backend, 'conversations').mockRejectedValueOnce(new Error('Not now.'));
  await next.start();
  await next.list.load();
  expect(next.list.entries.map((one) => one.id)).not.toContain(id);
  expect(localStorage.getItem(KEY)).toContain(String(id));
});

it('is another chat where another title has its number, and that one stays', async () => {
  const id = second();
  localStorage.setItem(KEY, JSON.stringify([{ id, title: 'A chat of an older folder' }, 'nonsense']));
  const next = new ChatDesk(backend, localStorage);
  await next.start();
  expect(await there()).toContain(id);
  expect(next.list.entries.map((one) => one.id)).toContain(id);
  expect(localStorage.getItem(KEY)).toBeNull();
});

it('is deleted all the same where the storage is full', async () => {
  const setItem = vi.fn(() => { throw new Error('QuotaExceededError'); });
  const full: Storage = { length: 0, clear: () => undefined, key: () => null, getItem: () => null, removeItem: () => undefined, setItem };
  desk = new ChatDesk(backend, full);
  await desk.start();
  const id = second();
  desk.remove(id);
  expect(setItem).toHaveBeenCalled();
  expect(ids()).not.toContain(id);
  await vi.advanceTimersByTimeAsync(SHOWN_MS);
  await toasts.finish();
  expect(await there()).not.toContain(id);
});

it('stops the reply that is being made in it, but not while it can come back', async () => {
  const stop = vi.spyOn(backend, 'stop');
  vi.spyOn(backend, 'say').mockResolvedValue({ conversation: second(), user_message: 900, reply_message: 901 });
  const id = second();
  await desk.open(id);
  desk.draft = 'go on';
  await desk.send('ember');
  desk.remove(id);
  expect(stop).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(SHOWN_MS);
  await toasts.finish();
  expect(stop).toHaveBeenCalledExactlyOnceWith(901);
  expect(await there()).not.toContain(id);
});
