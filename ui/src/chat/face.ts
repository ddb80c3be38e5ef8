/** What a reply shows, whether it is being made or comes from the past. Pure. */
import type { FailoverView } from '../generated/FailoverView';
import type { LegView } from '../generated/LegView';
import type { MessageFinish } from '../generated/MessageFinish';
import type { MessageView } from '../generated/MessageView';
import type { PathView } from '../generated/PathView';
import type { PredictionView } from '../generated/PredictionView';
import type { ReplySummary } from '../generated/ReplySummary';
import type { RouteView } from '../generated/RouteView';
import type { StretchView } from '../generated/StretchView';
import type { ThoughtView } from '../generated/ThoughtView';
import type { Mark } from '../kit/markdown/marks';
import { countWords, seconds, speed } from '../kit/words';
import { t } from '../strings';
import { keptCut } from '../strings/problems';
import type { Wait } from './wait';

export type Phase = 'reading' | 'thinking' | 'writing' | 'finished' | 'cut';

export interface ReplyFace {
  phase: Phase;
  text: string;
  /** What the model thought before its words. */
  thought: ThoughtView | null;
  route: RouteView | null;
  marks: readonly Mark[];
  /** Why it was cut, in plain words. */
  cut: string | null;
  /** What it waits for at the moment. */
  note: string | null;
  /** What its first words were predicted to take; null where nothing was, or where they are there. */
  wait: Wait | null;
  /** Names of helpers that have other replies to make too: now, or at any time of a reply that has ended. */
  shared: readonly string[];
  wordsPerSecond: number | null;
  finish: MessageFinish;
  /** Whether the person changed its words. */
  reworded: boolean;
  /** The name of the model that writes it, or wrote it; null where that is not known. */
  model: string | null;
  /** How it was made in the end, with who did what. */
  summary: ReplySummary | null;
  /** Who computed which words; empty where that is not known. */
  stretches: readonly StretchView[];
}

/** The part of a reply that was there before it goes on, or all of it. */
export interface Begun {
  text: string;
  thought: ThoughtView | null;
  way: PathView | null;
  stretches: readonly StretchView[];
}

/** Whether the model can be asked to go on with a reply. */
export function canGoOn({ finish, text, thought }: Pick<ReplyFace, 'finish' | 'text' | 'thought'>): boolean {
  return finish !== 'complete' && finish !== 'running' && (text !== '' || thought !== null);
}

/** A reply from the past, or one that is being made and was begun before this page was loaded. */
export function faceOf(message: MessageView): ReplyFace {
  const { summary, path, text, thought, finish } = message;
  const cut = keptCut(message);
  const way = summary ?? path;
  return {
    phase: finish === 'running' ? growing(message) : cut === null ? 'finished' : 'cut',
    text,
    thought,
    route: way?.route ?? null,
    marks: marksOf(begunOf(message)),
    cut,
    note: null,
    wait: null,
    shared: summary?.shared ?? [],
    wordsPerSecond: summary === null ? null : summarySpeed(summary, saidAndThought(message)),
    finish,
    reworded: message.reworded,
    model: summary?.model ?? null,
    summary,
    stretches: stretchesOf(message),
  };
}

/** What a cut reply had, for its rest to come behind. */
export function begunOf({ text, thought, summary, path, stretches }: MessageView): Begun {
  return { text, thought, way: summary ?? path, stretches };
}

/** Where a reply is that has begun. */
export function growing({ text, thought }: Pick<Begun, 'text' | 'thought'>): Phase {
  return text === '' && thought !== null ? 'thinking' : 'writing';
}

/** All that the model wrote: its tokens are counted together. */
export function saidAndThought({ text, thought }: Pick<Begun, 'text' | 'thought'>): string {
  return thought === null ? text : `${thought.text} ${text}`;
}

/** Words per second: tokens are counted for machines, words for people. */
export function summarySpeed(summary: ReplySummary, text: string): number | null {
  const { completion_tokens: tokens, tokens_per_second: rate } = summary;
  if (tokens < 2 || !(rate > 0)) return null;
  return (countWords(text) * rate) / tokens;
}

/** Words per second that this computer alone was predicted to make of a reply; null where nothing was. */
export function aloneSpeed({ predicted, completion_tokens: tokens }: ReplySummary, text: string): number | null {
  const alone = predicted?.alone ?? null;
  return alone === null || tokens < 2 ? null : (countWords(text) * alone.tokens_per_second) / tokens;
}

/** Both speeds that were predicted before a reply, in words; empty where nothing was. */
export function predictedText({ predicted, completion_tokens: tokens }: ReplySummary, text: string): string {
  if (!predicted || tokens < 2) return '';
  const words = (prediction: PredictionView | null) =>
    prediction === null ? null : speed((countWords(text) * prediction.tokens_per_second) / tokens);
  const [together, alone] = [words(predicted.together), words(predicted.alone)];
  if (together !== null && alone !== null) return t.house.predictedBoth(together, alone);
  if (together !== null) return t.house.predictedTogether(together);
  return alone === null ? '' : t.house.predictedAlone(alone);
}

/** The sentence at the place of a hand-over. */
export function handOverText({ from, to, pause_ms }: FailoverView): string {
  return t.chat.handOver(from, to, seconds(pause_ms));
}

/** Where the hand-overs of a kept reply stand: where a stretch begins. Replies from before stretches were
 *  kept know their tokens alone; text is even enough to place those by proportion, to the word. */
export function marksOf({ text, way, stretches }: Begun): Mark[] {
  if (way === null) return [];
  const last = way.failovers.at(-1)?.after_tokens ?? 0;
  const tokens = Math.max(1, last, way.completion_tokens);
  return way.failovers.map((failover) => {
    const exact = stretches.find((stretch) => stretch.after_tokens === failover.after_tokens);
    const at = exact?.at ?? Math.round((text.length * failover.after_tokens) / tokens);
    return { at, text: handOverText(failover) };
  });
}

/** One leg of each device that took part in a reply before the route that it shows, in the order in which they came. */
export function leftOf({ route, stretches }: Pick<ReplyFace, 'route' | 'stretches'>): LegView[] {
  const left = new Map<string, LegView>();
  const isThere = (leg: LegView) => route?.legs.some((other) => other.device_id === leg.device_id) === true;
  for (const leg of stretches.flatMap((stretch) => stretch.route.legs)) {
    if (!isThere(leg) && !left.has(leg.device_id)) left.set(leg.device_id, leg);
  }
  return [...left.values()];
}

/** Names of all other computers that took part in a reply, each once: those that have left it first, then in the order
 *  of the route. */
export function helpersOf(face: Pick<ReplyFace, 'route' | 'stretches'>): string[] {
  const legs = [...leftOf(face), ...(face.route?.legs ?? [])].filter((leg) => !leg.local);
  return [...new Map(legs.map((leg) => [leg.device_id, leg.device])).values()];
}

/** Who computed which words. A reply from before that was written down tells it where one route made it
 *  from its first token to its last, and never where others went on with it. */
function stretchesOf({ stretches, summary }: MessageView): readonly StretchView[] {
  if (stretches.length > 0 || summary === null) return stretches;
  const { timeline, failovers, route } = summary;
  const isOfOneRoute = timeline.length > 0 && failovers.length === 0 && timeline.every((part) => part.first_token <= 1);
  return isOfOneRoute ? [{ at: 0, after_tokens: 0, route }] : [];
}
