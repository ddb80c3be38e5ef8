/** Titles that models make: asked for behind a reply, shown where one came, and not asked for where nothing is kept. */
import { screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { go, open, user } from './testing';
import type { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
});

async function say(text: string): Promise<void> {
  await user.type(screen.getByTestId('prompt'), `${text}{Enter}`);
  await vi.waitFor(() => { expect(screen.getAllByTestId('reply').at(-1)?.dataset['phase']).toMatch(/finished|cut/); });
}

const title = (): string | undefined => state.desk.list.titleOf(state.desk.current.id);

it('a chat gets the name that its model gives it, in the list and above it', async () => {
  await say('name it, please');
  await vi.waitFor(() => { expect(title()).toBe('A better name'); });
  expect(screen.getByRole('heading', { name: 'A better name' })).toBeTruthy();
});

it('without one, and where naming fails, its first words stay', async () => {
  const entitle = vi.spyOn(backend, 'entitleConversation').mockRejectedValue(new Error('gone'));
  await say('name it, please');
  await vi.waitFor(() => { expect(entitle).toHaveBeenCalledOnce(); });
  expect(title()).toBe('name it, please');
});

it('a chat that is not kept, and a reply that was stopped, are not named', async () => {
  const entitle = vi.spyOn(backend, 'entitleConversation');
  state.desk.current.temporary = true;
  await say('name it, please');
  await say('fail');
  expect(entitle).not.toHaveBeenCalled();
});

it('models name chats unless the owner does not want that', async () => {
  await go('settings');
  await user.click(screen.getByTestId('titles'));
  expect(backend.house.settings.values['chat.titles']).toBe(false);
});
