/** Promises of `fit.ts`: here, with whom, or not at all. */
import { expect, it } from 'vitest';
import { startingHouse } from '../backend/fake/household';
import type { ModelView } from '../generated/ModelView';
import { fitOf } from './fit';

const house = startingHouse();
const GB = 1e9;

function model(gigabytes: number): ModelView {
  return { ...house.models.find((m) => !m.built_in) as ModelView, file_bytes: gigabytes * GB };
}

it.each([
  [4, 8 * GB, { kind: 'here' }],
  [7, 8 * GB, { kind: 'with', devices: ['Dad’s PC'] }],
  [14, 8 * GB, { kind: 'with', devices: ['Dad’s PC', 'Mum’s laptop'] }],
  [40, 8 * GB, { kind: 'no' }],
  [4, null, { kind: 'unknown' }],
])('a file of %d GB on a computer of %d bytes', (gigabytes, memory, expected) => {
  expect(fitOf(model(gigabytes), memory, house.devices)).toEqual(expected);
});

it('counts nobody who is away or not trusted', () => {
  const away = house.devices.map((device) => ({ ...device, connected: false }));
  expect(fitOf(model(7), 8 * GB, away)).toEqual({ kind: 'no' });
  const guests = house.devices.map((device) => ({ ...device, trust: 'guest' as const }));
  expect(fitOf(model(7), 8 * GB, guests)).toEqual({ kind: 'no' });
});
