/** Promises of the time that a test lets pass by hand. */
import { expect, it } from 'vitest';
import { ByHand } from './pace';

it('stands until it is told to pass, and brings things in their order', async () => {
  const pace = new ByHand();
  const happened: string[] = [];
  pace.later(30, () => { happened.push('third'); });
  pace.later(10, () => {
    happened.push('first');
    void pace.pause(10).then(() => { happened.push('second'); });
  });
  expect(happened).toEqual([]);
  await pace.pass(9);
  expect(happened).toEqual([]);
  await pace.pass(11);
  expect(happened).toEqual(['first', 'second']);
  await pace.pass(100);
  expect(happened).toEqual(['first', 'second', 'third']);
});

it('waits for what begins a little later', async () => {
  const pace = new ByHand();
  let happened = false;
  const passed = pace.pass(1);
  await Promise.resolve();
  pace.later(1, () => { happened = true; });
  await passed;
  expect(happened).toBe(true);
});
