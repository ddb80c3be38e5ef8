/** Promises of the line on sharing: whether, with how many, and what is going on. */
import { expect, it } from 'vitest';
import type { SharingView } from '../generated/SharingView';
import { sharingLine } from './sharing';

function line(sharing: Partial<SharingView>, connected = 2): string {
  const devices = [0, 1, 2, 3].map((index) => ({ connected: index < connected }));
  const still = { on: true, state: 'sharing' as const, answering: false, streams: 0, streams_max: 4, paused: null, guests: [], lent_days: [], status_line: '' };
  return sharingLine({ devices, sharing: { ...still, ...sharing } });
}

it.each<[string, string]>([
  [line({}), 'Sharing · 2 devices · idle'],
  [line({}, 0), 'Sharing · no other device · idle'],
  [line({ streams: 1, state: 'busy' }, 1), 'Sharing · 1 device · helping with 1 reply'],
  [line({ streams: 3, state: 'busy' }), 'Sharing · 2 devices · helping with 3 replies'],
  [line({ answering: true, state: 'busy' }), 'Sharing · 2 devices · answering'],
  [line({ answering: true, state: 'problem' }), 'Sharing · 2 devices · answering'],
  [line({ paused: { reason: 'battery', sentence: '', until: null } }), 'Sharing · 2 devices · paused on battery'],
  [line({ paused: { reason: 'owner', sentence: '', until: null } }), 'Sharing · 2 devices · paused'],
  [line({ on: false }), 'Off: nothing is lent'],
])('says %j', (said, expected) => {
  expect(said).toBe(expected);
});
