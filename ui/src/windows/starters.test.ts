/** Promises of an empty chat: what somebody could begin with, and what a click on that does and does not do. */
import { screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { t } from '../strings';
import { open, user } from './testing';
import type { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  localStorage.setItem('inglenook.first-start', 'done');
  ({ backend, state } = await open());
});

const field = () => screen.getByTestId<HTMLTextAreaElement>('prompt');
const press = (name: RegExp) => user.click(screen.getByRole('button', { name }));

it('a click puts the first words into the field, with their instructions, and sends nothing', async () => {
  const say = vi.spyOn(backend, 'say');
  expect(screen.getAllByTestId('starter')).toHaveLength(4);
  await press(/^Explain my homework/);
  expect(field().value).toBe('Help me with my homework: ');
  expect(document.activeElement).toBe(field());
  expect(screen.getByTestId('told').textContent).toBe('Homework helper');
  await press(/^Plan a meal/);
  expect([field().value, state.desk.current.instructions]).toEqual(['What can I cook for the family with ', '']);
  expect(say).not.toHaveBeenCalled();
});

it('what was typed and told before stays', async () => {
  await state.desk.current.instruct('Answer in rhymes.');
  await user.type(field(), 'For my sister.');
  await press(/^Tell a bedtime story/);
  expect(field().value).toBe('For my sister.\n\nTell me a bedtime story about ');
  expect(state.desk.current.instructions).toBe('Answer in rhymes.');
});

it('marks what the story teller can do where only that answers', async () => {
  expect(screen.getByTestId('starters').textContent).not.toContain(t.chat.emberCan);
  backend.change((house) => {
    house.models = house.models.filter((model) => model.built_in);
    house.default_model = 'ember';
  });
  await tick();
  const marked = screen.getAllByTestId('starter').filter((one) => one.textContent.includes(t.chat.emberCan));
  expect(marked.map((one) => one.querySelector('b')?.textContent)).toEqual(['Tell a bedtime story']);
});

it('the strip says how far a model is, rests and goes on by its buttons, and is used where it is ready', async () => {
  await backend.pull('qwen3-4b');
  await tick();
  const strip = () => screen.getByTestId('strip');
  const key = backend.house.downloads[0]?.key ?? '';
  backend.piecesCome(key, 1);
  await tick();
  expect(strip().textContent).toContain('Qwen3 4B is coming: 10%, 54 seconds left.');
  await user.click(screen.getByTestId('strip-pause'));
  await vi.waitFor(() => { expect(strip().textContent).toContain('Qwen3 4B is paused at 10%.'); });
  await user.click(screen.getByTestId('strip-resume'));
  await vi.waitFor(() => { expect(strip().dataset['kind']).toBe('coming'); });
  backend.change((house) => {
    for (const one of house.downloads) Object.assign(one, { state: 'failed', problem: { code: 'disk_full', sentence: 'The disk is full.', wording: null } });
  });
  await tick();
  expect(strip().textContent).toContain('Qwen3 4B did not arrive. The disk is full.');
  vi.spyOn(backend, 'changeDownload').mockRejectedValueOnce(new Error('Not now.'));
  await user.click(screen.getByRole('button', { name: 'Try again to get Qwen3 4B' }));
  expect((await screen.findByRole('alert')).textContent).toBe('Not now.');
  await user.click(screen.getByTestId('strip-resume'));
  await vi.waitFor(() => { expect(strip().dataset['kind']).toBe('coming'); });
  backend.piecesCome(key, 10);
  await tick();
  expect(strip().textContent).toContain('Qwen3 4B is ready.');
  expect(state.desk.model(backend.house)).not.toBe('qwen3-4b');
  await user.click(screen.getByRole('button', { name: 'Use it here: Qwen3 4B' }));
  expect(state.desk.model(backend.house)).toBe('qwen3-4b');
  await vi.waitFor(() => { expect(screen.queryByTestId('strip')).toBeNull(); });
});
