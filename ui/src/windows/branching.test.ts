/** Promises of going on from a reply in a new chat: a copy up to there, the other one as it was. */
import { screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import { toasts } from '../kit/toasts.svelte';
import { open, user } from './testing';

const TITLE = 'Why leaves change colour';

async function branch(): Promise<void> {
  const menus = await screen.findAllByTestId('reply-menu');
  await user.click(menus[0] as HTMLElement);
  await user.click(await screen.findByTestId('branch'));
}

it('opens a copy that ends there, with its model, and says so', async () => {
  const { backend, state } = await open();
  await user.click(screen.getByTitle(TITLE));
  await screen.findByTestId('reply');
  const from = state.desk.current;
  const before = from.steps.map(({ message }) => message.text);
  state.desk.chooseModel('ember');
  await from.say('And pines?', 'ember');
  await vi.waitFor(() => { expect([from.busy, from.steps.length]).toEqual([false, before.length + 2]); });
  // A search hides nothing of what is new.
  state.desk.list.find('mountains');
  await vi.waitFor(() => { expect(state.desk.list.entries.map(({ title }) => title)).not.toContain(TITLE); });
  await branch();
  await vi.waitFor(() => { expect(state.desk.current).not.toBe(from); });
  expect(await screen.findByRole('heading', { level: 1, name: `${TITLE} (2)` })).toBeTruthy();
  await vi.waitFor(() => { expect(state.desk.current.steps.map(({ message }) => message.text)).toEqual(before); });
  expect(state.desk.list.search).toBe('');
  expect(state.desk.model(backend.house)).toBe('ember');
  expect(toasts.all.at(-1)?.message.text).toContain('copy');
  await vi.waitFor(() => { expect(document.activeElement?.id).toBe('prompt'); });
  await user.click(screen.getByTitle(TITLE));
  expect(state.desk.current.id).toBe(from.id);
});

it('is not offered in a chat that is not kept', async () => {
  const { backend, state } = await open();
  backend.change((house) => { house.models = house.models.slice(0, 1); });
  state.desk.current.temporary = true;
  await state.desk.current.say('a story', 'ember');
  await vi.waitFor(() => { expect(state.desk.current.busy).toBe(false); });
  await user.click(await screen.findByTestId('reply-menu'));
  expect(await screen.findByTestId('reword')).toBeTruthy();
  expect(screen.queryByTestId('branch')).toBeNull();
});

it('says why where it cannot be done, and stays', async () => {
  const { backend, state } = await open();
  await user.click(screen.getByTitle(TITLE));
  const from = state.desk.current;
  vi.spyOn(backend, 'branchConversation').mockRejectedValue(new Error('The disk is full.'));
  await branch();
  await vi.waitFor(() => { expect(toasts.all.at(-1)?.message.text).toBe('The disk is full.'); });
  expect(state.desk.current).toBe(from);
});
