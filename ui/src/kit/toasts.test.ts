/** Promises of short messages: their time, who makes room, what is taken back, and that nothing they stand for is lost. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DRAWN_MAX, SHOWN_MS, Toasts } from './toasts.svelte';

let toasts: Toasts;
const texts = (list = toasts.all) => list.map((toast) => toast.message.text);
const after = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** A message that stands for something, and how often that was done. */
function owing(text: string) {
  const over = vi.fn(() => Promise.resolve());
  const act = vi.fn();
  toasts.say({ text, undo: { name: `Undo ${text}`, act }, over });
  return { over, act };
}

beforeEach(() => {
  vi.useFakeTimers();
  toasts = new Toasts();
});

afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

it('is there for six seconds, and then does what it stands for, once', async () => {
  const { over, act } = owing('a');
  await after(SHOWN_MS - 1);
  expect([texts(), over.mock.calls.length]).toEqual([['a'], 0]);
  await after(1);
  expect([texts(), over.mock.calls.length]).toEqual([[], 1]);
  await toasts.finish();
  expect(over).toHaveBeenCalledOnce();
  expect(act).not.toHaveBeenCalled();
  expect(vi.getTimerCount(), 'nothing ticks without a message').toBe(0);
});

it('does nothing of what was taken back', async () => {
  const { over, act } = owing('a');
  const [toast] = toasts.all;
  if (toast === undefined) throw new Error('no message');
  toasts.undo(toast);
  toasts.undo(toast);
  await after(2 * SHOWN_MS);
  await toasts.finish();
  expect(act).toHaveBeenCalledOnce();
  expect(over).not.toHaveBeenCalled();
});

it('takes back the newest first, also one that is not drawn, and skips what cannot be taken back', () => {
  const all = ['a', 'b', 'c', 'd'].map(owing);
  toasts.say({ text: 'Copied' });
  for (const one of all.toReversed()) {
    expect(toasts.undoNewest()).toBe(true);
    expect(one.act).toHaveBeenCalledOnce();
  }
  expect(toasts.undoNewest()).toBe(false);
  expect(texts()).toEqual(['Copied']);
});

it('draws three, and only those that stand for nothing make room', async () => {
  toasts.say({ text: 'Copied' });
  const all = ['a', 'b', 'c', 'd'].map(owing);
  expect(texts()).toEqual(['a', 'b', 'c', 'd']);
  expect(texts([...toasts.drawn])).toEqual(['b', 'c', 'd']);
  expect(toasts.drawn).toHaveLength(DRAWN_MAX);
  toasts.say({ text: 'Saved' });
  expect(texts(), 'the new one is seen').toEqual(['a', 'b', 'c', 'd', 'Saved']);
  await after(SHOWN_MS);
  expect(all.map(({ over }) => over.mock.calls.length)).toEqual([1, 1, 1, 1]);
});

it.each(['isPointed', 'isFocused'] as const)('waits while one of them %s', async (where) => {
  const { over } = owing('a');
  owing('b');
  const [toast] = toasts.all;
  if (toast === undefined) throw new Error('no message');
  toast[where] = true;
  await after(3 * SHOWN_MS);
  expect(texts()).toEqual(['a', 'b']);
  toast[where] = false;
  await after(SHOWN_MS);
  expect(over).toHaveBeenCalledOnce();
});

it('waits while a dialog stands before it', async () => {
  const { over } = owing('a');
  const dialog = document.createElement('dialog');
  dialog.setAttribute('open', '');
  document.body.append(dialog);
  await after(3 * SHOWN_MS);
  expect(over).not.toHaveBeenCalled();
  dialog.remove();
  await after(SHOWN_MS);
  expect(over).toHaveBeenCalledOnce();
});

it('the same words twice are one message, with its time anew', async () => {
  toasts.say({ text: 'Copied' });
  await after(SHOWN_MS - 400);
  toasts.say({ text: 'Copied' });
  await after(SHOWN_MS - 400);
  expect(texts()).toEqual(['Copied']);
  await after(400);
  expect(texts()).toEqual([]);
});

it('a problem stays until it is closed', async () => {
  toasts.say({ text: 'Not deleted', isProblem: true });
  await after(10 * SHOWN_MS);
  expect(texts()).toEqual(['Not deleted']);
  expect(vi.getTimerCount()).toBe(0);
  for (const toast of toasts.all) toasts.close(toast);
  expect(texts()).toEqual([]);
});

it('is finished only when everything is done, also what began before, and whatever fails', async () => {
  let done = (): void => undefined;
  toasts.say({ text: 'slow', over: () => new Promise((resolve) => { done = resolve; }) });
  await after(SHOWN_MS);
  toasts.say({ text: 'bad', over: () => Promise.reject(new Error('no')) });
  let finished = false;
  const all = toasts.finish().then(() => { finished = true; });
  await after(0);
  expect([texts(), finished]).toEqual([[], false]);
  done();
  await all;
  expect(finished).toBe(true);
});
