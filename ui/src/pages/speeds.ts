/** How fast a model that is here writes, alone and with others: as it was, or as it was predicted. Pure. */
import type { PipelineView } from '../generated/PipelineView';
import type { RouteView } from '../generated/RouteView';
import { listOf, speed, WORDS_PER_TOKEN } from '../kit/words';
import { t } from '../strings';

/** One line each for this computer alone and for it with others, as far as they are known. */
export function speedLines(pipeline: PipelineView | null, model: string): string[] {
  if (pipeline === null) return [];
  const { last } = pipeline;
  const told = last?.model === model ? last : null;
  const alone = measured(pipeline, model, false);
  const together = measured(pipeline, model, true);
  const lines: string[] = [];
  if (alone !== null) lines.push(t.models.speedHere(words(alone.rate)));
  else if (told?.alone) lines.push(t.models.speedHereGuess(words(told.alone.tokens_per_second)));
  if (together !== null) lines.push(t.models.speedWith(words(together.rate), listOf(helpers(together.route))));
  else if (told?.pooled) lines.push(t.models.speedWithGuess(words(told.pooled.prediction.tokens_per_second), listOf(helpers(told.pooled.route))));
  return lines;
}

/** The newest reply of this kind that ended well and in which nobody was lost. */
function measured({ past }: PipelineView, model: string, isShared: boolean): { rate: number; route: RouteView } | null {
  for (const { model: name, route, happened, end } of past) {
    if (name !== model || end.kind !== 'done' || happened.length > 0) continue;
    if (helpers(route).length > 0 === isShared && end.speed.tokens_per_second > 0) return { rate: end.speed.tokens_per_second, route };
  }
  return null;
}

function helpers({ legs }: RouteView): string[] {
  return [...new Set(legs.filter((leg) => !leg.local).map((leg) => leg.device))];
}

function words(tokensPerSecond: number): string {
  return speed(tokensPerSecond * WORDS_PER_TOKEN);
}
