/** Where everything stands in the living picture: a fan of computers around the fire, which is this one. Pure; lengths
 *  are in pixels of a drawing that is never scaled. */
import type { Member } from './members';

export const WIDTH = 788;

export interface Spot {
  member: Member;
  x: number;
  y: number;
  /** Diameter. */
  d: number;
  label: 'above' | 'below';
  labelWidth: number;
}

export interface Line {
  key: string;
  path: string;
  width: number;
  kind: 'route' | 'ready' | 'unused';
  /** In the middle of it. */
  carrier: string;
  x: number;
  y: number;
}

export interface Picture {
  height: number;
  me: Spot;
  others: Spot[];
  lines: Line[];
  /** The way that numbers take, there and back: me, the helpers in order, me. Empty where nobody helps. */
  round: string;
  /** How many more there are than fit. */
  more: number;
}

interface Point { x: number; y: number }

/** A fan of at most so many: those that help within, the others around. */
const INNER_MAX = 5;
const OUTER_MAX = 7;
/** Past these only those that help have lines. */
const LINES_MAX = 8;
const CENTRE = WIDTH / 2;
/** How far a line bends, as a part of its length. */
const BEND = 0.16;

/** `order`: ids of those that help, as the route goes. `mirrored`: for languages from right to left. */
export function arrange(me: Member, members: readonly Member[], order: readonly string[], mirrored: boolean): Picture {
  const inner = members.filter(({ role }) => role === 'helping' || role === 'ready').slice(0, INNER_MAX);
  const outer = members.filter((member) => !inner.includes(member)).slice(0, OUTER_MAX);
  const drawn = fan(me, inner, outer);
  const turn = (spot: Spot): Spot => (mirrored ? { ...spot, x: WIDTH - spot.x } : spot);
  const [mine, others] = [turn(drawn.me), drawn.others.map(turn)];
  const helpers = order.flatMap((id) => others.filter(({ member }) => member.id === id && member.role === 'helping'));
  const bend = mirrored ? -BEND : BEND;
  return {
    height: drawn.height,
    me: mine,
    others,
    lines: [...spokes(mine, others, bend), ...loop(mine, helpers, bend)],
    round: round(mine, helpers, bend),
    more: members.length - others.length,
  };
}

/** Diameter by memory, so that twice the memory is twice the area. */
function across(bytes: number | null, [least, scale, most]: readonly [number, number, number]): number {
  return Math.round(Math.min(most, Math.max(least, scale * Math.sqrt((bytes ?? 0) / 1e9))));
}

const LARGE = [48, 24, 112] as const;
const SMALL = [38, 18, 80] as const;
/** Where many help, and above each a name of two lines. */
const SMALLER = [36, 15, 64] as const;
/** Around them, where names need the room. */
const SMALLEST = [34, 14, 56] as const;

function fan(me: Member, inner: readonly Member[], outer: readonly Member[]): Pick<Picture, 'height' | 'me' | 'others'> {
  const spot = (member: Member, x: number, y: number, size: readonly [number, number, number], labelWidth: number, label: Spot['label'] = 'above'): Spot =>
    ({ member, x, y, d: across(member.bytes, size), label, labelWidth });
  const all = [...inner, ...outer];
  if (all.length < 2) {
    const x = all.length === 0 ? CENTRE : 250;
    return { height: 232, me: spot(me, x, 96, LARGE, 220, 'below'), others: all.map((one) => spot(one, WIDTH - x, 96, LARGE, 220, 'below')) };
  }
  if (inner.length > 0 && inner.length < 3 && outer.length < 4) {
    const top = outer.length === 3 ? 36 : 0;
    const middle = inner.length === 1 && top === 0 ? [{ x: CENTRE, y: 110 }] : [{ x: 232, y: 124 + top }, { x: 556, y: 124 + top }];
    const around = [{ x: 96, y: 240 + top }, { x: 692, y: 240 + top }, { x: CENTRE, y: 90 }];
    const place = (seats: readonly Point[], width: number) => (one: Member, at: number) =>
      spot(one, seats[at]?.x ?? CENTRE, seats[at]?.y ?? 0, at < 2 ? LARGE : SMALL, width);
    return { height: 356 + top, me: spot(me, CENTRE, 254 + top, LARGE, 220, 'below'), others: [...inner.map(place(middle, 200)), ...outer.map(place(around, 156))] };
  }
  const y = 410;
  type Place = (one: Member, x: number, y: number) => Spot;
  const arc = (members: readonly Member[], [rx, ry]: readonly [number, number], margins: readonly number[], place: Place) =>
    members.map((one, at) => {
      const angle = angleOf(at, members.length, margins);
      return place(one, Math.round(CENTRE - rx * Math.cos(angle)), Math.round(y - ry * Math.sin(angle)));
    });
  const others = [
    ...arc(inner, [190, 200], INNER_MARGINS, (one, x, up) => spot(one, x, up, SMALLER, 116)),
    ...arc(outer, [326, 336], OUTER_MARGINS, (one, x, up) => spot(one, x, up, SMALLEST, 128)),
  ];
  return { height: 510, me: spot(me, CENTRE, y, SMALL, 200, 'below'), others };
}

/** Degrees between the ends of an arc and the ground, by how many stand on it: so that no name lies on a neighbour. */
const INNER_MARGINS = [90, 90, 42, 28, 19, 5];
const OUTER_MARGINS = [90, 90, 42, 28, 19, 15, 12, 9];

/** From the left over the top to the right, in radians. */
function angleOf(at: number, count: number, margins: readonly number[]): number {
  const margin = margins[count] ?? 0;
  const degrees = count < 2 ? 90 : margin + (at * (180 - 2 * margin)) / (count - 1);
  return (degrees * Math.PI) / 180;
}

/** Lines to those that have no part in the route. */
function spokes(me: Spot, others: readonly Spot[], bend: number): Line[] {
  if (others.length > LINES_MAX) return [];
  return others.filter(({ member }) => member.role !== 'helping').map((spot) => {
    const isReady = spot.member.role === 'ready';
    // They hang, so that they pass below those that help.
    const side = Math.abs(spot.x - me.x) < 1 ? 0 : spot.x < me.x ? Math.abs(bend) : -Math.abs(bend);
    return line(me, spot, isReady ? side / 2 : side * 1.4, isReady ? spot.member.line : 1.75, isReady ? 'ready' : 'unused', isReady ? spot.member.carrier : '');
  });
}

/** The lines of the route. Only those that end here are known to this computer, so the others are as thick as the thinner
 *  of the two. */
function loop(me: Spot, helpers: readonly Spot[], bend: number): Line[] {
  const stops = [me, ...helpers, me];
  return stops.slice(1).map((to, at) => {
    const from = stops[at] ?? me;
    const widths = [from, to].filter((spot) => spot !== me).map(({ member }) => member.line || 2);
    const isLast = to === me && helpers.length === 1;
    const carrier = isLast || (from !== me && to !== me) ? '' : (from === me ? to : from).member.carrier;
    return line(from, to, bend, Math.min(...widths), 'route', carrier);
  }).filter(({ key }) => helpers.length > 0 && key !== '');
}

function line(from: Spot, to: Spot, bend: number, width: number, kind: Line['kind'], carrier: string): Line {
  const by = control(from, to, bend);
  return {
    key: `${from.member.id} ${to.member.id} ${kind}`,
    path: `M${at(from)} Q${at(by)} ${at(to)}`,
    width,
    kind,
    carrier,
    x: from.x / 4 + by.x / 2 + to.x / 4,
    y: from.y / 4 + by.y / 2 + to.y / 4,
  };
}

function round(me: Spot, helpers: readonly Spot[], bend: number): string {
  if (helpers.length === 0) return '';
  const stops = [me, ...helpers, me];
  const rest = stops.slice(1).map((to, index) => `Q${at(control(stops[index] ?? me, to, bend))} ${at(to)}`);
  return `M${at(me)} ${rest.join(' ')}`;
}

/** Beside the middle of a line: on the left of whoever walks along it. */
function control(from: Point, to: Point, bend: number): Point {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  return { x: Math.round((from.x + to.x) / 2 + bend * dy), y: Math.round((from.y + to.y) / 2 - bend * dx) };
}

function at({ x, y }: Point): string {
  return `${String(x)} ${String(y)}`;
}
