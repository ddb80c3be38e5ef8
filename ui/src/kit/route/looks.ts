/**
 * Which devices computed which words of a reply, as looks of its stretches. Pure.
 *
 * A look is a colour, a kind of line, a number before the words, and names: nobody has to tell
 * colours apart. Stretches that the same devices computed look the same, whatever each of them did.
 */
import type { LegView } from '../../generated/LegView';
import type { StretchView } from '../../generated/StretchView';
import { t } from '../../strings';
import { listOf } from '../words';
import { devicesOf, huesOf, OWN_HUE, PEER_HUES } from './ribbon';

/** Lines in the margin and, where no tint is drawn, under words: those that CSS has for both. A fifth look begins anew. */
const LINES = ['solid', 'dashed', 'dotted', 'double'] as const;

export interface Look {
  /** From 1, by first appearance; stands before the words. */
  number: number;
  /** CSS colour. */
  hue: string;
  /** CSS style of the line. */
  line: (typeof LINES)[number];
  /** The devices, in words. */
  names: string;
}

export interface Change {
  /** Characters of the reply before it, as JavaScript counts. */
  at: number;
  look: Look;
}

export interface Looks {
  /** Each look once. */
  legend: readonly Look[];
  /** Where each stretch begins, in order; neighbours differ. */
  changes: readonly Change[];
  /** Whether there are words before the first stretch: nobody wrote down who computed them. */
  partly: boolean;
}

/**
 * `length`: characters of the reply; stretches behind its end are left out. `peers`: ids of the paired
 * devices, each at the place that gives it its colour.
 */
export function looksOf(stretches: readonly StretchView[], length: number, peers: readonly string[]): Looks {
  const hue = huesOf(stretches.flatMap(({ route }) => route.legs), peers);
  const looks = new Map<string, Look>();
  const changes: Change[] = [];
  for (const { at, route } of worded(stretches, length)) {
    const devices = devicesOf(route.legs);
    const key = devices.map((legs) => legs[0].device_id).sort().join(' ');
    const look = looks.get(key) ?? newLook(looks, devices, hue);
    looks.set(key, look);
    if (changes.at(-1)?.look !== look) changes.push({ at, look });
  }
  return { legend: [...looks.values()], changes, partly: (changes[0]?.at ?? 0) > 0 };
}

/** The stretches that have words, their places in order whatever was kept. */
function worded(stretches: readonly StretchView[], length: number): StretchView[] {
  const kept: StretchView[] = [];
  for (const stretch of stretches) {
    if (stretch.at < 0 || stretch.at >= length) continue;
    while ((kept.at(-1)?.at ?? -1) >= stretch.at) kept.pop();
    kept.push(stretch);
  }
  return kept;
}

function newLook(looks: ReadonlyMap<string, Look>, devices: Device[], hue: (leg: LegView) => string): Look {
  const taken = [...looks.values()];
  const free = (colour: string) => taken.every((look) => look.hue !== colour);
  // The colour of one of the devices, whoever computes most first; else one that is not taken.
  const own = [...devices].sort((a, b) => weight(b) - weight(a)).map((legs) => hue(legs[0]));
  const colour = own.find(free) ?? [OWN_HUE, ...PEER_HUES].find(free) ?? own[0] ?? OWN_HUE;
  const names = devices.map((legs) => (legs[0].local ? t.route.here : legs[0].device));
  const line = LINES[taken.length % LINES.length] ?? LINES[0];
  return { number: taken.length + 1, hue: colour, line, names: listOf(names) };
}

type Device = [LegView, ...LegView[]];

/** Layers of a device; other devices go before this one, which takes part in nearly every route. */
function weight(legs: Device): number {
  const layers = legs.reduce((sum, leg) => sum + (leg.layers === null ? 0 : leg.layers[1] - leg.layers[0] + 1), 0);
  return legs[0].local ? -1 : layers;
}
