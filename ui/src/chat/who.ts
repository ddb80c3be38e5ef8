/** Who helped with a reply, in words and figures: a sentence, then each computer. Pure.
 *
 *  What nobody wrote down is left out: a reply that was cut has no shares, an old one no words of each computer. */
import type { DeviceKind } from '../generated/DeviceKind';
import type { HouseholdView } from '../generated/HouseholdView';
import type { LegView } from '../generated/LegView';
import type { PartView } from '../generated/PartView';
import type { ReplySummary } from '../generated/ReplySummary';
import type { StretchView } from '../generated/StretchView';
import type { Mark } from '../kit/markdown/marks';
import { devicesOf, huesOf } from '../kit/route/ribbon';
import { countWords, listOf, seconds, share, whole } from '../kit/words';
import { t } from '../strings';
import { leftOf, type ReplyFace, saidAndThought } from './face';

/** More of them say no more than how many there are. */
const RANGES_MAX = 2;
const MINUTE_MS = 60_000;

export interface ComputerRow {
  key: string;
  name: string;
  kind: DeviceKind | null;
  isMine: boolean;
  /** CSS colour, the same as on every page. */
  hue: string;
  /** What it is and how it is reached, or what only it does. */
  about: string;
  /** How many layers it had, last of all; empty where none. */
  part: string;
  /** Empty where nobody counted. */
  share: string;
  /** Which words it computed; empty where nobody wrote that down. */
  took: string;
}

export type Helped = Pick<ReplyFace, 'route' | 'stretches' | 'summary' | 'text' | 'thought'>;
export type House = Pick<HouseholdView, 'me' | 'devices'>;

/** Every computer that took part, this one first, then in the order of the route at the beginning. `ended`: whether
 *  all of the words are there; before, nothing is said of them. */
export function computerRows(face: Helped, ended: boolean, peers: readonly string[], house: House): ComputerRow[] {
  const hue = huesOf([...leftOf(face), ...(face.route?.legs ?? [])], peers);
  const shares = sharesOf(face.summary?.timeline ?? []);
  const took = ended && face.stretches.length > 0 ? rangesOf(face.stretches, face.text) : null;
  const all = Math.max(...routesOf(face).map(layersOf));
  return takenPart(face).map((legs) => {
    const [leg] = legs;
    const device = house.devices.find(({ id }) => id === leg.device_id);
    const layers = layersOf(lastLegs(face, leg.device_id));
    const part = shares.get(leg.device_id);
    return {
      key: leg.device_id,
      name: leg.local ? t.route.here : leg.device,
      kind: (leg.local ? house.me.facts.kind : device?.facts.kind) ?? null,
      isMine: leg.local,
      hue: hue(leg),
      about: legs.some(({ embedding, head }) => embedding || head) ? t.who.words : aboutOf(device),
      part: layers === 0 ? '' : t.who.partOf(layers, all),
      share: part === undefined ? '' : share(part),
      took: took === null ? '' : tookWords(took.get(leg.device_id) ?? [], countWords(face.text)),
    };
  });
}

/** Hand-overs with the colours of the computer that left and of the one that has its layers since. */
export function withHues(face: Pick<ReplyFace, 'route' | 'stretches' | 'marks'>, peers: readonly string[]): readonly Mark[] {
  const hue = huesOf([...leftOf(face), ...(face.route?.legs ?? [])], peers);
  return face.marks.map((mark) => {
    const at = face.stretches.findLastIndex((stretch) => stretch.at === mark.at);
    const now = face.stretches[at]?.route.legs ?? [];
    const gone = face.stretches[at - 1]?.route.legs.find((leg) => now.every((other) => other.device_id !== leg.device_id));
    const layer = gone?.layers?.[0];
    const next = now.find(({ layers }) => layer !== undefined && layers !== null && layers[0] <= layer && layer <= layers[1]);
    return gone === undefined || next === undefined ? mark : { ...mark, hues: [hue(gone), hue(next)] };
  });
}

/** What happened, in one sentence or two. */
export function leadOf(face: Helped): string {
  const devices = takenPart(face);
  const [first] = devices;
  if (first === undefined) return '';
  const name = ([leg]: readonly [LegView, ...LegView[]]) => (leg.local ? t.route.here : leg.device);
  if (devices.length === 1) return first[0].local ? t.who.alone : t.who.whole(name(first));
  const shares = sharesOf(face.summary?.timeline ?? []);
  const part = (legs: readonly [LegView, ...LegView[]]) => shares.get(legs[0].device_id) ?? 0;
  const most = [...devices].sort((a, b) => part(b) - part(a))[0] ?? first;
  const others = devices.filter(([leg]) => !leg.local).map(name);
  const left = (face.summary?.failovers ?? []).map(({ from, to, pause_ms }) => ({ from, to, later: seconds(pause_ms) }));
  const sentences = left.map(({ from, to, later }) => t.who.left(from, to, later));
  const [gone] = left;
  if (part(most) === 0) sentences.unshift(`${t.chat.helped(listOf(others), others.length)}.`);
  else if (part(most) <= 0.5) sentences.unshift(t.who.largest(name(most)));
  else if (gone?.from !== most[0].device) sentences.unshift(t.who.most(name(most)));
  else sentences.splice(0, 1, t.who.mostUntil(name(most)), t.who.carriedOn(gone.to, gone.later));
  return sentences.join(' ');
}

/** How long it took, and about how long this computer alone would have taken; empty where nobody knows. */
export function timeOf(face: Helped): string {
  const { summary } = face;
  if (summary === null) return '';
  const words = countWords(saidAndThought(face));
  const alone = takenPart(face).length > 1 ? aloneMs(summary) : null;
  return [
    t.who.time(duration(summary.total_ms), whole(words)),
    t.who.first(seconds(summary.first_token_ms)),
    alone === null ? '' : t.who.timeAlone(duration(alone)),
  ].filter((part) => part !== '').join(' ');
}

/** `22 s`, `1 min 40 s`. */
export function duration(ms: number): string {
  if (ms < MINUTE_MS) return t.who.seconds(seconds(ms));
  const all = Math.round(ms / 1000);
  return t.who.minutes(Math.floor(all / 60), all % 60);
}

/** As predicted before it began, for as many tokens as came. */
function aloneMs({ predicted, completion_tokens: tokens }: ReplySummary): number | null {
  const alone = predicted?.alone ?? null;
  if (alone === null || tokens < 2 || !(alone.tokens_per_second > 0)) return null;
  return alone.first_token_ms + ((tokens - 1) * 1000) / alone.tokens_per_second;
}

/** The legs of every route that the reply had, in order. */
function routesOf({ route, stretches }: Helped): LegView[][] {
  return [...stretches.map((stretch) => stretch.route.legs), ...(route === null ? [] : [route.legs])];
}

/** The legs of each computer, this one first. */
function takenPart(face: Helped): [LegView, ...LegView[]][] {
  const devices = devicesOf(routesOf(face).flat());
  return [...devices.filter(([leg]) => leg.local), ...devices.filter(([leg]) => !leg.local)];
}

/** The legs of a computer in the last route that it had a part in. */
function lastLegs(face: Helped, device: string): LegView[] {
  const own = routesOf(face).map((legs) => legs.filter((leg) => leg.device_id === device));
  return own.findLast((legs) => legs.length > 0) ?? [];
}

function layersOf(legs: readonly LegView[]): number {
  return legs.reduce((sum, { layers }) => sum + count(layers), 0);
}

function count(layers: [number, number] | null): number {
  return layers === null ? 0 : layers[1] - layers[0] + 1;
}

/** Of all that was computed, each layer at each position counted once, the part of each computer; none where nobody
 *  counted. */
function sharesOf(timeline: readonly PartView[]): Map<string, number> {
  const work = new Map<string, number>();
  for (const { device_id, layers, prompt, reply } of timeline) {
    work.set(device_id, (work.get(device_id) ?? 0) + count(layers) * (prompt.positions + reply.positions));
  }
  const all = [...work.values()].reduce((sum, one) => sum + one, 0);
  return all === 0 ? new Map() : new Map([...work].map(([device, one]) => [device, one / all]));
}

/** First and last word of each run of words, from 1, by computer. */
function rangesOf(stretches: readonly StretchView[], text: string): Map<string, [number, number][]> {
  const ranges = new Map<string, [number, number][]>();
  let last = 0;
  for (const [at, stretch] of stretches.entries()) {
    const first = Math.max(last, countWords(text.slice(0, stretch.at))) + 1;
    // Whoever begins a word has it.
    last = Math.max(first - 1, countWords(text.slice(0, stretches[at + 1]?.at ?? text.length)));
    if (last < first) continue;
    for (const [{ device_id }] of devicesOf(stretch.route.legs)) {
      const own = ranges.get(device_id) ?? [];
      const before = own.at(-1);
      if (before !== undefined && before[1] === first - 1) before[1] = last;
      else own.push([first, last]);
      ranges.set(device_id, own);
    }
  }
  return ranges;
}

function tookWords(ranges: readonly [number, number][], words: number): string {
  const [only] = ranges;
  if (only === undefined) return t.who.noWords;
  if (ranges.length > RANGES_MAX) return t.who.stretches(ranges.length);
  if (only[0] === 1 && only[1] === words) return t.who.all;
  return listOf(ranges.map(([first, last]) => t.who.range(first, last)));
}

/** `RTX 4070, cable`; empty where it is gone from the household or does not tell. */
function aboutOf(device: HouseholdView['devices'][number] | undefined): string {
  if (device === undefined) return '';
  const carrier = device.way === null ? '' : t.household.carriers[device.way.interface];
  return [device.facts.gpu ?? device.facts.processor ?? '', carrier].filter((part) => part !== '').join(', ');
}
