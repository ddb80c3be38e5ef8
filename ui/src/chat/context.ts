/** How much of what the model can hold a conversation takes. Pure. */
import type { Step } from './tree';

/** Characters of a token where nothing was counted yet: low, so that the estimate is rather too high. */
const CHARACTERS_PER_TOKEN = 3;
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
}

/** Characters of a token, as the replies of this branch show it. */
export function charactersPerToken(steps: readonly Step[]): number {
  for (const { message } of [...steps].reverse()) {
    const tokens = message.summary?.completion_tokens ?? 0;
    if (tokens >= TOKENS_COUNTED_MIN) return Math.max(1, (message.text.length + (message.thought?.text.length ?? 0)) / tokens);
  }
  return CHARACTERS_PER_TOKEN;
}

/** Tokens of a text, estimated. */
export function tokensOf(text: string, perToken: number): number {
  return Math.ceil(text.length / perToken);
}

/** The branch and what is typed, against the model's window. */
export function meter(steps: readonly Step[], typed: string, window: number): Meter {
  const perToken = charactersPerToken(steps);
  const counted = steps.findLastIndex((step) => step.message.summary !== null);
  const summary = steps[counted]?.message.summary;
  // What was thought is not told to the model again.
  const thought = tokensOf(steps[counted]?.message.thought?.text ?? '', perToken);
  const known = summary ? Math.max(0, summary.prompt_tokens + summary.completion_tokens - thought) : 0;
  const later = steps.slice(counted + 1).reduce((sum, { message }) => sum + tokensOf(message.text, perToken), 0);
  const used = known + later + tokensOf(typed, perToken);
  const share = window > 0 ? used / window : 0;
  return { used, window, percent: Math.round(share * 100), level: share > 1 ? 'over' : share >= NEAR ? 'near' : 'room' };
}
