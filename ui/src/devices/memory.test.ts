/** Promises of `memory.ts`: what is told of memory is said, with a bar where its whole is known, and nothing is made up. */
import { expect, it } from 'vitest';
import { DAD, MUM, startingHouse } from '../backend/fake/household';
import { loadedOf, memoryHere, memoryThere } from './memory';

const HOUSE = startingHouse();
const device = (id: string) => HOUSE.devices.find((one) => one.id === id) ?? fail();
const fail = () => { throw new Error('it is not in the made-up household'); };
const CARD = { number: 1, name: 'RTX 4070', memory_bytes: 12e9, shares_memory: false, own_bytes: 2e9, lent_bytes: 4e9 };

it('says what this computer lends at most, and nothing while it lends nothing', () => {
  const settings = { ...HOUSE.settings, lend_memory_bytes: 2e9 };
  const me = { ...HOUSE.me, memory_bytes: 8e9 };
  expect(memoryHere({ ...HOUSE, settings, me })).toEqual([{ text: 'Lends up to 2 of 8 GB', bar: [0.25] }]);
  expect(memoryHere({ ...HOUSE, settings, me: { ...me, memory_bytes: null } })).toEqual([{ text: 'Lends up to 2 GB', bar: [] }]);
  const none = [{ text: 'Lends none now', bar: [] }];
  expect(memoryHere({ ...HOUSE, sharing: { ...HOUSE.sharing, on: false } })).toEqual(none);
  expect(memoryHere({ ...HOUSE, sharing: { ...HOUSE.sharing, paused: { reason: 'owner', sentence: '', until: null } } })).toEqual(none);
});

it('has a line for each graphics card with a memory of its own, and none for one that says nothing', () => {
  const gpus = [CARD, { ...CARD, memory_bytes: null }, { ...CARD, shares_memory: true }];
  const [card, ...rest] = memoryHere({ ...HOUSE, sharing: { ...HOUSE.sharing, gpus } });
  expect(card).toEqual({ text: '6 of 12 GB graphics in use', bar: [4 / 12, 2 / 12] });
  expect(rest).toHaveLength(1);
});

it('says what another one could lend, of how much only where no card is counted in', () => {
  const mum = device(MUM);
  expect(memoryThere(mum)).toEqual([{ text: 'Can lend 6.4 of 16 GB', bar: [0.4] }]);
  expect(memoryThere({ ...mum, memory_free_bytes: 640e6 })[0]?.text).toBe('Can lend 640 MB of 16 GB');
  expect(memoryThere(device(DAD))).toEqual([{ text: 'Can lend 6.9 GB', bar: [] }]);
  expect(memoryThere({ ...mum, memory_free_bytes: 17e9 })).toEqual([{ text: 'Can lend 17 GB', bar: [] }]);
  expect(memoryThere({ ...mum, memory_free_bytes: null })).toEqual([]);
});

it('counts what is loaded of what is offered, and nothing where nothing is offered or there is no link', () => {
  const dad = device(DAD);
  expect(loadedOf(dad)).toEqual({ held: 16, offered: 20 });
  expect(loadedOf({ ...dad, lends: [...dad.lends, { model: 'ember', first_layer: 0, last_layer: 7, held: null }] })).toEqual({ held: 16, offered: 28 });
  expect(loadedOf({ ...dad, lends: [] })).toBeNull();
  expect(loadedOf({ ...dad, connected: false })).toBeNull();
});
