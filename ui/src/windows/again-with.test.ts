/** Promises of making a reply anew with another model: a version more, who wrote it under it, the chat's model as before. */
import { screen, within } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import { open, user } from './testing';

const EMBER = 'Ember (tells small stories)';

it('makes a new version with the model that was chosen, and says who wrote it', async () => {
  const { backend, state } = await open();
  const say = vi.spyOn(backend, 'say');
  await user.click(screen.getByTitle('Why leaves change colour'));
  const before = await screen.findByTestId('reply');
  expect(before.textContent).not.toContain('written by');
  expect(screen.getByTestId('variants').textContent).toContain('2/2');
  await user.click(screen.getByTestId('reply-menu'));
  const menu = await screen.findByRole('menu', { name: 'More for this reply' });
  const group = within(menu).getByRole('group', { name: 'Again, this once with' });
  expect(within(group).getAllByRole('menuitem').map((item) => item.textContent.trim())).toEqual([EMBER]);
  await user.click(screen.getByTestId('again-with-ember'));
  await vi.waitFor(() => { expect(say).toHaveBeenCalledOnce(); });
  expect(say.mock.calls[0]?.[0]).toMatchObject({ model: 'ember', text: { kind: 'again' } });
  await vi.waitFor(() => { expect(screen.getByTestId('variants').textContent).toContain('3/3'); });
  await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
  expect(screen.getByTestId('reply').textContent).toContain(`written by ${EMBER}`);
  // The next question is answered by the model of the chat, as before.
  expect(backend.house.default_model).not.toBe('ember');
  expect(state.desk.model(backend.house)).toBe(backend.house.default_model);
  await user.click(within(screen.getByTestId('variants')).getByRole('button', { name: 'Previous version' }));
  expect(screen.getByTestId('reply').textContent).not.toContain('written by');
});

it('is not offered where there is one model alone', async () => {
  const { backend } = await open();
  backend.change((house) => { house.models = house.models.slice(1); });
  await user.click(screen.getByTitle('Why leaves change colour'));
  await user.click(await screen.findByTestId('reply-menu'));
  expect((await screen.findAllByRole('menuitem')).map((item) => item.textContent.trim())).toEqual(['Go on from here in a new chat', 'Change its words']);
});
