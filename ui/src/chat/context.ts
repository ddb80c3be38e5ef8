/** How much of what the model can hold a conversation takes. Pure. */
import type { Step } from './tree';

/** Characters of a token where nothing was counted yet: low, so that the estimate is rather too high. */
const CHARACTERS_PER_TOKEN = 3;
/** Characters of a token in the most favourable text: what does not fit even so is not sent. */
const CHARACTERS_PER_TOKEN_MOST = 6;
/** A shorter reply says too little about how long tokens are. */
const TOKENS_COUNTED_MIN = 16;
/** From here on the person is told. */
const NEAR = 0.8;

export interface Meter {
  /** Tokens, partly estimated. */
  used: number;
  /** Most tokens. */
  window: number;
  percent: number;
  level: 'room' | 'near' | 'over';
  /** Even a generous estimate is more than the model can hold. */
  tooLong: boolean;
}

/** What a branch takes, whatever is typed behind it. */
export interface Taken {
  tokens: number;
  /** Of it, counted by the model and not estimated from characters. */
  counted: number;
  perToken: number;
}

/** Characters of a token, as the replies of this branch show it. */
export function charactersPerToken(steps: readonly Step[]): number {
  for (let at = steps.length - 1; at >= 0; at -= 1) {
    const message = steps[at]?.message;
    if (message === undefined) break;
    const tokens = message.summary?.completion_tokens ?? 0;
    if (tokens >= TOKENS_COUNTED_MIN) return Math.max(1, (message.text.length + (message.thought?.text.length ?? 0)) / tokens);
  }
  return CHARACTERS_PER_TOKEN;
}

/** Tokens of a text, estimated. */
export function tokensOf(text: string, perToken: number): number {
  return Math.ceil(text.length / perToken);
}

/** What the branch takes. Apart from what is typed, so that a key costs the same in a chat of any length. */
export function takenBy(steps: readonly Step[]): Taken {
  const perToken = charactersPerToken(steps);
  const last = steps.findLastIndex((step) => step.message.summary !== null);
  const summary = steps[last]?.message.summary;
  // What was thought is not told to the model again.
  const thought = tokensOf(steps[last]?.message.thought?.text ?? '', perToken);
  const counted = summary ? Math.max(0, summary.prompt_tokens + summary.completion_tokens - thought) : 0;
  const later = steps.slice(last + 1).reduce((sum, { message }) => sum + tokensOf(message.text, perToken), 0);
  return { tokens: counted + later, counted, perToken };
}

/** The branch and what is typed, against the model's window. */
export function meter({ tokens, counted, perToken }: Taken, typed: string, window: number): Meter {
  const used = tokens + tokensOf(typed, perToken);
  const share = window > 0 ? used / window : 0;
  const least = counted + ((used - counted) * perToken) / Math.max(perToken, CHARACTERS_PER_TOKEN_MOST);
  return {
    used,
    window,
    percent: Math.round(share * 100),
    level: share > 1 ? 'over' : share >= NEAR ? 'near' : 'room',
    tooLong: window > 0 && least > window,
  };
}
