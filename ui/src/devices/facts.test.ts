/** Promises of `facts.ts` and `week.ts`: what is told is said in words, what is not told has no line and no number. */
import { expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import type { FactsView } from '../generated/FactsView';
import { facts } from './device';
import { factsOf, gainText, hardware, powerOf } from './facts';
import { calendarDayOf, weekOf, wordsOf } from '../kit/week/week';

const NOTHING: FactsView = { kind: null, processor: null, gpu: null, memory_bytes: null, power: null, temperature: null };

it('says what a computer is and how it is', () => {
  const facts: FactsView = { kind: 'tower', processor: 'Ryzen 7', gpu: 'RTX 4070', memory_bytes: 32e9, power: { kind: 'mains' }, temperature: 61 };
  expect(factsOf(facts)).toEqual([
    { name: 'Kind', value: 'PC' },
    { name: 'Hardware', value: 'RTX 4070 · Ryzen 7 · 32 GB' },
    { name: 'Power', value: 'Mains' },
    { name: 'Temperature', value: '61 °C' },
  ]);
  expect(hardware(facts)).toBe('RTX 4070, 32 GB');
  expect(hardware({ ...facts, gpu: null })).toBe('Ryzen 7, 32 GB');
  expect(powerOf({ kind: 'battery', percent: 64 })).toBe('Battery 64%');
  expect(powerOf({ kind: 'charging', percent: 81 })).toBe('Charging, 81%');
});

it('leaves out what is not told', () => {
  expect(factsOf(NOTHING)).toEqual([]);
  expect(hardware(NOTHING)).toBe('');
  expect(powerOf(null)).toBe('');
  expect(factsOf({ ...NOTHING, temperature: 44 })).toEqual([{ name: 'Temperature', value: '44 °C' }]);
});

it('says what a computer brings, used or not, and where nothing goes without it', () => {
  const gain = { device_id: 'a', device: 'Attic', model: 'qwen', with_it: 18.4, without_it: 6.8, measured: true };
  expect(gainText(gain, true)).toBe('14 words/s with it, 5.1 without.');
  expect(gainText(gain, false)).toBe('With it: 14 words/s. Without it: 5.1.');
  expect(gainText({ ...gain, without_it: null }, true)).toBe('14 words/s with it. Without it there is not enough memory.');
});

it('says in words, not in tokens, what a cable would bring', () => {
  const [device] = new FakeBackend({ tokenMs: 0 }).house.devices.filter(({ way }) => way !== null);
  if (!device?.way) throw new Error('the household has a device with a way');
  const way = { ...device.way, by_cable: { device_id: 'a', device: 'Attic', tokens_per_second_now: 10, tokens_per_second_then: 24 } };
  expect(facts({ ...device, way }, 0)).toContainEqual({ name: 'On a cable', value: expect.stringMatching(/: 7\.5 → 18 words/) as string });
});

it('shows seven days, the last of them today, and a bar for each on which something was computed', () => {
  const today = 20_000;
  const week = weekOf([{ day: today - 6, tokens: 10_000 }, { day: today, tokens: 4 }, { day: today - 9, tokens: 99 }], today);
  expect(week.map(({ day }) => day)).toEqual([19_994, 19_995, 19_996, 19_997, 19_998, 19_999, 20_000]);
  expect(week.map(({ part }) => part)).toEqual([1, 0, 0, 0, 0, 0, 0.06]);
  expect(week.map(({ isToday }) => isToday)).toEqual([false, false, false, false, false, false, true]);
  expect(week[0]?.says).toBe('Saturday: 7,500 words');
  expect(week[0]?.short).toBe('Sat');
  expect(weekOf([], today).every(({ part }) => part === 0)).toBe(true);
});

it('counts words, and days by the calendar of this computer', () => {
  expect(wordsOf([{ day: 1, tokens: 100 }, { day: 2, tokens: 60 }])).toBe(120);
  expect(wordsOf([{ day: 1, tokens: 2252 }])).toBe(1700);
  const noon = new Date(2026, 10, 26, 12);
  const midnight = new Date(2026, 10, 26, 0, 1);
  expect(calendarDayOf(noon.getTime() / 1000)).toBe(calendarDayOf(midnight.getTime() / 1000));
  expect(calendarDayOf(noon.getTime() / 1000)).toBe(Math.round(Date.UTC(2026, 10, 26) / 86_400_000));
});
