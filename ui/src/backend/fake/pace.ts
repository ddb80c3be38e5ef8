/**
 * How time passes in the fake household, counted in tokens: by itself, or by the hand of a test.
 *
 * A test that looks at something in the making lets time pass itself, or a busy machine is done before it has looked.
 */
export interface Pace {
  /** Waits for so many tokens. */
  pause(tokens: number): Promise<void>;
  /** Calls back after so many tokens. */
  later(tokens: number, then: () => void): void;
}

/** So many milliseconds a token. With 0 a pause is over at once, and what comes later comes only when a test asks
 *  for it. */
export class ByItself implements Pace {
  readonly #tokenMs: number;

  constructor(tokenMs: number) {
    this.#tokenMs = tokenMs;
  }

  pause(tokens: number): Promise<void> {
    const ms = tokens * this.#tokenMs;
    return ms === 0 ? Promise.resolve() : new Promise((done) => setTimeout(done, ms));
  }

  later(tokens: number, then: () => void): void {
    if (this.#tokenMs > 0) setTimeout(then, tokens * this.#tokenMs);
  }
}

/** Time stands until it is told to pass. */
export class ByHand implements Pace {
  #now = 0;
  #waiting: { at: number; then: () => void }[] = [];
  /** Called when something waits again. */
  #begun: (() => void) | null = null;

  pause(tokens: number): Promise<void> {
    return new Promise((done) => { this.later(tokens, done); });
  }

  later(tokens: number, then: () => void): void {
    this.#waiting.push({ at: this.#now + tokens, then });
    this.#begun?.();
  }

  /** Lets so many tokens pass, and what they bring happen. Where nothing waits for them yet, it is waited for:
   *  what a click begins may begin a little later. */
  async pass(tokens: number): Promise<void> {
    if (this.#waiting.length === 0) await new Promise<void>((begun) => { this.#begun = begun; });
    this.#begun = null;
    const end = this.#now + tokens;
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#now = next.at;
      next.then();
      // What happens now may wait again before the end.
      await new Promise((done) => setTimeout(done, 0));
    }
    this.#now = end;
  }

  /** Takes what comes first, if it comes by then. */
  #next(end: number): { at: number; then: () => void } | undefined {
    this.#waiting.sort((a, b) => a.at - b.at);
    return this.#waiting[0] !== undefined && this.#waiting[0].at <= end ? this.#waiting.shift() : undefined;
  }
}
