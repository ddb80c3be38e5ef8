/** Promise of the pages: each setting that the program takes from a page is one that a page offers. */
import { expect, it } from 'vitest';
import { OFFERED } from '../generated/settings';

const pages = import.meta.glob<string>('../**/*.svelte', { query: '?raw', import: 'default', eager: true });

it.each(OFFERED)('offers %s', (key) => {
  const offering = Object.entries(pages).filter(([, page]) => page.includes(`key: '${key}'`));
  expect(offering.map(([file]) => file)).not.toEqual([]);
});
