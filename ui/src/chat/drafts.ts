/** What was typed and not sent, by conversation, kept on this computer until it is. */

const PREFIX = 'inglenook.draft.';
/** A longer draft is not kept: the page's storage is small and shared. */
const DRAFT_CHARACTERS_MAX = 100_000;

export class Drafts {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
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
    try {
      this.#storage.setItem(key(conversation), text);
    } catch {
      // Full storage costs the recovery of this draft, nothing else.
    }
  }
}

function key(conversation: number | null): string {
  return PREFIX + (conversation === null ? 'new' : String(conversation));
}
