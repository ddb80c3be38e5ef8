/** What the household brings: together against alone, for the reply that was divided last. Pure. */
import type { HouseholdView } from '../generated/HouseholdView';
import type { PipelineView } from '../generated/PipelineView';
import type { PredictionView } from '../generated/PredictionView';
import { speed, whole, WORDS_PER_TOKEN } from '../kit/words';
import { t } from '../strings';

/** Less than this is said to be no gain. */
const GAIN_MIN = 1.1;

export interface Gain {
  headline: string;
  /** Sentences below it. */
  lines: string[];
}

/** `others`: how many paired devices could take part in the next reply. */
export function gainOf(pipeline: PipelineView | null, house: HouseholdView, others: number): Gain {
  const largest = largestOf(house);
  const last = pipeline?.last ?? null;
  const isShared = last?.route.legs.some((leg) => !leg.local) === true;
  const together = isShared ? (last?.went ?? predicted(last)) : predicted(last);
  const alone = last !== null && !isShared ? (last.went ?? last.alone) : (last?.alone ?? null);
  if (others === 0) return { headline: t.household.alone, lines: [house.devices.some((d) => d.paired) ? t.household.aloneNow : t.household.aloneHint] };
  if (last === null || together === null) return { headline: t.household.canHelp(others), lines: below('', largest, t.household.notYet) };
  const measured = last.went === null ? t.household.predicted(last.model) : isShared ? t.household.togetherMeasured(last.model) : t.household.aloneMeasured(last.model);
  const rate = words(together.tokens_per_second);
  if (alone === null) return { headline: t.household.onlyTogether, lines: below(t.household.cannotAlone(rate), largest, measured) };
  const times = together.tokens_per_second / alone.tokens_per_second;
  const both = t.household.speeds(rate, words(alone.tokens_per_second));
  return { headline: headlineOf(times), lines: below(both, largest, measured) };
}

/** What counts, and in a second line what else is known. */
function below(first: string, ...rest: string[]): string[] {
  return [first, rest.filter((said) => said !== '').join(' ')].filter((said) => said !== '');
}

function headlineOf(times: number): string {
  if (times >= GAIN_MIN) return t.household.faster(times < 9.95 ? speed(times) : whole(times));
  return times > 1 / GAIN_MIN ? t.household.same : t.household.aloneFaster;
}

/** The best that was predicted with others. */
function predicted(last: PipelineView['last']): PredictionView | null {
  const best = [last?.pooled, last?.whole].flatMap((one) => (one ? [one.prediction] : []));
  return best.sort((a, b) => b.tokens_per_second - a.tokens_per_second)[0] ?? null;
}

function words(tokensPerSecond: number): string {
  return speed(tokensPerSecond * WORDS_PER_TOKEN);
}

/** The largest model of the catalogue that fits here, and the largest that fits together; empty where that is no more. */
function largestOf({ catalogue }: HouseholdView): string {
  const largest = (kinds: readonly string[]) =>
    catalogue.filter(({ fit }) => kinds.includes(fit.kind)).sort((a, b) => b.billions - a.billions)[0];
  const [here, together] = [largest(['here']), largest(['here', 'with'])];
  if (together === undefined || together === here) return '';
  return here === undefined ? t.household.largestTogether(together.name) : t.household.largest(together.name, here.name);
}
