/** Promises of the search in the open chat: by keys, from place to place, and the focus back where it was. */
import { screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import { announcer } from '../kit/announcer.svelte';
import { open, user } from './testing';

async function openChat() {
  const given = await open();
  await user.click(screen.getByTitle('Why leaves change colour'));
  await screen.findByTestId('chat-menu');
  return given;
}

const count = () => screen.getByTestId('find-count').textContent;

it('opens by its key, counts, goes round, says where it is, and gives the focus back', async () => {
  await openChat();
  screen.getByTestId('prompt').focus();
  await user.keyboard('{Control>}f{/Control}');
  const field = await screen.findByTestId('find-field');
  await vi.waitFor(() => { expect(document.activeElement).toBe(field); });
  expect(count()).toBe('');
  await user.keyboard('GREEN');
  // Five in the reply that shows, none in its other version.
  expect(count()).toBe('1 of 5');
  expect(announcer.text.trim()).toBe('1 of 5');
  await user.keyboard('{Enter}');
  expect(count()).toBe('2 of 5');
  await user.keyboard('{Shift>}{Enter}{Enter}{/Shift}');
  expect(count()).toBe('5 of 5');
  await user.click(screen.getByTestId('find-next'));
  expect(count()).toBe('1 of 5');
  await user.click(screen.getByTestId('find-previous'));
  expect(count()).toBe('5 of 5');
  await user.type(field, 'xyz');
  expect([count(), announcer.text.trim()]).toEqual(['Not found', 'Not found']);
  expect((screen.getByTestId('find-next') as HTMLButtonElement).disabled).toBe(true);
  await user.keyboard('{Control>}f{/Control}');
  await user.keyboard('crayons');
  expect([(field as HTMLInputElement).value, count()]).toEqual(['crayons', '1 of 1']);
  await user.keyboard('{Escape}');
  expect(screen.queryByTestId('find-bar')).toBeNull();
  expect(document.activeElement).toBe(screen.getByTestId('prompt'));
});

it('leaves its key to the browser where nothing has been said, and on other pages', async () => {
  const { state } = await open();
  expect(state.act('find')).toBe(false);
  await user.click(screen.getByTitle('Why leaves change colour'));
  await screen.findByTestId('chat-menu');
  state.show('models');
  expect([state.act('find'), state.act('print')]).toEqual([false, false]);
});

it('stops no reply by the Esc that closes it', async () => {
  const { state } = await openChat();
  const stop = vi.spyOn(state.desk.current, 'stop');
  state.act('find');
  await user.type(await screen.findByTestId('find-field'), 'leaf{Escape}');
  expect(screen.queryByTestId('find-bar')).toBeNull();
  expect(stop).not.toHaveBeenCalled();
});
