/** Promises of the page about privacy, against the fake household. */
import { screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { beforeEach, expect, it } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { enter, go, open, user } from './testing';

let backend: FakeBackend;

beforeEach(async () => {
  ({ backend } = await open());
});

it('privacy says who can take part, the honest sentence, and sets what stays', async () => {
  await go('privacy');
  expect(screen.getByTestId('privacy-meter').textContent).toContain('Dad’s PC and Mum’s laptop can take part');
  expect(screen.getByText(/can read everything you and the model write, word for word/)).toBeTruthy();
  await enter('prefix-layers', '3');
  await user.selectOptions(screen.getByTestId('spot-checks'), 'sometimes');
  await user.click(screen.getByTestId('first-words'));
  await user.selectOptions(screen.getByTestId('borrow'), 'own');
  expect(backend.house.settings.values).toMatchObject({ 'distributed_inference.local_prefix_layers': 3, 'distributed_inference.spot_checks_per_thousand': 20, 'distributed_inference.check_first_words': true, 'gate.borrow': 'own' });
  expect(screen.getByText(/protects from wrong numbers, not from reading/)).toBeTruthy();
  // A number that was written into the file by hand is shown as what it is.
  backend.change((house) => { house.settings.values['distributed_inference.spot_checks_per_thousand'] = 33; });
  await tick();
  expect(screen.getByTestId<HTMLSelectElement>('spot-checks').selectedOptions[0]?.textContent).toBe('33 of 1,000 pieces');
  await user.selectOptions(screen.getByTestId('spot-checks'), 'off');
  expect(backend.house.settings.values['distributed_inference.spot_checks_per_thousand']).toBe(0);
});

it('privacy says what a helper could read and how to measure it', async () => {
  await go('privacy');
  const said = await screen.findByTestId('read-by-helpers');
  expect(said.textContent).toContain('of 100 pieces of words, 100');
  expect(said.textContent).toContain('nook privacy measure "Qwen2.5 7B"');
});

it('privacy shows what was measured here, when, and that it may be more', async () => {
  await go('privacy');
  const of = await screen.findByTestId('measured-model');
  expect(of.textContent).toContain('ember');
  expect(of.textContent).toContain('At least 98 of 100 pieces of words of a public text were read from what a helper gets behind the first layer. Other methods may read more.');
  expect(of.textContent).toContain('Measured on 27 November 2026');
  expect(screen.getByTestId('read-by-helpers').textContent).toContain('To measure again, or another model');
  expect(screen.queryByTestId('measured-lost')).toBeNull();
});

it('privacy says that earlier results are lost', async () => {
  backend.privacy = () => Promise.resolve({ models: [], problem: 'privacy.json is damaged' });
  await go('privacy');
  const lost = await screen.findByTestId('measured-lost');
  expect(lost.textContent).toContain('could not be read and are lost');
  expect(screen.queryByTestId('measured-model')).toBeNull();
  expect(screen.getByTestId('read-by-helpers').textContent).toContain('To measure a model of your own');
});

it('privacy says what whole replies elsewhere mean before and after they are allowed', async () => {
  await go('privacy');
  const allow = screen.getByTestId('whole');
  expect(backend.house.settings.values['distributed_inference.whole_on_own_devices']).toBe(false);
  expect(screen.getByText(/Off, no other device sees a word/)).toBeTruthy();
  expect(screen.getByTestId('privacy-meter').textContent).not.toContain('whole replies');
  await user.click(allow);
  expect(backend.house.settings.values['distributed_inference.whole_on_own_devices']).toBe(true);
  backend.change((house) => { for (const d of house.devices) if (d.name === 'Dad’s PC') d.takes_whole = true; });
  await tick();
  expect(screen.getByTestId('privacy-meter').textContent).toContain('Dad’s PC may make whole replies, and then sees');
  expect(screen.getByText(/unless a device of yours makes the whole reply/)).toBeTruthy();
});
