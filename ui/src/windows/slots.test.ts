/** Promises of `slots.ts`: a device keeps its colour, whoever comes and goes. */
import { expect, it } from 'vitest';
import { keepPlaces, keptPlaces, places } from './slots';

it.each([
  [[], ['b', 'a'], ['b', 'a']],
  [['b', 'a'], ['a', 'b', 'c'], ['b', 'a', 'c']],
  [['b', 'a', 'c'], ['c', 'a'], ['', 'a', 'c']],
  [['', 'a', 'c'], ['a', 'c', 'd'], ['d', 'a', 'c']],
])('%j with %j paired becomes %j', (before, paired, after) => {
  expect(places(before, paired)).toEqual(after);
});

it('is remembered until the next time', () => {
  expect(places(keptPlaces(localStorage), ['a'])).toEqual(['a']);
  keepPlaces(localStorage, ['', 'a', 'c']);
  expect(keptPlaces(localStorage)).toEqual(['', 'a', 'c']);
});
