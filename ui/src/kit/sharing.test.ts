/** Promises of the line on sharing: whether, whom it helps, and why it rests. */
import { expect, it } from 'vitest';
import type { SharingView } from '../generated/SharingView';
import { useLanguage } from '../strings';
import { sharingLine } from './sharing';

function line(sharing: Partial<SharingView>): string {
  const still = { on: true, state: 'sharing' as const, answering: false, streams: 0, streams_max: 4, paused: null, guests: [], lent_days: [], gpus: [], status_line: '' };
  return sharingLine({ sharing: { ...still, ...sharing } });
}

const guests = [{ device_id: 'dad', device: 'Dad’s PC', streams: 1 }, { device_id: 'attic', device: 'Attic', streams: 2 }];

it.each<[string, string]>([
  [line({}), 'On: nobody needs it right now'],
  [line({ streams: 1, state: 'busy' }), 'Helping with 1 reply'],
  [line({ streams: 3, state: 'busy', guests }), 'Helping Dad’s PC and Attic'],
  [line({ answering: true, state: 'busy' }), 'On: this computer writes a reply'],
  [line({ answering: true, state: 'problem' }), 'On: this computer writes a reply'],
  [line({ on: false }), 'Off'],
])('says %j', (said, expected) => {
  expect(said).toBe(expected);
});

it('begins with the pause, never with sharing', async () => {
  expect(line({ paused: { reason: 'battery', sentence: '', until: null } })).toBe('Paused on battery');
  expect(line({ paused: { reason: 'owner', sentence: '', until: null } })).toBe('Paused');
  await useLanguage('de', document.documentElement);
  for (const reason of ['owner', 'sleep', 'quiet_hours', 'battery', 'full_screen', 'busy'] as const) {
    expect(line({ paused: { reason, sentence: '', until: null } })).toMatch(/^Paus/);
  }
  await useLanguage('en', document.documentElement);
});
