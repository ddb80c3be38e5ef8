/** The route ribbon in numbers and words: who computes which layers, in proportion. Pure. */
import type { LegView } from '../../generated/LegView';
import type { RouteView } from '../../generated/RouteView';
import { t } from '../../strings';

/** Hues in `tokens.css`; the first is always this computer. */
const HUES = 6;
/** A leg without layers still has to be seen. */
const SHARE_MIN = 0.5;

export interface Piece {
  key: number;
  /** Part of the whole, in layers. */
  share: number;
  /** CSS colour. */
  hue: string;
  /** Computed on this computer: drawn hatched. */
  kept: boolean;
  /** It took part at first, and others went on: drawn hollow. */
  left: boolean;
}

export interface LegendEntry {
  key: string;
  name: string;
  part: string;
  hue: string;
}

export interface Ribbon {
  pieces: Piece[];
  legend: LegendEntry[];
  /** All of it in one sentence, for people who do not see it. */
  sentence: string;
  /** How many devices took part. */
  devices: number;
}

/** A device's colour by its place among the paired ones, so that it is the same on every page. */
export function hueOf(index: number): string {
  return `var(--d${String(index < 0 ? HUES - 1 : 1 + (index % (HUES - 1)))})`;
}

/** The colour of this computer. */
export const OWN_HUE = 'var(--d0)';

/** The colours of the others. */
export const PEER_HUES: readonly string[] = Array.from({ length: HUES - 1 }, (_, index) => hueOf(index));

/** The colour of each device in `legs`. Those that are not paired any more come behind the `peers`, in the
 *  order of their appearance. */
export function huesOf(legs: readonly LegView[], peers: readonly string[]): (leg: LegView) => string {
  const strangers = legs.filter((leg) => !leg.local && !peers.includes(leg.device_id));
  const known = [...peers, ...new Set(strangers.map((leg) => leg.device_id))];
  return (leg) => (leg.local ? OWN_HUE : hueOf(known.indexOf(leg.device_id)));
}

/** `peers`: ids of the paired devices, each at the place that gives it its colour. `left`: one leg of each device that
 *  took part before, and has none in this route. */
export function ribbon(route: RouteView, peers: readonly string[], left: readonly LegView[] = []): Ribbon {
  const hue = huesOf([...left, ...route.legs], peers);
  const pieces = route.legs.map((leg, key) => ({
    key,
    share: leg.layers === null ? SHARE_MIN : leg.layers[1] - leg.layers[0] + 1,
    hue: hue(leg),
    kept: leg.local,
    left: false,
  }));
  const gone = left.map((leg, index) => ({ key: pieces.length + index, share: SHARE_MIN, hue: hue(leg), kept: false, left: true }));
  const legend = devicesOf(route.legs).map((legs) => ({
    key: legs[0].local ? '' : legs[0].device_id,
    name: legs[0].local ? t.route.here : legs[0].device,
    part: partOf(legs, route.legs),
    hue: hue(legs[0]),
  }));
  legend.push(...left.map((leg) => ({ key: leg.device_id, name: leg.local ? t.route.here : leg.device, part: t.route.left, hue: hue(leg) })));
  const sentence = legend.map(({ name, part }) => `${name}: ${part}`).join('; ');
  return { pieces: [...pieces, ...gone], legend, sentence, devices: legend.length };
}

/** The legs of each device, in the order of its first. */
export function devicesOf(legs: readonly LegView[]): [LegView, ...LegView[]][] {
  const groups = new Map<string, [LegView, ...LegView[]]>();
  for (const leg of legs) {
    const group = groups.get(leg.device_id);
    if (group === undefined) groups.set(leg.device_id, [leg]);
    else group.push(leg);
  }
  return [...groups.values()];
}

function partOf(legs: LegView[], all: LegView[]): string {
  if (legs.length === all.length) return legs.every((leg) => leg.local) ? t.route.all : t.route.allThere;
  const parts: string[] = [];
  if (legs.some((leg) => leg.embedding || leg.head)) parts.push(t.route.words);
  const ranges = legs.flatMap((leg) => (leg.layers === null ? [] : [leg.layers]));
  const [first, second] = ranges;
  if (ranges.length === 2 && first && second && first[0] === first[1] && second[0] === second[1]) {
    parts.push(t.route.twoLayers(first[0], second[0]));
  } else {
    parts.push(...ranges.map(([from, to]) => (from === to ? t.route.layer(from) : t.route.layers(from, to))));
  }
  return parts.join(t.route.and);
}
