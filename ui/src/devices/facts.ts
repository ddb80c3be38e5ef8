/** What a computer is and how it is, in words. Pure. */
import type { DeviceKind } from '../generated/DeviceKind';
import type { FactsView } from '../generated/FactsView';
import type { GainView } from '../generated/GainView';
import type { LentDayView } from '../generated/LentDayView';
import type { PowerView } from '../generated/PowerView';
import { bytes, speed, whole, WORDS_PER_TOKEN } from '../kit/words';
import { wordsOf } from '../kit/week/week';
import { t } from '../strings';
import type { Fact } from './device';

/** In the order in which they are offered. */
export const KINDS: readonly DeviceKind[] = ['laptop', 'desktop', 'tower', 'mini', 'server'];

/** `RTX 4070, 32 GB`: what computes, and its memory; empty where nothing is told. */
export function hardware({ gpu, processor, memory_bytes: memory }: FactsView): string {
  return [gpu ?? processor ?? '', memory === null ? '' : bytes(memory)].filter((part) => part !== '').join(', ');
}

/** `Battery, 64%`; empty where nothing is told. */
export function powerOf(power: PowerView | null): string {
  if (power === null) return '';
  return power.kind === 'mains' ? t.household.mains : t.household[power.kind](whole(power.percent));
}

/** For the details; what is not told has no line. */
export function factsOf({ kind, gpu, processor, memory_bytes: memory, power, temperature }: FactsView): Fact[] {
  const parts = [gpu, processor, memory === null ? null : bytes(memory)].flatMap((part) => part ?? []);
  return [
    { name: t.household.kind, value: kind === null ? '' : t.household.kinds[kind] },
    { name: t.household.hardware, value: parts.join(' · ') },
    { name: t.household.power, value: powerOf(power) },
    { name: t.household.temperature, value: temperature === null ? '' : t.household.degrees(whole(temperature)) },
  ].filter(({ value }) => value !== '');
}

/** `41,000 words`; empty where it computed nothing in the last seven days. */
export function weekWords(days: readonly LentDayView[]): string {
  const words = wordsOf(days);
  return words === 0 ? '' : t.household.weekWords(whole(words));
}

/** What a computer brings: `14 words/s with it, 5.0 without.` */
export function gainText({ with_it: together, without_it: without }: GainView, isUsed: boolean): string {
  const words = (tokens: number) => speed(tokens * WORDS_PER_TOKEN);
  if (without === null) return t.household.onlyWith(words(together));
  return (isUsed ? t.household.withIt : t.household.wouldBe)(words(together), words(without));
}
