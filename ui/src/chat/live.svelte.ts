/**
 * A reply in the making: takes the events of the backend, shows their sum.
 *
 * Text is put on the page at most 30 times a second, and eight times where it is so long that
 * reading it again costs more; everything else shows at once.
 */
import type { FailoverView } from '../generated/FailoverView';
import type { MessageFinish } from '../generated/MessageFinish';
import type { PathView } from '../generated/PathView';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { ReplySummary } from '../generated/ReplySummary';
import type { RouteView } from '../generated/RouteView';
import type { ShardState } from '../generated/ShardState';
import type { StretchView } from '../generated/StretchView';
import type { ThoughtView } from '../generated/ThoughtView';
import type { Mark } from '../kit/markdown/marks';
import { countWords } from '../kit/words';
import { t } from '../strings';
import { cutText } from '../strings/problems';
import { type Begun, growing, handOverText, marksOf, type Phase, type ReplyFace, saidAndThought, summarySpeed } from './face';
import type { Wait } from './wait';

const SHOW_EVERY_MS = 33;
const SHOW_LONG_EVERY_MS = 120;
const LONG_CHARACTERS = 20_000;
const NOTHING: Begun = { text: '', thought: null, way: null, stretches: [] };

export class LiveReply implements ReplyFace {
  phase = $state<Phase>('reading');
  text = $state('');
  thought = $state.raw<ThoughtView | null>(null);
  route = $state.raw<RouteView | null>(null);
  marks = $state.raw<readonly Mark[]>([]);
  cut = $state<string | null>(null);
  note = $state<string | null>(null);
  wait = $state.raw<Wait | null>(null);
  shared = $state.raw<readonly string[]>([]);
  summary = $state.raw<ReplySummary | null>(null);
  wordsPerSecond = $state<number | null>(null);
  finish = $state<MessageFinish>('running');
  readonly reworded = false;
  /** The model that was asked. */
  model: string | null = null;
  /** Who computed it so far; for a reply that ends without a summary. */
  path = $state.raw<PathView | null>(null);
  stretches = $state.raw<readonly StretchView[]>([]);

  /** All text that has come; `text` is what is shown of it. */
  #received = '';
  #thought: ThoughtView | null = null;
  #showing: ReturnType<typeof setTimeout> | null = null;
  #firstAt: number | null = null;
  readonly #now: () => number;
  /** Words of a cut reply that goes on; they do not count as speed. */
  readonly #wordsBefore: number;
  /** Those of a cut reply that goes on come first, and its tokens count. */
  readonly #failovers: FailoverView[];
  readonly #tokensBefore: number;
  #tokens = 0;

  /** `begun`: what a cut reply had, where this is its rest. `now` in milliseconds, monotonic. */
  constructor(begun = NOTHING, now: () => number = () => performance.now()) {
    const { text, thought, way, stretches } = begun;
    this.#now = now;
    this.#received = text;
    this.text = text;
    this.#thought = thought;
    this.thought = thought;
    this.stretches = stretches;
    this.marks = marksOf(begun);
    this.#failovers = [...(way?.failovers ?? [])];
    this.#tokensBefore = way?.completion_tokens ?? 0;
    this.#wordsBefore = countWords(saidAndThought(begun));
    if (text !== '' || thought !== null) this.phase = growing(begun);
  }

  get ended(): boolean {
    return this.phase === 'finished' || this.phase === 'cut';
  }

  take(event: ReplyEvent): void {
    if (this.ended) return;
    if (event.kind === 'token_delta' || event.kind === 'thought_delta') {
      this.#tokens = event.tokens;
      if (event.kind === 'token_delta') this.#received += event.text;
      else this.#thought = { text: (this.#thought?.text ?? '') + event.text, ms: event.ms };
      this.phase = growing({ text: this.#received, thought: this.#thought });
      this.#showSoon();
      return;
    }
    this.#show();
    switch (event.kind) {
      case 'started':
        if (event.predicted !== null) this.wait = { prediction: event.predicted, since: Date.now() / 1000 };
        this.#goOver(event.route);
        break;
      case 'shard_status':
        this.note = statusNote(event.device, event.status);
        this.shared = this.shared.filter((device) => device !== event.device);
        if (event.status === 'shared') this.shared = [...this.shared, event.device];
        break;
      case 'shard_failover':
        this.#failovers.push({ ...event.failover, after_tokens: this.#tokensBefore + event.failover.after_tokens });
        this.#mark(handOverText(event.failover), event.route);
        break;
      case 'fallback_to_local':
        this.#mark(t.chat.fallBack, event.route);
        break;
      case 'done':
        this.#finish(event.summary);
        break;
      case 'pipeline_aborted':
        this.finish = event.code === 'cancelled' ? 'stopped' : 'failed';
        this.cut = cutText(event.code, event.sentence, event.wording);
        this.note = null;
        this.phase = 'cut';
        if (this.route !== null) {
          this.path = { route: this.route, failovers: this.#failovers, completion_tokens: this.#tokensBefore + this.#tokens };
        }
        break;
    }
  }

  #showSoon(): void {
    this.#firstAt ??= this.#now();
    this.wait = null;
    this.note = null;
    const pause = this.#received.length + (this.#thought?.text.length ?? 0) > LONG_CHARACTERS ? SHOW_LONG_EVERY_MS : SHOW_EVERY_MS;
    this.#showing ??= setTimeout(() => { this.#show(); }, pause);
  }

  #show(): void {
    if (this.#showing !== null) clearTimeout(this.#showing);
    this.#showing = null;
    this.text = this.#received;
    this.thought = this.#thought;
    const words = countWords(saidAndThought(this)) - this.#wordsBefore;
    const passed = this.#firstAt === null ? 0 : this.#now() - this.#firstAt;
    // Below half a second the figure would only flicker.
    if (passed > 500 && words > 1) this.wordsPerSecond = ((words - 1) * 1000) / passed;
  }

  #mark(text: string, route: RouteView): void {
    this.marks = [...this.marks, { at: this.#received.length, text }];
    this.#goOver(route);
    this.note = null;
  }

  /** The words that come now are computed over `route`. */
  #goOver(route: RouteView): void {
    this.route = route;
    const after_tokens = this.#tokensBefore + this.#tokens;
    this.stretches = [...this.stretches, { at: this.#received.length, after_tokens, route }];
  }

  #finish(summary: ReplySummary): void {
    this.summary = summary;
    this.shared = summary.shared;
    this.finish = summary.finish_reason === 'length' ? 'length' : 'complete';
    this.route = summary.route;
    this.wordsPerSecond = summarySpeed(summary, saidAndThought(this)) ?? this.wordsPerSecond;
    this.note = null;
    this.phase = 'finished';
  }
}

function statusNote(device: string, status: ShardState): string | null {
  switch (status) {
    case 'online': return null;
    case 'degraded': return t.chat.slow(device);
    case 'shared': return null;
    case 'lost': return t.chat.lost(device);
    case 'awaited': return t.chat.awaited(device);
  }
}
