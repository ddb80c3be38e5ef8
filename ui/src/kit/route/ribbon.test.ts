/** Promises of `ribbon.ts`: proportions, words, and colours that stay with their device. */
import { expect, it } from 'vitest';
import type { LegView } from '../../generated/LegView';
import { ribbon } from './ribbon';

function leg(device: string, layers: [number, number] | null, ends = ''): LegView {
  return {
    device_id: device,
    device: device.toUpperCase(),
    local: device === 'me',
    layers,
    embedding: ends.includes('e'),
    head: ends.includes('h'),
  };
}

const TWO_HELPERS = [leg('me', [0, 0], 'e'), leg('dad', [1, 20]), leg('mum', [21, 26]), leg('me', [27, 27], 'h')];

it('draws every leg in proportion to its layers, the ends of this computer hatched', () => {
  const { pieces } = ribbon({ legs: TWO_HELPERS }, ['dad', 'mum']);
  expect(pieces.map((p) => [p.share, p.kept])).toEqual([[1, true], [20, false], [6, false], [1, true]]);
});

it('says it in words', () => {
  expect(ribbon({ legs: TWO_HELPERS }, ['dad', 'mum']).sentence).toBe(
    'This computer: words, layers 0 and 27; DAD: layers 1–20; MUM: layers 21–26',
  );
  expect(ribbon({ legs: [leg('me', [0, 7], 'eh')] }, []).sentence).toBe('This computer: everything');
  expect(ribbon({ legs: [leg('me', null, 'e'), leg('dad', [0, 7]), leg('me', null, 'h')] }, ['dad']).sentence).toBe(
    'This computer: words; DAD: layers 0–7',
  );
});

it('says that the words are there too where another device makes the whole reply', () => {
  const { pieces, sentence } = ribbon({ legs: [leg('dad', [0, 27], 'eh')] }, ['dad']);
  expect(sentence).toBe('DAD: everything, the words too');
  expect(pieces.map((p) => p.kept)).toEqual([false]);
});

it('gives a device the colour of its place in the house, whoever else takes part', () => {
  const alone = ribbon({ legs: [TWO_HELPERS[0], TWO_HELPERS[2]].filter((l) => l !== undefined) }, ['dad', 'mum']);
  const both = ribbon({ legs: TWO_HELPERS }, ['dad', 'mum']);
  expect(alone.pieces[1]?.hue).toBe(both.pieces[2]?.hue);
  expect(both.pieces[1]?.hue).not.toBe(both.pieces[2]?.hue);
});

it('names a device that helped first and is not in the route any more, in its own colour and hollow', () => {
  const route = { legs: TWO_HELPERS.filter((one) => one.device_id !== 'dad') };
  const { pieces, legend, sentence, devices } = ribbon(route, ['dad', 'mum'], [leg('dad', [1, 20])]);
  expect(devices).toBe(3);
  expect(sentence).toMatch(/; DAD: helped first, then left$/);
  expect(pieces.map((p) => p.left)).toEqual([false, false, false, true]);
  expect(legend.at(-1)?.hue).toBe(ribbon({ legs: TWO_HELPERS }, ['dad', 'mum']).pieces[1]?.hue);
});

it('shows a leg without layers and a device that is gone from the house', () => {
  const { pieces, devices } = ribbon({ legs: [leg('me', null, 'eh'), leg('old', [0, 7])] }, []);
  expect(pieces[0]?.share).toBeGreaterThan(0);
  expect(pieces[1]?.hue).toMatch(/^var\(--d[1-5]\)$/);
  expect(devices).toBe(2);
});
