/** Promises of changing the words of a reply: they stand in its place, and the reply stays beside them. */
import { screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { open, user } from './testing';
import type { WindowState } from './window.svelte';

const TITLE = 'Why leaves change colour';
let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
  await user.click(screen.getByTitle(TITLE));
  await screen.findByTestId('reply');
});

async function change(): Promise<HTMLTextAreaElement> {
  await user.click(screen.getAllByTestId('reply-menu')[0] as HTMLElement);
  await user.click(await screen.findByTestId('reword'));
  return screen.findByTestId<HTMLTextAreaElement>('reword-field');
}

const shown = (): string | undefined => state.desk.current.steps[1]?.message.text;

it('keeps what is typed in its place, says so, and goes back to the reply that was made', async () => {
  const made = shown();
  const field = await change();
  expect(document.activeElement).toBe(field);
  expect(field.value).toBe(made);
  await user.clear(field);
  await user.type(field, 'They rest.{Enter}{Enter}And they are yellow.{Control>}{Enter}{/Control}');
  await vi.waitFor(() => { expect(shown()).toBe('They rest.\n\nAnd they are yellow.'); });
  expect((await screen.findByTestId('facts')).textContent).toBe('Changed by you');
  expect(document.activeElement?.id).toBe('prompt');
  await user.click(screen.getByRole('button', { name: 'Previous version' }));
  expect(shown()).toBe(made);
});

it('is what the next message follows', async () => {
  const field = await change();
  await user.clear(field);
  await user.type(field, 'They rest.');
  await user.click(screen.getByTestId('reword-yes'));
  await vi.waitFor(() => { expect(shown()).toBe('They rest.'); });
  const say = vi.spyOn(backend, 'say');
  const parent = state.desk.current.steps.at(-1)?.message.id;
  await state.desk.current.say('And then?', 'ember');
  expect(say.mock.calls[0]?.[0].text).toEqual({ kind: 'new', message: { text: 'And then?', parent } });
});

it.each(['{Escape}', '{Control>}{Enter}{/Control}'])('changes nothing where nothing was changed (%s)', async (keys) => {
  const reword = vi.spyOn(backend, 'rewordReply');
  await change();
  await user.keyboard(keys);
  await vi.waitFor(() => { expect(screen.queryByTestId('reword-field')).toBeNull(); });
  expect(reword).not.toHaveBeenCalled();
  expect(await screen.findAllByTestId('reply-text')).not.toHaveLength(0);
});

it('says why it was not kept, and loses nothing that was typed', async () => {
  const made = shown();
  vi.spyOn(backend, 'rewordReply').mockRejectedValueOnce(new Error('The disk is full.'));
  const field = await change();
  await user.type(field, ' Truly.');
  await user.click(screen.getByTestId('reword-yes'));
  expect((await screen.findByRole('alert')).textContent).toContain('The disk is full.');
  expect(shown()).toBe(made);
  expect(screen.getByTestId<HTMLTextAreaElement>('reword-field').value).toBe(`${made ?? ''} Truly.`);
  await user.click(screen.getByTestId('reword-yes'));
  await vi.waitFor(() => { expect(shown()).toBe(`${made ?? ''} Truly.`); });
  expect(screen.queryByRole('alert')).toBeNull();
});

it('is done once, however often it is asked for meanwhile', async () => {
  const asked: ((id: number) => void)[] = [];
  const reword = vi.spyOn(backend, 'rewordReply').mockImplementation(() => new Promise((done) => asked.push(done)));
  await user.type(await change(), ' Truly.');
  await user.click(screen.getByTestId('reword-yes'));
  await user.click(screen.getByTestId('reword-yes'));
  expect(reword).toHaveBeenCalledOnce();
  asked[0]?.(0);
  await vi.waitFor(() => { expect(screen.queryByTestId('reword-field')).toBeNull(); });
});
