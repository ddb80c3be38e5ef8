/** Promises of the choice of what computes, against the fake household. */
import { screen } from '@testing-library/svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { go, open, user } from './testing';

let backend: FakeBackend;

beforeEach(async () => {
  ({ backend } = await open());
});

it('settings say whether the graphics card is used, and show what only the file can name', async () => {
  await go('settings');
  const choice = screen.getByTestId<HTMLSelectElement>('use-card');
  expect(choice.value).toBe('auto');
  expect([...choice.options].map((option) => option.value)).toEqual(['auto', 'gpu', 'native']);
  await user.selectOptions(choice, 'native');
  expect(backend.house.settings.values['distributed_inference.backend']).toBe('native');
  backend.change((house) => { house.settings.values['distributed_inference.backend'] = 'gpu:1'; });
  await vi.waitFor(() => { expect(choice.value).toBe('gpu:1'); });
  expect(choice.selectedOptions[0]?.textContent).toBe('As set in the file: gpu:1');
  await user.selectOptions(choice, 'auto');
  expect(backend.house.settings.values['distributed_inference.backend']).toBe('auto');
});

it('settings offer each graphics card alone, where there are several', async () => {
  await go('settings');
  const choice = screen.getByTestId<HTMLSelectElement>('use-card');
  const card = { memory_bytes: 8e9, shares_memory: false, own_bytes: 0, lent_bytes: 0 };
  const names = (): (string | null)[] => [...choice.options].map((option) => option.textContent);
  backend.change((house) => { house.sharing.gpus = [{ ...card, number: 0, name: 'Radeon' }, { ...card, number: 2, name: 'GeForce' }]; });
  await vi.waitFor(() => { expect(names().slice(3)).toEqual(['Only Radeon', 'Only GeForce']); });
  await user.selectOptions(choice, 'gpu:2');
  expect(backend.house.settings.values['distributed_inference.backend']).toBe('gpu:2');
  await vi.waitFor(() => { expect(choice.selectedOptions[0]?.textContent).toBe('Only GeForce'); });
  backend.change((house) => { house.sharing.gpus = [{ ...card, number: 0, name: 'GeForce' }, { ...card, number: 2, name: 'GeForce' }]; });
  await vi.waitFor(() => { expect(names().slice(3)).toEqual(['Only GeForce (0)', 'Only GeForce (2)']); });
});
