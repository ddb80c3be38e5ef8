/** What the household brings: together against alone, for the reply that was divided last. Pure. */
import type { HouseholdView } from '../generated/HouseholdView';
import type { PipelineView } from '../generated/PipelineView';
import type { PredictionView } from '../generated/PredictionView';
import { speed, whole, WORDS_PER_TOKEN } from '../kit/words';
import { t } from '../strings';

/** Less than this is said to be no gain. */
const GAIN_MIN = 1.1;

/** A part of the line below the headline. */
export interface Said {
  /** `Together:`; empty where there is none. */
  label: string;
  text: string;
}

export interface Gain {
  headline: string;
  line: Said[];
  /** Which of it is measured and which predicted; empty where there is no speed in it. */
  how: string;
}

/** `others`: how many paired devices could take part in the next reply. */
export function gainOf(pipeline: PipelineView | null, house: HouseholdView, others: number): Gain {
  const last = pipeline?.last ?? null;
  const isShared = last?.route.legs.some((leg) => !leg.local) === true;
  const together = isShared ? (last?.went ?? predicted(last)) : predicted(last);
  const alone = last !== null && !isShared ? (last.went ?? last.alone) : (last?.alone ?? null);
  if (others === 0) {
    const why = house.devices.some((d) => d.paired) ? t.household.aloneNow : t.household.aloneHint;
    return { headline: t.household.alone, line: [plain(why)], how: '' };
  }
  const largest = largestOf(house);
  if (last === null || together === null) {
    return { headline: t.household.canHelp(others), line: [...compare(house, largest, {}), plain(t.household.notYet)], how: '' };
  }
  const measured = isShared ? t.household.togetherMeasured : t.household.aloneMeasured;
  const how = (last.went === null ? t.household.predicted : measured)(last.model);
  const rate = t.household.about(words(together.tokens_per_second));
  if (alone === null) {
    return { headline: t.household.onlyTogether, line: compare(house, largest, { together: rate, alone: t.household.cannotHold(last.model) }), how };
  }
  const times = together.tokens_per_second / alone.tokens_per_second;
  const rates = { together: rate, alone: t.household.speed(words(alone.tokens_per_second)) };
  return { headline: headlineOf(times, house), line: compare(house, largest, rates), how };
}

/** `This laptop`, where its kind is known. */
export function thisOne({ me }: HouseholdView): string {
  return me.facts.kind === null ? t.devices.mine : t.household.thisKind[me.facts.kind];
}

function plain(text: string): Said {
  return { label: '', text };
}

/** `Together: models up to Qwen3 8B, about 14 words/s.`, and the same of this computer alone; what is not known is left out. */
function compare(house: HouseholdView, largest: { here: string; together: string }, rates: { together?: string; alone?: string }): Said[] {
  const said = (label: string, model: string, rate = ''): Said[] => {
    const parts = [model, rate].filter((part) => part !== '');
    return parts.length === 0 ? [] : [{ label, text: `${parts.join(', ')}.` }];
  };
  return [
    ...said(t.household.together, largest.together && t.household.modelsUpTo(largest.together), rates.together),
    ...said(t.household.meAlone(thisOne(house)), largest.here && t.household.upTo(largest.here), rates.alone),
  ];
}

function headlineOf(times: number, house: HouseholdView): string {
  if (times >= GAIN_MIN) return t.household.faster(times < 9.95 ? speed(times) : whole(times));
  return times > 1 / GAIN_MIN ? t.household.same : t.household.aloneFaster(thisOne(house));
}

/** The best that was predicted with others. */
function predicted(last: PipelineView['last']): PredictionView | null {
  const best = [last?.pooled, last?.whole].flatMap((one) => (one ? [one.prediction] : []));
  return best.sort((a, b) => b.tokens_per_second - a.tokens_per_second)[0] ?? null;
}

function words(tokensPerSecond: number): string {
  return speed(tokensPerSecond * WORDS_PER_TOKEN);
}

/** The largest model of the catalogue that fits together, and the largest that fits here; empty where that is no more. */
function largestOf({ catalogue }: HouseholdView): { here: string; together: string } {
  const largest = (kinds: readonly string[]) =>
    catalogue.filter(({ fit }) => kinds.includes(fit.kind)).sort((a, b) => b.billions - a.billions)[0];
  const [here, together] = [largest(['here']), largest(['here', 'with'])];
  return together === undefined || together === here ? { here: '', together: '' } : { here: here?.name ?? '', together: together.name };
}
