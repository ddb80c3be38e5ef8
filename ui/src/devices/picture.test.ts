/** Promises of `picture.ts` and `members.ts`: everybody has a place of their own in the drawing, and every line is true. */
import { expect, it } from 'vitest';
import { startingHouse } from '../backend/fake/household';
import { pipelineOf } from '../backend/fake/past';
import type { HouseholdView } from '../generated/HouseholdView';
import { layersOf, membersOf, meOf, shownRoute } from './members';
import { arrange, WIDTH, type Picture, type Spot } from './picture';

/** Space that a label takes above or below its computer: a name of two lines, and what it does. */
const LABEL = 58;

/** Whether the label of one, with a name of two lines, lies on the circle or the label of the other. */
function isCovered(one: Spot, other: Spot): boolean {
  const box = boxOf(one);
  const [x, y] = [Math.max(box.left, Math.min(other.x, box.right)), Math.max(box.top, Math.min(other.y, box.bottom))];
  const its = boxOf(other);
  const isOnLabel = box.left < its.right && its.left < box.right && box.top < its.bottom && its.top < box.bottom;
  return isOnLabel || Math.hypot(other.x - x, other.y - y) < other.d / 2;
}

function boxOf({ x, y, d, label, labelWidth }: Spot): { left: number; right: number; top: number; bottom: number } {
  const top = label === 'above' ? y - d / 2 - LABEL : y + d / 2 + 8;
  return { left: x - labelWidth / 2, right: x + labelWidth / 2, top, bottom: top + LABEL - 8 };
}

/** So many other computers, the first `helping` of them on the route. */
function house(others: number, helping: number, gigabytes = 4): { house: HouseholdView; order: string[]; picture: (mirrored?: boolean) => Picture } {
  const made = startingHouse();
  const [dad] = made.devices;
  if (dad === undefined) throw new Error('the made-up household is empty');
  made.devices = Array.from({ length: others }, (_, at) => ({
    ...dad,
    id: `d${String(at)}`,
    name: `Computer ${String(at)}`,
    facts: { ...dad.facts, memory_bytes: (at + 1) * gigabytes * 1e9 },
    ...(at < helping ? {} : { unused: 'not_allowed' as const, unused_because: 'It is a guest.' }),
  }));
  const order = made.devices.slice(0, helping).map(({ id }) => id);
  const leg = (device_id: string, at: number) => ({ device_id, device: device_id, local: false, layers: [at * 4, at * 4 + 3] as [number, number], embedding: false, head: false });
  const route = { legs: order.map(leg) };
  return { house: made, order, picture: (mirrored = false) => arrange(meOf(made), membersOf(made, order, route), order, mirrored) };
}

it.each([[0, 0], [1, 1], [1, 0], [2, 2], [4, 2], [5, 2], [5, 3], [5, 5], [6, 1], [7, 2], [9, 2], [8, 3], [11, 4], [11, 11], [12, 0]])(
  '%i others, %i of them helping, stand apart and inside the drawing', (others, helping) => {
    for (const [mirrored, gigabytes] of [[false, 4], [true, 4], [false, 128]] as const) {
      const { me, others: spots, height, more } = house(others, helping, gigabytes).picture(mirrored);
      expect(spots.length + more).toBe(others);
      const all = [me, ...spots];
      for (const [index, one] of all.entries()) {
        const [top, bottom] = one.label === 'above' ? [one.y - one.d / 2 - LABEL, one.y + one.d / 2] : [one.y - one.d / 2, one.y + one.d / 2 + LABEL];
        expect(top, `${one.member.name} above`).toBeGreaterThanOrEqual(-16);
        expect(bottom, `${one.member.name} below`).toBeLessThanOrEqual(height);
        expect(one.x - one.labelWidth / 2, `${one.member.name} at the side`).toBeGreaterThanOrEqual(0);
        expect(one.x + one.labelWidth / 2, `${one.member.name} at the side`).toBeLessThanOrEqual(WIDTH);
        for (const other of all.slice(index + 1)) {
          expect(isCovered(one, other) || isCovered(other, one), `the name of ${one.member.name} and ${other.member.name}`).toBe(false);
          expect(Math.hypot(one.x - other.x, one.y - other.y), `${one.member.name} and ${other.member.name}`).toBeGreaterThan((one.d + other.d) / 2 + 8);
        }
      }
    }
  });

it('is mirrored for languages from right to left', () => {
  const [left, right] = [house(4, 2).picture(false), house(4, 2).picture(true)];
  expect(right.others.map(({ x }) => WIDTH - x)).toEqual(left.others.map(({ x }) => x));
});

it('draws a helper with twice the memory twice as large', () => {
  const [small, large] = house(2, 2).picture().others;
  expect(((large?.d ?? 0) / (small?.d ?? 1)) ** 2).toBeCloseTo(2, 1);
});

it('has one line from stop to stop of the route, there and back, and none where nobody helps', () => {
  const { lines, round } = house(5, 3).picture();
  expect(lines.filter(({ kind }) => kind === 'route').map(({ key }) => key.split(' ').slice(0, 2).map((id) => (id.startsWith('d') ? id : 'me')).join('-'))).toEqual(['me-d0', 'd0-d1', 'd1-d2', 'd2-me']);
  expect(round.match(/Q/g)).toHaveLength(4);
  expect(house(3, 0).picture().round).toBe('');
  expect(house(3, 0).picture().lines.every(({ kind }) => kind === 'unused')).toBe(true);
  expect(house(11, 2).picture().lines.every(({ kind }) => kind === 'route'), 'past eight, only those that help').toBe(true);
});

it('is as thick as the link is fast, and a line between two helpers as thick as the thinner', () => {
  const made = startingHouse();
  const { route } = shownRoute(pipelineOf(made), false);
  const order = route?.legs.map((leg) => leg.device_id) ?? [];
  const { lines } = arrange(meOf(made), membersOf(made, order, route), order, false);
  expect(lines.filter(({ kind }) => kind === 'route').map(({ width, carrier }) => [width, carrier])).toEqual([[6, 'Cable'], [3.5, ''], [3.5, 'Wi-Fi']]);
});

it('lists those that help first, most layers first, and says why others do not', () => {
  const made = startingHouse();
  const { route } = shownRoute(pipelineOf(made), false);
  const members = membersOf(made, [], route);
  expect(members.map(({ name, role, says }) => [name, role, says])).toEqual([
    ['Dad’s PC', 'helping', 'carries 20 of 28 parts'],
    ['Mum’s laptop', 'helping', 'carries 6 of 28 parts'],
    ['Old Dell', 'unused', 'not trusted yet'],
    ['Kitchen PC', 'found', 'shows a code now'],
    ['Attic', 'found', 'not paired'],
  ]);
});

it('shows the route of the reply that is made now, after a hand-over the new one, and else the last', () => {
  const made = startingHouse();
  const pipeline = pipelineOf({ ...made, sharing: { ...made.sharing, answering: true } });
  expect(shownRoute(pipeline, false).isRunning).toBe(false);
  expect(shownRoute(pipeline, true)).toMatchObject({ isRunning: true, route: pipeline.past[0]?.route });
  const [running] = pipeline.past;
  const later = { legs: running?.route.legs.filter((leg) => leg.local) ?? [] };
  running?.happened.push({ kind: 'took_over_here', route: later });
  expect(shownRoute(pipeline, true).route).toBe(later);
  expect(layersOf('dads7pcq4xk2m6vt', later)).toBe(0);
});
