/** What a reply shows, whether it is being made or comes from the past. Pure. */
import type { FailoverView } from '../generated/FailoverView';
import type { MessageFinish } from '../generated/MessageFinish';
import type { MessageView } from '../generated/MessageView';
import type { PathView } from '../generated/PathView';
import type { ReplySummary } from '../generated/ReplySummary';
import type { RouteView } from '../generated/RouteView';
import type { Mark } from '../kit/markdown/marks';
import { countWords, seconds } from '../kit/words';
import { t } from '../strings';
import { keptCut } from '../strings/problems';

export type Phase = 'reading' | 'writing' | 'finished' | 'cut';

export interface ReplyFace {
  phase: Phase;
  text: string;
  route: RouteView | null;
  marks: readonly Mark[];
  /** Why it was cut, in plain words. */
  cut: string | null;
  /** What it waits for at the moment. */
  note: string | null;
  wordsPerSecond: number | null;
  firstWordMs: number | null;
  finish: MessageFinish;
  /** How it was made in the end, with who did what. */
  summary: ReplySummary | null;
}

/** Whether the model can be asked to go on with a reply. */
export function canGoOn({ finish, text }: Pick<ReplyFace, 'finish' | 'text'>): boolean {
  return finish !== 'complete' && finish !== 'running' && text !== '';
}

/** A reply from the past, or one that is being made and was begun before this page was loaded. */
export function faceOf(message: MessageView): ReplyFace {
  const { summary, path, text, finish } = message;
  const cut = keptCut(message);
  const way = summary ?? path;
  return {
    phase: finish === 'running' ? 'writing' : cut === null ? 'finished' : 'cut',
    text,
    route: way?.route ?? null,
    marks: way === null ? [] : marksOf(way, text),
    cut,
    note: null,
    wordsPerSecond: summary === null ? null : summarySpeed(summary, text),
    firstWordMs: summary?.first_token_ms ?? null,
    finish,
    summary,
  };
}

/** Words per second: tokens are counted for machines, words for people. */
export function summarySpeed(summary: ReplySummary, text: string): number | null {
  const { completion_tokens: tokens, tokens_per_second: rate } = summary;
  if (tokens < 2 || !(rate > 0)) return null;
  return (countWords(text) * rate) / tokens;
}

/** The sentence at the place of a hand-over. */
export function handOverText({ from, to, pause_ms }: FailoverView): string {
  return t.chat.handOver(from, to, seconds(pause_ms));
}

/** Where the hand-overs of a kept reply stand. The house counts tokens; text is even enough to place
 *  them by proportion, to the word. While a reply is made the place is exact, see `live.svelte.ts`. */
function marksOf(way: PathView, text: string): Mark[] {
  const last = way.failovers.at(-1)?.after_tokens ?? 0;
  const tokens = Math.max(1, last, way.completion_tokens);
  return way.failovers.map((failover) => ({
    at: Math.round((text.length * failover.after_tokens) / tokens),
    text: handOverText(failover),
  }));
}
