/** Promises of `words.ts`: how numbers and times are said. */
import { expect, it } from 'vitest';
import { ago, bytes, countdown, countWords, listOf, milliseconds, seconds, speed } from './words';

it.each([
  [speed(14.2), '14'],
  [speed(9.34), '9.3'],
  [speed(0.8), '0.8'],
  [seconds(412), '0.4'],
  [seconds(12_400), '12'],
  [milliseconds(0.42), '0.4'],
  [milliseconds(48.4), '48'],
  [bytes(6.9e9), '6.9 GB'],
  [bytes(4_186_816), '4.2 MB'],
  [bytes(16_400), '16 kB'],
  [bytes(7), '7 bytes'],
  [bytes(1), '1 byte'],
  [bytes(0), '0 bytes'],
  [countdown(101.2), '1:42'],
  [countdown(-3), '0:00'],
  [ago(1000, 1030), 'just now'],
  [ago(1000, 900), 'just now'],
  [ago(0, 3600), '1 hour ago'],
  [ago(0, 86_400), 'yesterday'],
  [ago(0, 60 * 5), '5 minutes ago'],
  [listOf(['Dad’s PC', 'Mum’s laptop']), 'Dad’s PC and Mum’s laptop'],
])('says %j as %j', (said, expected) => {
  expect(said).toBe(expected);
});

it('counts words as people do', () => {
  expect(countWords('')).toBe(0);
  expect(countWords('  one\n\ntwo,three  four ')).toBe(3);
});
