/** How replies are made where a person chooses it, in words: whether a model thinks first, and how freely it chooses its
 *  words. */
import type { ReplyChoices } from '../generated/ReplyChoices';
import { BOUNDS, type SettingValues } from '../generated/settings';
import type { ThinkingChoice } from '../generated/ThinkingChoice';
import { t } from '../strings';

/** How replies are made where nothing was chosen for a chat. */
export type UsualChoices = Pick<SettingValues, 'chat.thinking' | 'chat.temperature'>;

/** Nothing was chosen for a chat. */
export const AS_SETTINGS: ReplyChoices = { thinking: null, temperature: null };

/** Temperatures that have a name, the narrowest first. */
const FREEDOMS = { exact: 0, careful: 0.3, usual: 0.7, free: 1, veryFree: 1.3 } as const;
const NAMED = Object.keys(FREEDOMS) as (keyof typeof FREEDOMS)[];

const THINKINGS: readonly ThinkingChoice[] = ['usual', 'off', 'on'];

/** A choice of a list. */
export interface Offered {
  value: string;
  name: string;
}

/** Two figures of a temperature are all that anybody chooses; the rest is how machines write them. */
function figure(temperature: number): number {
  return Math.round(temperature * 100) / 100;
}

/** What a temperature is called. */
export function freedomName(temperature: number): string {
  const named = NAMED.find((name) => FREEDOMS[name] === figure(temperature));
  return named === undefined ? t.settings.freedomByHand(String(figure(temperature))) : t.settings.freedoms[named];
}

/** What is offered for the choice of words, with `now` among it. */
export function freedoms(now: number | null): Offered[] {
  const all = new Set<number>(Object.values(FREEDOMS));
  if (now !== null) all.add(figure(now));
  return [...all].sort((a, b) => a - b).map((value) => ({ value: String(value), name: freedomName(value) }));
}

/** The value of that list which stands for a temperature. */
export function freedomValue(temperature: number): string {
  return String(figure(temperature));
}

/** What is offered for thinking. */
export function thinkings(): { value: ThinkingChoice; name: string }[] {
  return THINKINGS.map((value) => ({ value, name: t.settings.thinkings[value] }));
}

/** What stands in the page's storage, as far as it is a choice. */
export function choicesFrom(read: unknown): ReplyChoices {
  const { thinking, temperature }: Partial<Record<keyof ReplyChoices, unknown>> = typeof read === 'object' && read !== null ? read : {};
  const { min, max } = BOUNDS['chat.temperature'];
  return {
    thinking: THINKINGS.find((choice) => choice === thinking) ?? null,
    temperature: typeof temperature === 'number' && temperature >= min && temperature <= max ? temperature : null,
  };
}
