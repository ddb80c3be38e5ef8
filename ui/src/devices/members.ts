/** The household as the picture and the rows show it: who is in it, what each does, how its link is. Pure. */
import type { DeviceView } from '../generated/DeviceView';
import type { DeviceKind } from '../generated/DeviceKind';
import type { HouseholdView } from '../generated/HouseholdView';
import type { PipelineView } from '../generated/PipelineView';
import type { RouteView } from '../generated/RouteView';
import { hueOf, OWN_HUE } from '../kit/route/ribbon';
import { t } from '../strings';
import { ready } from './device';
import { loadedOf } from './memory';

/** `helping`: it has a part in the route that is shown. `ready`: it could have one in the next. */
export type Role = 'me' | 'helping' | 'ready' | 'unused' | 'found';

export interface Member {
  id: string;
  name: string;
  role: Role;
  /** CSS colour. */
  hue: string;
  /** What it is drawn as; null where nobody said. */
  kind: DeviceKind | null;
  /** All of its memory, or what it still offers where it says no more; null where nobody said. */
  bytes: number | null;
  /** What it does or why it is not used, in a few words. */
  says: string;
  /** The same for labels with little room. */
  short: string;
  /** How much of what it offers is in its memory, 0 to 1; null where that is not known. */
  loaded: number | null;
  /** That in words: `16 of 20 parts loaded`; empty where it is not known. */
  loadedSays: string;
  /** How thick its line is drawn; 0 while there is no link. */
  line: number;
  /** `Cable`; empty while there is no link, or nobody knows what carries it. */
  carrier: string;
}

/** Who computes the reply that is being made now, or computed the last one. */
export interface Shown {
  route: RouteView | null;
  isRunning: boolean;
}

/** A line's width by what it carries, in bytes per second, the fastest first; then by what it is made of. */
const LINES: readonly { from: number; width: number }[] = [{ from: 60e6, width: 6 }, { from: 8e6, width: 3.5 }, { from: 0, width: 2 }];
const LINE_OF = { cable: 6, wifi: 3.5, other: 2, unknown: 2 } as const;

/** `answering`: whether replies of this computer are made now. */
export function shownRoute(pipeline: PipelineView | null, answering: boolean): Shown {
  const running = answering ? pipeline?.past.find((reply) => reply.end.kind === 'under_way') : undefined;
  if (running === undefined) return { route: pipeline?.last?.route ?? null, isRunning: false };
  const later = running.happened.flatMap((one) => (one.kind === 'took_over' || one.kind === 'took_over_here' ? [one.route] : []));
  return { route: later.at(-1) ?? running.route, isRunning: true };
}

export function meOf({ me }: HouseholdView): Member {
  const { id, name, facts: { kind }, memory_bytes: bytes } = me;
  return { id, name, role: 'me', kind, hue: OWN_HUE, bytes, ...label(t.household.words), loaded: null, loadedSays: '', line: 0, carrier: '' };
}

/** Everybody else: those that help, most layers first, then those that could, those that are not used, and those that
 *  are not paired. `peers`: ids of the paired devices, each at the place that gives it its colour. */
export function membersOf(house: HouseholdView, peers: readonly string[], route: RouteView | null): Member[] {
  const all = house.devices.map((device) => ({ member: memberOf(device, peers, route), layers: layersOf(device.id, route) }));
  const ranks: readonly Role[] = ['helping', 'ready', 'unused', 'found'];
  return ranks.flatMap((role) =>
    all.filter(({ member }) => member.role === role).sort((a, b) => b.layers - a.layers).map(({ member }) => member));
}

/** How many layers of a route a device computes. */
export function layersOf(id: string, route: RouteView | null): number {
  const legs = (route?.legs ?? []).filter((leg) => leg.device_id === id);
  return legs.reduce((sum, { layers }) => sum + (layers === null ? 0 : layers[1] - layers[0] + 1), 0);
}

/** `20 of 28 parts`. */
export function partWords(id: string, route: RouteView | null): string {
  const ids = new Set(route?.legs.map((leg) => leg.device_id));
  const all = [...ids].reduce((sum, one) => sum + layersOf(one, route), 0);
  return t.household.part(layersOf(id, route), all);
}

function memberOf(device: DeviceView, peers: readonly string[], route: RouteView | null): Member {
  const { id, name } = device;
  const role = roleOf(device, route);
  const isUsed = role === 'helping' || role === 'ready';
  const loaded = isUsed ? loadedOf(device) : null;
  return {
    id,
    name,
    role,
    hue: isUsed ? hueOf(peers.indexOf(id)) : 'var(--line-strong)',
    kind: device.facts.kind,
    bytes: device.facts.memory_bytes ?? device.memory_free_bytes,
    ...(role === 'helping' ? carries(id, route) : label(saysOf(device, role))),
    loaded: loaded === null ? null : loaded.held / loaded.offered,
    loadedSays: loaded === null ? '' : t.household.loaded(t.household.part(loaded.held, loaded.offered)),
    line: lineOf(device),
    carrier: device.way === null ? '' : t.household.carriers[device.way.interface],
  };
}

function roleOf(device: DeviceView, route: RouteView | null): Role {
  if (!device.paired) return 'found';
  if (!ready(device)) return 'unused';
  return route?.legs.some((leg) => leg.device_id === device.id) === true ? 'helping' : 'ready';
}

function label(says: string): Pick<Member, 'says' | 'short'> {
  return { says, short: says };
}

function carries(id: string, route: RouteView | null): Pick<Member, 'says' | 'short'> {
  const short = partWords(id, route);
  return { says: t.household.carries(short), short };
}

function saysOf(device: DeviceView, role: Role): string {
  if (role === 'ready') return t.household.ready;
  if (role === 'found') return device.pairing ? t.devices.seenCode : t.devices.seenIdle;
  return device.unused === null ? t.household.notUsed : t.household.why[device.unused];
}

function lineOf({ way }: DeviceView): number {
  if (way === null) return 0;
  const { bytes_per_second: rate } = way;
  return rate === null ? LINE_OF[way.interface] : (LINES.find(({ from }) => rate >= from)?.width ?? LINE_OF.unknown);
}
