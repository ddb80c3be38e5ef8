/** Promises of one's own presets: kept, replaced by name, forgotten, and never a reason to fail. */
import { expect, it } from 'vitest';
import { Presets } from './presets.svelte';

it('are there the next time, one to a name', () => {
  const presets = new Presets(localStorage);
  presets.keep(' Poems ', 'Answer in rhymes.');
  presets.keep('Poems', 'Answer in haiku.');
  presets.keep('', 'no name');
  presets.keep('no text', '  ');
  expect(new Presets(localStorage).own).toEqual([{ name: 'Poems', text: 'Answer in haiku.' }]);
  presets.forget('Poems');
  expect(new Presets(localStorage).own).toEqual([]);
});

it.each(['{', '{"a":1}', '[1, null, {"name": 3}]'])('take %s for nothing', (json) => {
  localStorage.setItem('inglenook.presets', json);
  expect(new Presets(localStorage).own).toEqual([]);
});
