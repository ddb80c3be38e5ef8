/** What a device's line and its details say, in words. Pure. */
import type { ByCableView } from '../generated/ByCableView';
import type { DeviceView } from '../generated/DeviceView';
import type { Trust } from '../generated/Trust';
import type { WayView } from '../generated/WayView';
import type { IconName } from '../kit/icons';
import { ago, bytes, milliseconds, speed, WORDS_PER_TOKEN } from '../kit/words';
import { t } from '../strings';
import { loadedOf } from './memory';

/** The levels a person can choose for a paired device, least first. */
export const CHOICES: readonly Trust[] = ['blocked', 'guest', 'trusted', 'own'];

export interface Fact {
  name: string;
  value: string;
}

/** `thisl4pt · connected · 6 ms`. */
export function subtitle(device: DeviceView): string {
  const parts = [device.short_id, device.connected ? t.devices.connected : t.devices.away];
  if (device.connected && device.rtt_ms !== null) parts.push(t.devices.rtt(milliseconds(device.rtt_ms)));
  return parts.join(' · ');
}

/** What it has for others, what a cable would gain, and when it was there. `now` in seconds since 1970. */
export function facts(device: DeviceView, now: number): Fact[] {
  const room = device.connected && device.lends.length > 0 ? roomOf(device) : '';
  const gain = device.way?.by_cable ?? null;
  const loaded = loadedOf(device);
  return [
    { name: t.devices.room, value: room },
    { name: t.devices.holds, value: loaded === null ? '' : loaded.held === 0 ? t.devices.holdsNothing : t.household.part(loaded.held, loaded.offered) },
    { name: t.house.ways.onCable, value: gain === null ? '' : gained(gain) },
    { name: t.devices.lastSeen, value: device.connected ? '' : lastSeen(device, now) },
  ].filter(({ value }) => value !== '');
}

/** Which parts it lends, and where it is: for whoever wants to know. */
export function moreFacts(device: DeviceView): Fact[] {
  return [
    { name: t.devices.lends, value: device.connected ? lends(device) : '' },
    { name: t.devices.holds, value: device.connected && device.lends.length > 0 ? holds(device) : '' },
    { name: t.house.ways.name, value: device.way === null ? '' : wayOf(device.way) },
    { name: t.devices.addresses, value: device.way === null ? (device.addresses[0] ?? '') : '' },
  ].filter(({ value }) => value !== '');
}

/** Whether it would take part in the next reply. */
export function ready(device: DeviceView): boolean {
  return device.paired && device.connected && device.unused_because === null;
}

/** The layers that it offers, one stretch after another; equal models are named once. */
function lends(device: DeviceView): string {
  if (device.lends.length === 0) return t.devices.lendsNothing;
  return device.lends.map((lend) => t.devices.lend(lend.model, lend.first_layer, lend.last_layer)).join('; ');
}

/** Which of them are in its memory now. */
function holds(device: DeviceView): string {
  const held = device.lends.flatMap(({ model, held }) => (held === null ? [] : [t.devices.lend(model, held[0], held[1])]));
  return held.length === 0 ? t.devices.holdsNothing : held.join('; ');
}

/** What it still has for others: `2 replies at a time, 6.9 GB free`; empty where it did not say. */
function roomOf(device: DeviceView): string {
  const parts: string[] = [];
  if (device.streams_free !== null) {
    parts.push(device.streams_free === 0 ? t.devices.noStream : t.devices.streams(device.streams_free));
  }
  if (device.memory_free_bytes !== null) parts.push(t.devices.memory(bytes(device.memory_free_bytes)));
  return parts.join(', ');
}

/** `Wi-Fi`; where nobody knows what carries the link, or there is none, that. */
export function linkOf({ connected, way }: DeviceView): string {
  if (!connected) return t.devices.away;
  return (way === null ? '' : t.household.carriers[way.interface]) || t.devices.connected;
}

/** The drawing before it; null where nobody knows what carries the link. */
export function linkIcon({ connected, way }: DeviceView): IconName | null {
  if (!connected || (way?.interface !== 'cable' && way?.interface !== 'wifi')) return null;
  return way.interface;
}

/** `cable to 192.168.1.20:4588, 110 MB/s`. */
function wayOf(way: WayView): string {
  const over = t.house.ways.over[way.interface](way.address);
  return way.bytes_per_second === null ? over : t.house.ways.rate(over, bytes(way.bytes_per_second));
}

/** `9.1 → 24.3 words per second`. */
function gained(gain: ByCableView): string {
  return t.house.ways.gained(speed(gain.tokens_per_second_now * WORDS_PER_TOKEN), speed(gain.tokens_per_second_then * WORDS_PER_TOKEN));
}

function lastSeen(device: DeviceView, now: number): string {
  return device.last_seen === null ? t.devices.never : ago(device.last_seen, now);
}
