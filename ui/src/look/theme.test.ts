/** Promises of the themes: need wins over taste. */
import { expect, it } from 'vitest';
import { themeFor } from './theme';

it('follows the system, and high contrast first', () => {
  expect(themeFor(false, false)).toBe('light');
  expect(themeFor(true, false)).toBe('dark');
  expect(themeFor(true, true)).toBe('contrast');
});
