/** Promises of deleting and undoing as people do it: keys, buttons, the focus, and what a window that goes away does. */
import { screen, within } from '@testing-library/svelte';
import { tick } from 'svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { toasts } from '../kit/toasts.svelte';
import { go, open, user } from './testing';
import type { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
});

afterEach(async () => {
  for (const toast of toasts.all) toasts.undo(toast);
  await toasts.finish();
});

const rows = () => screen.getAllByTestId('conversation');
const titles = () => rows().map((row) => row.querySelector('.title')?.textContent);
const title = (at: number) => rows()[at]?.querySelector<HTMLElement>('.title') ?? document.body;
const kept = async () => (await backend.conversations(null)).length;

it('Delete takes a chat away, and Ctrl+Z brings it and the focus back', async () => {
  const before = titles();
  title(1).focus();
  await user.keyboard('{Delete}');
  expect(titles()).toEqual(before.filter((_, at) => at !== 1));
  expect(screen.getByTestId('toast').textContent).toContain(`Deleted “${String(before[1])}”`);
  expect(screen.getByRole('button', { name: `Undo deleting “${String(before[1])}”` })).toBe(screen.getByTestId('undo'));
  await user.keyboard('{Control>}{Shift>}z{/Shift}{/Control}');
  expect(rows()).toHaveLength(before.length - 1);
  await user.keyboard('{Control>}z{/Control}');
  expect(titles()).toEqual(before);
  expect(document.activeElement).toBe(title(1));
  expect(screen.queryByTestId('toast')).toBeNull();
  expect(await kept()).toBe(before.length);
});

it('in a field, Ctrl+Z is the field’s own', async () => {
  const count = rows().length;
  await user.click(within(rows()[0] ?? document.body).getByRole('button', { name: /^Delete/ }));
  expect(rows()).toHaveLength(count - 1);
  screen.getByTestId('prompt').focus();
  await user.keyboard('{Control>}z{/Control}');
  expect(rows()).toHaveLength(count - 1);
  await user.click(screen.getByTestId('undo'));
  expect(rows()).toHaveLength(count);
  expect(document.activeElement).toBe(title(0));
});

it('a key that is held deletes one chat, and takes back one', async () => {
  const count = rows().length;
  const hold = (at: Element, init: KeyboardEventInit) => {
    const event = new KeyboardEvent('keydown', { ...init, repeat: true, bubbles: true, cancelable: true });
    at.dispatchEvent(event);
    return event;
  };
  hold(title(0), { key: 'Delete' });
  const bin = within(rows()[0] ?? document.body).getByRole('button', { name: /^Delete/ });
  expect(hold(bin, { key: 'Enter' }).defaultPrevented, 'no click comes of it').toBe(true);
  await tick();
  expect(rows()).toHaveLength(count);
  title(0).focus();
  await user.keyboard('{Delete}');
  hold(document.body, { key: 'z', ctrlKey: true });
  await tick();
  expect(rows()).toHaveLength(count - 1);
});

it('what can still be taken back is done before the program ends', async () => {
  const count = rows().length;
  title(0).focus();
  await user.keyboard('{Delete}');
  let done = (): void => undefined;
  const real = backend.deleteConversation.bind(backend);
  vi.spyOn(backend, 'deleteConversation').mockImplementation(async (id) => {
    await new Promise<void>((resolve) => { done = resolve; });
    await real(id);
  });
  const quit = vi.spyOn(backend, 'quit');
  await user.keyboard('{Control>}q{/Control}');
  await vi.waitFor(() => { expect(backend.deleteConversation).toHaveBeenCalled(); });
  expect(quit).not.toHaveBeenCalled();
  done();
  await vi.waitFor(() => { expect(quit).toHaveBeenCalledOnce(); });
  expect(await kept()).toBe(count - 1);
});

it.each(['hidden', 'pagehide'])('a window that goes away (%s) deletes at once', async (how) => {
  const count = rows().length;
  title(0).focus();
  await user.keyboard('{Delete}');
  expect(await kept()).toBe(count);
  if (how === 'pagehide') window.dispatchEvent(new Event('pagehide'));
  else {
    vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    document.dispatchEvent(new Event('visibilitychange'));
  }
  await vi.waitFor(async () => { expect(await kept()).toBe(count - 1); });
  await vi.waitFor(() => { expect(screen.queryByTestId('toast')).toBeNull(); });
});

it('a refusal is told beside the chat that is back', async () => {
  const before = titles();
  vi.spyOn(backend, 'deleteConversation').mockRejectedValue(new Error('The disk is full.'));
  title(0).focus();
  await user.keyboard('{Delete}');
  await toasts.finish();
  expect((await screen.findByRole('alert')).textContent).toContain('was not deleted: The disk is full.');
  expect(titles()).toEqual(before);
  await user.click(screen.getByTestId('toast-close'));
  expect(screen.queryByTestId('toast')).toBeNull();
});

it('the focus that was on a message goes back to where it came from', async () => {
  await go('devices');
  const add = screen.getByTestId('add-device');
  toasts.say({ text: 'Something', undo: { name: 'Undo it', act: () => undefined } });
  await tick();
  add.focus();
  screen.getByTestId('undo').focus();
  await user.keyboard('{Enter}');
  await vi.waitFor(() => { expect(screen.queryByTestId('toast')).toBeNull(); });
  expect(document.activeElement).toBe(add);
});

it('the instructions of a chat are left out by their chip, and taken in again', async () => {
  await state.desk.current.instruct('Answer in rhymes.');
  await tick();
  const chip = screen.getByRole('button', { name: 'With instructions: leave the instructions out' });
  await user.click(chip);
  expect(state.desk.current.instructions).toBe('');
  expect(screen.queryByTestId('told')).toBeNull();
  expect(document.activeElement).toBe(screen.getByTestId('prompt'));
  await user.click(screen.getByRole('button', { name: 'Undo leaving the instructions out' }));
  expect(state.desk.current.instructions).toBe('Answer in rhymes.');
});

it('says that something was copied, saved or forgotten', async () => {
  await go('sharing');
  const streams = screen.getByTestId('lend-streams');
  await user.clear(streams);
  await user.type(streams, '3{Enter}');
  expect((await screen.findByTestId('toast')).textContent).toContain('Saved');
  await go('devices');
  await user.click(screen.getByRole('button', { name: 'More about Old Dell' }));
  await user.click(screen.getByTestId('forget'));
  await user.click(screen.getByTestId('confirm-yes'));
  await vi.waitFor(() => { expect(screen.getAllByTestId('toast').at(-1)?.textContent).toContain('Old Dell was forgotten'); });
  await go('port');
  await user.click(screen.getByTestId('copy-key'));
  await vi.waitFor(() => { expect(screen.getAllByTestId('toast').at(-1)?.textContent).toContain('Copied'); });
});
