/** What was typed and not sent, by conversation, kept on this computer until it is; and how the chat is to be answered
 *  that has not begun. */

const PREFIX = 'inglenook.draft.';
const ARRANGED = 'inglenook.draft.new.arranged';
/** A longer draft is not kept: the page's storage is small and shared. */
const DRAFT_CHARACTERS_MAX = 100_000;

export interface Arranged {
  /** Its replies stay on this computer. */
  onlyHere: boolean;
  /** What the model is told first. */
  instructions: string;
}

export class Drafts {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** How the chat is to be answered that has not begun. */
  get arranged(): Arranged {
    try {
      const { onlyHere, instructions } = JSON.parse(this.#storage.getItem(ARRANGED) ?? '{}') as Partial<Arranged>;
      return { onlyHere: onlyHere === true, instructions: typeof instructions === 'string' ? instructions : '' };
    } catch {
      return { onlyHere: false, instructions: '' };
    }
  }

  arrange({ onlyHere, instructions }: Arranged): void {
    if (!onlyHere && instructions === '') this.#storage.removeItem(ARRANGED);
    else this.#write(ARRANGED, JSON.stringify({ onlyHere, instructions }));
  }

  /** The draft of a conversation; `null` is the one that does not exist yet. */
  of(conversation: number | null): string {
    return this.#storage.getItem(key(conversation)) ?? '';
  }

  /** An empty text forgets the draft. */
  keep(conversation: number | null, text: string): void {
    if (text === '' || text.length > DRAFT_CHARACTERS_MAX) {
      this.#storage.removeItem(key(conversation));
      return;
    }
    this.#write(key(conversation), text);
  }

  #write(name: string, text: string): void {
    try {
      this.#storage.setItem(name, text);
    } catch {
      // Full storage costs the recovery of this draft, nothing else.
    }
  }
}

function key(conversation: number | null): string {
  return PREFIX + (conversation === null ? 'new' : String(conversation));
}
