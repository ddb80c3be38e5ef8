/** How replies are made, chosen for all chats and for one. */
import { screen, within } from '@testing-library/svelte';
import { tick } from 'svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { AS_SETTINGS } from '../kit/reply-choices';
import { go, open, user } from './testing';
import type { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
});

const chosen = (testId: string) => screen.getByTestId<HTMLSelectElement>(testId).selectedOptions[0]?.textContent;

it('how freely words are chosen is set for all chats', async () => {
  await go('settings');
  expect(chosen('freedom')).toBe('Usual');
  await user.selectOptions(screen.getByTestId('freedom'), 'Exact');
  expect(backend.house.settings.values['chat.temperature']).toBe(0);
});

it('one chat has its own choices, which stand at its field and go back to the settings by a click', async () => {
  vi.spyOn(backend, 'capabilities').mockResolvedValue({ thinks: true, fills_gaps: false });
  const say = vi.spyOn(backend, 'say');
  await user.click(screen.getByTestId('about'));
  await screen.findByTestId('sheet-thinking');
  expect([chosen('sheet-thinking'), chosen('sheet-freedom')]).toEqual(['As in the settings: Up to the model', 'As in the settings: Usual']);
  await user.selectOptions(screen.getByTestId('sheet-thinking'), 'Yes, where the model can');
  await user.selectOptions(screen.getByTestId('sheet-freedom'), 'Careful');
  await user.click(screen.getByTestId('dialog-close'));
  expect(screen.getByTestId('told-thinking').textContent).toBe('Thinks first');
  expect(screen.getByTestId('told-freedom').textContent).toBe('Words: Careful');

  await user.type(screen.getByTestId('prompt'), 'A story{Enter}');
  await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
  const choices = { thinking: 'on', temperature: 0.3 };
  expect(say.mock.calls[0]?.[0].start.choices).toEqual(choices);
  const { id } = state.desk.current;
  expect((await backend.conversations(null)).find((one) => one.id === id)?.choices).toEqual(choices);

  await user.click(screen.getByRole('button', { name: 'Thinks first: as in the settings again' }));
  expect(document.activeElement).toBe(screen.getByTestId('prompt'));
  expect(screen.queryByTestId('told-thinking')).toBeNull();
  await user.click(screen.getByTestId('told-freedom'));
  await vi.waitFor(async () => {
    expect((await backend.conversations(null)).find((one) => one.id === id)?.choices).toEqual(AS_SETTINGS);
  });
});

it('a refused choice springs back, and the reason stands there', async () => {
  await user.type(screen.getByTestId('prompt'), 'A story{Enter}');
  await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
  vi.spyOn(backend, 'tuneConversation').mockRejectedValue(new Error('the disk is full'));
  await user.click(screen.getByTestId('about'));
  await user.selectOptions(await screen.findByTestId('sheet-freedom'), 'Exact');
  await tick();
  expect(chosen('sheet-freedom')).toBe('As in the settings: Usual');
  expect(within(screen.getByTestId('chat-sheet')).getByRole('alert').textContent).not.toBe('');
});

it('a model that does not think aloud is not asked whether it does', async () => {
  vi.spyOn(backend, 'capabilities').mockResolvedValue({ thinks: false, fills_gaps: false });
  await user.click(screen.getByTestId('about'));
  await screen.findByTestId('sheet-freedom');
  expect(screen.queryByTestId('sheet-thinking')).toBeNull();
});
