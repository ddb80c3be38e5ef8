/** What is said until the first words of a reply come, where that takes long. Pure. */
import type { PredictionView } from '../generated/PredictionView';
import { timeLeft } from '../kit/models/words';
import { t } from '../strings';

/** Shorter waits are over before anybody has read how long they are. */
const WORTH_TELLING_MS = 5_000;
/** Loading that is shorter is told as a part of reading. */
const LOADING_MS = 2_000;

/** A wait that was predicted when it began. */
export interface Wait {
  prediction: PredictionView;
  /** When, in seconds since 1970. */
  since: number;
}

export interface WaitWords {
  words: string;
  /** How much of it has passed, from 0 to 1; null where it has no end that anybody knows. */
  part: number | null;
}

/** First the model is loaded, then the message is read. `now` in seconds since 1970; absent words: nothing is said of how
 *  long it takes. */
export function waitWords(wait: Wait | null, model: string, now: number): WaitWords | null {
  if (wait === null) return null;
  const { first_token_ms: all, load_ms: loading } = wait.prediction;
  if (all < WORTH_TELLING_MS) return null;
  const passed = Math.max(0, (now - wait.since) * 1000);
  if (loading >= LOADING_MS && passed < loading) {
    return { words: t.chat.loading(model, Math.floor(passed / 1000), Math.ceil(loading / 1000)), part: passed / loading };
  }
  if (passed >= all) return { words: t.chat.readingLonger, part: null };
  const start = loading >= LOADING_MS ? loading : 0;
  return { words: t.chat.readingLeft(timeLeft((all - passed) / 1000)), part: (passed - start) / (all - start) };
}
