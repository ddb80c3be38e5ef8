/** Promises of adding a device: codes, targets, and what is said when it does not work. */
import { expect, it, vi } from 'vitest';
import { Refusal } from '../backend/backend';
import { FakeBackend } from '../backend/fake';
import { digitsOf, inGroups, secondsLeft, ShowCode, spelled, TypeCode } from './pairing.svelte';

function typing(): { backend: FakeBackend; typing: TypeCode } {
  const backend = new FakeBackend({ tokenMs: 0 });
  return { backend, typing: new TypeCode(backend, () => backend.house.devices.filter((d) => !d.paired)) };
}

it('takes a code as people write it', () => {
  expect(digitsOf(' 483-920 1')).toBe('483920');
  expect(inGroups('4839')).toBe('483 9');
  expect(inGroups('48')).toBe('48');
  expect(spelled('483920')).toBe('4 8 3, 9 2 0');
});

it('counts down to nothing, not below', () => {
  const pairing = { code: '1', addresses: [], expires: 100, tries_left: 3 };
  expect(secondsLeft(pairing, 70)).toBe(30);
  expect(secondsLeft(pairing, 170)).toBe(0);
});

it('pairs with the only device that shows a code', async () => {
  const { backend, typing: it } = typing();
  it.type('483 920');
  expect((await it.join())?.name).toBe('Kitchen PC');
  expect(it.problem).toBeNull();
  expect(backend.house.devices.find((d) => d.name === 'Kitchen PC')?.trust).toBe('guest');
});

it('lets a typed address win over the list', async () => {
  const { backend, typing: it } = typing();
  const join = vi.spyOn(backend, 'join');
  it.address = ' 192.168.1.44 ';
  it.type('483920');
  await it.join();
  expect(join).toHaveBeenCalledWith({ kind: 'address', at: '192.168.1.44' }, '483920');
});

it('asks for what is missing before it asks the other device', async () => {
  const { backend, typing: it } = typing();
  const join = vi.spyOn(backend, 'join');
  it.type('4839');
  await it.join();
  expect(it.problem).toBe('Type all six digits.');
  backend.house.devices = [];
  const alone = new TypeCode(backend, () => []);
  alone.type('483920');
  await alone.join();
  expect(alone.problem).toContain('Choose the other computer');
  expect(join).not.toHaveBeenCalled();
});

it('forgets a wrong code and says that it was wrong', async () => {
  const { typing: it } = typing();
  it.type('111111');
  await it.join();
  expect(it.digits).toBe('');
  expect([it.failure, it.problem]).toEqual(['wrong', 'The code is not the one on the other screen.']);
});

it('says why no code can be shown', async () => {
  const { backend } = typing();
  vi.spyOn(backend, 'showCode').mockRejectedValue(new Error('Five codes an hour are enough.'));
  const showing = new ShowCode(backend);
  await showing.show();
  expect(showing.problem).toBe('Five codes an hour are enough.');
  expect(showing.busy).toBe(false);
});

it('tells a refusal for being asked too often from a wrong code', async () => {
  const { backend, typing: it } = typing();
  vi.spyOn(backend, 'join').mockRejectedValue(new Refusal({ code: 'rate_limited', sentence: 'Too many.' }));
  it.type('483920');
  await it.join();
  expect(it.failure).toBe('busy');
});
