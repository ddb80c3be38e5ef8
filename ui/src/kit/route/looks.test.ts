/** Promises of `looks.ts`: each set of devices has one look, told apart by number, line, colour and names. */
import { expect, it } from 'vitest';
import type { RouteView } from '../../generated/RouteView';
import type { StretchView } from '../../generated/StretchView';
import { looksOf } from './looks';

const NAMES: Record<string, string> = { me: 'Mia’s laptop', dad: 'Dad’s PC', mum: 'Mum’s laptop', gone: 'Attic' };

/** This computer at both ends and the others between, with so many layers each. */
function route(...others: [string, number][]): RouteView {
  const leg = (device_id: string, first: number, count: number) => ({
    device_id, device: NAMES[device_id] ?? device_id, local: device_id === 'me',
    layers: [first, first + count - 1] as [number, number], embedding: false, head: false,
  });
  let next = 1;
  const middle = others.map(([id, count]) => {
    next += count;
    return leg(id, next - count, count);
  });
  return { legs: [leg('me', 0, 1), ...middle, leg('me', next, 1)] };
}

const DAD = route(['dad', 20]);
const MUM = route(['mum', 20]);
const BOTH = route(['dad', 14], ['mum', 6]);
const ALONE = route();

function shown(stretches: [number, RouteView][], length = 100) {
  const views = stretches.map(([at, over]): StretchView => ({ at, after_tokens: 0, route: over }));
  return looksOf(views, length, ['dad', 'mum']);
}

const begins = (looks: ReturnType<typeof looksOf>) => looks.changes.map(({ at, look }) => [at, look.number]);

it('numbers looks by appearance, and gives one back to the devices that had it', () => {
  const looks = shown([[0, DAD], [10, MUM], [30, DAD], [40, ALONE]]);
  expect(begins(looks)).toEqual([[0, 1], [10, 2], [30, 1], [40, 3]]);
  expect(looks.legend.map((look) => look.names)).toEqual([
    'This computer and Dad’s PC', 'This computer and Mum’s laptop', 'This computer',
  ]);
  expect(new Set(looks.legend.map((look) => look.line)).size).toBe(3);
  expect(new Set(looks.legend.map((look) => look.hue)).size).toBe(3);
});

it('goes on in one look where the same devices divide the work anew', () => {
  expect(begins(shown([[0, BOTH], [10, route(['mum', 10], ['dad', 10])], [20, DAD]]))).toEqual([[0, 1], [20, 2]]);
});

it.each<[string, [number, RouteView][], number, [number, number][]]>([
  ['nothing is known', [], 9, []],
  ['the reply is empty', [[0, DAD]], 0, []],
  ['a stretch is empty', [[0, DAD], [4, MUM], [4, ALONE]], 9, [[0, 1], [4, 2]]],
  ['the first is empty', [[0, DAD], [0, MUM]], 9, [[0, 1]]],
  ['an empty one lies between two of the same devices', [[0, DAD], [4, MUM], [4, DAD]], 9, [[0, 1]]],
  ['the last begins where the words end', [[0, DAD], [9, MUM]], 9, [[0, 1]]],
  ['the words behind a change were never saved', [[0, DAD], [30, MUM]], 9, [[0, 1]]],
  ['places go backwards', [[0, DAD], [5, MUM], [3, ALONE]], 9, [[0, 1], [3, 2]]],
  ['places are below 0', [[-3, DAD], [0, MUM]], 9, [[0, 1]]],
])('keeps its places in order where %s', (_, stretches, length, expected) => {
  expect(begins(shown(stretches, length))).toEqual(expected);
});

it('says where words are older than what was written down', () => {
  expect(shown([[5, DAD]]).partly).toBe(true);
  expect(shown([[0, DAD]]).partly).toBe(false);
  expect(shown([]).partly).toBe(false);
});

it('takes the colour of the device that computes most, as on every page, and else one that is free', () => {
  const hues = (...over: RouteView[]) => shown(over.map((one, index) => [index, one])).legend.map((look) => look.hue);
  expect(hues(DAD, MUM, ALONE)).toEqual(['var(--d1)', 'var(--d2)', 'var(--d0)']);
  // Dad's colour is taken by Dad alone, so the two of them together have Mum's.
  expect(hues(DAD, BOTH)).toEqual(['var(--d1)', 'var(--d2)']);
  expect(hues(BOTH, DAD, ALONE)).toEqual(['var(--d1)', 'var(--d0)', 'var(--d2)']);
});

it('has a colour for a device that is gone from the house, and lines for more looks than there are', () => {
  expect(shown([[0, route(['gone', 5])]]).legend[0]?.hue).toMatch(/^var\(--d[1-5]\)$/);
  const many = Array.from({ length: 8 }, (_, index): [number, RouteView] => [index, route([`old${String(index)}`, 5])]);
  const { legend } = shown(many);
  expect(legend.map((look) => look.number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(legend[4]?.line).toBe(legend[0]?.line);
});
