/** The first start: which questions are left. Each can be skipped; what was answered is kept. */

const KEY = 'inglenook.first-start';
const DONE = 'done';

/** In the order in which they are asked. */
export const STEPS = ['name', 'model', 'share', 'others'] as const;
export type StepName = (typeof STEPS)[number];

export class FirstStart {
  /** Place of the question that shows; null when all are behind. */
  at = $state<number | null>(0);
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
    const kept = storage.getItem(KEY);
    // A page that is loaded anew, for another language, goes on at the same question.
    const place = STEPS.findIndex((name) => name === kept);
    this.at = kept === DONE ? null : Math.max(0, place);
  }

  get step(): StepName | null {
    return this.at === null ? null : (STEPS[this.at] ?? null);
  }

  /** Goes to the next question; after the last one it is over. */
  next(): void {
    if (this.at === null) return;
    const following = this.at + 1;
    this.at = following < STEPS.length ? following : null;
    this.#storage.setItem(KEY, this.step ?? DONE);
  }

  /** Asks nothing more. */
  end(): void {
    this.at = null;
    this.#storage.setItem(KEY, DONE);
  }
}
