/** Promises of `pace.ts`: how fast something comes is what was measured, or nothing. */
import { expect, it } from 'vitest';
import type { DeviceView } from '../../generated/DeviceView';
import type { DownloadView } from '../../generated/DownloadView';
import { linkPace, paceOf } from './pace';
import { timeFor } from './words';

const loading: DownloadView = { key: 'k', name: 'qwen3-4b', origin: 'Qwen/Qwen3-4B-GGUF', copied: false, file: 'f.gguf', state: 'loading',
  have_bytes: 1.2e9, file_bytes: 4.8e9, bytes_per_second: 12e6, seconds_left: 300, problem: null };

it('is that of all downloads from the internet together, and of none that rests or is a copy', () => {
  expect(paceOf([loading, { ...loading, bytes_per_second: 3e6 }])).toBe(15e6);
  expect(paceOf([{ ...loading, copied: true }, { ...loading, state: 'paused' }, { ...loading, bytes_per_second: null }])).toBeNull();
  expect(paceOf([])).toBeNull();
});

it('is that of the link to a computer that is there', () => {
  const way = { interface: 'cable' as const, address: '192.168.1.20:4588', bytes_per_second: 112e6, by_cable: null };
  const devices = [{ name: 'Mum’s laptop', connected: true, way: null }, { name: 'Dad’s PC', connected: true, way }] as DeviceView[];
  expect(linkPace(devices, 'Dad’s PC')).toBe(112e6);
  expect(linkPace(devices.map((device) => ({ ...device, connected: false })), 'Dad’s PC')).toBeNull();
  expect(linkPace(devices.map((device) => ({ ...device, way: null })), 'Dad’s PC')).toBeNull();
  expect(linkPace(devices, undefined)).toBeNull();
});

it.each([
  [5e9, 100e6, '50 seconds'],
  [1, 100e6, '1 second'],
  [59.9e6, 1e6, '1 minute'],
  [5e9, 10e6, '8 minutes'],
  [3599e6, 1e6, '1 hour'],
  [36e9, 1e6, '10 hours'],
  [90e9, 10e6, '2.5 hours'],
  [5e9, null, ''],
])('%s bytes at %s bytes a second take %s', (size, pace, words) => {
  expect(timeFor(size, pace)).toBe(words);
});
