/** The time, for countdowns and “two minutes ago”. Ticks once a second while somebody looks. */
import { createSubscriber } from 'svelte/reactivity';

class Clock {
  readonly #subscribe = createSubscriber((update) => {
    const beat = setInterval(update, 1000);
    return () => {
      clearInterval(beat);
    };
  });

  /** Seconds since 1970; inside an effect it asks to be read again every second. */
  get seconds(): number {
    this.#subscribe();
    return Date.now() / 1000;
  }
}

export const clock = new Clock();
