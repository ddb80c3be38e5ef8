/** Promises of changing a message: what was typed over it stays until the house has taken it. */
import { screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import { Refusal } from '../backend/backend';
import type { FakeBackend } from '../backend/fake';
import { open, user } from './testing';
import type { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
  await user.click(screen.getByTitle('Why leaves change colour'));
  await screen.findByTestId('reply');
});

async function typeOver(text: string): Promise<void> {
  await user.click(screen.getAllByTestId('edit')[0] as HTMLElement);
  await user.clear(screen.getByTestId('edit-field'));
  await user.type(screen.getByTestId('edit-field'), text);
}

const typed = () => screen.getByTestId<HTMLTextAreaElement>('edit-field').value;

it('stays as typed when the house refuses, and says why', async () => {
  vi.spyOn(backend, 'say').mockRejectedValueOnce(new Refusal({ code: 'bad_request', sentence: 'The disk is full.', wording: null }));
  await typeOver('Why are they red?');
  await user.click(screen.getByTestId('edit-yes'));
  expect((await screen.findByRole('alert')).textContent).toBe('Not sent: The disk is full.');
  expect(typed()).toBe('Why are they red?');
  await user.click(screen.getByTestId('edit-yes'));
  await vi.waitFor(() => { expect(state.desk.current.steps[0]?.message.text).toBe('Why are they red?'); });
  expect(screen.queryByTestId('edit-field')).toBeNull();
});

it('stays as typed while a reply is made, and says so', async () => {
  await typeOver('Why are they red?');
  const asked = state.desk.current.steps[0]?.message.id ?? 0;
  vi.spyOn(backend, 'say').mockReturnValueOnce(new Promise(() => undefined));
  void state.desk.current.again(asked, 'ember');
  expect(state.desk.current.busy).toBe(true);
  await user.click(screen.getByTestId('edit-yes'));
  expect((await screen.findByRole('alert')).textContent).toContain('A reply is being made.');
  expect(typed()).toBe('Why are they red?');
});

it('stays as typed while another chat shows, until it is given up', async () => {
  await typeOver('Why are they red?');
  await user.click(screen.getByTitle('Soup with what is left'));
  await user.click(screen.getByTitle('Why leaves change colour'));
  expect(typed()).toBe('Why are they red?');
  await user.type(screen.getByTestId('edit-field'), '{Escape}');
  await user.click(screen.getAllByTestId('edit')[0] as HTMLElement);
  expect(typed()).not.toBe('Why are they red?');
});

it('keeps the page, as a file does that is not sent', async () => {
  expect(backend.unkept).toBe(false);
  await typeOver('Why are they red?');
  await vi.waitFor(() => { expect(backend.unkept).toBe(true); });
  await user.type(screen.getByTestId('edit-field'), '{Escape}');
  await vi.waitFor(() => { expect(backend.unkept).toBe(false); });
  await state.desk.attach([new File(['x'], 'a.txt')]);
  await user.click(screen.getByTitle('Soup with what is left'));
  await vi.waitFor(() => { expect(backend.unkept).toBe(true); });
});
