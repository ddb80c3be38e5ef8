/** Promises of the first start: one question at a time, each can be skipped, and never again. */
import { expect, it } from 'vitest';
import { FirstStart, STEPS } from './first-start.svelte';

it('asks each question once, in order', () => {
  const start = new FirstStart(localStorage);
  const asked = [];
  while (start.step !== null) {
    asked.push(start.step);
    start.next();
  }
  expect(asked).toEqual([...STEPS]);
  expect(new FirstStart(localStorage).step).toBeNull();
});

it('goes on where it was when the page is loaded anew', () => {
  new FirstStart(localStorage).next();
  expect(new FirstStart(localStorage).step).toBe('model');
});

it('is over when the person does not want it', () => {
  const start = new FirstStart(localStorage);
  start.end();
  start.next();
  expect(start.step).toBeNull();
  expect(new FirstStart(localStorage).step).toBeNull();
});
