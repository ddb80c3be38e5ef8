/** Promises of quiet hours: what is shown is what is kept, and half a time changes nothing. */
import { expect, it } from 'vitest';
import { readHours, USUAL, writeHours } from './quiet-hours';

it('shows what the settings say and writes it back the same', () => {
  expect(readHours('22:00-07:00')).toEqual({ from: '22:00', to: '07:00' });
  expect(writeHours(readHours('22:00-07:00'))).toBe('22:00-07:00');
  expect(writeHours(USUAL)).toBe('22:00-07:00');
});

it('knows that there are none', () => {
  expect(readHours('')).toBeNull();
  expect(writeHours(null)).toBe('');
});

it('shows the end of a day as fields can', () => {
  expect(readHours('09:00-24:00')).toEqual({ from: '09:00', to: '00:00' });
});

it.each([{ from: '', to: '07:00' }, { from: '22:00', to: '' }, { from: '07:00', to: '07:00' }])(
  'leaves everything as it is for %j', (hours) => {
    expect(writeHours(hours)).toBeNull();
  });
