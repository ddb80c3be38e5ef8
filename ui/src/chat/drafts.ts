/** What was typed and not sent, by conversation, kept on this computer until it is; and how the chat is to be answered
 *  that has not begun. */

import type { ReplyChoices } from '../generated/ReplyChoices';
import { AS_SETTINGS, choicesFrom } from '../kit/reply-choices';

const PREFIX = 'inglenook.draft.';
const ARRANGED = 'inglenook.draft.new.arranged';
/** A longer draft is not kept: the page's storage is small and shared. */
const DRAFT_CHARACTERS_MAX = 100_000;

export interface Arranged {
  /** Its replies stay on this computer. */
  onlyHere: boolean;
  /** What the model is told first. */
  instructions: string;
  /** How its replies are made. */
  choices: ReplyChoices;
}

/** Nothing was arranged. */
export const UNARRANGED: Arranged = { onlyHere: false, instructions: '', choices: AS_SETTINGS };

export class Drafts {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** How the chat is to be answered that has not begun. */
  get arranged(): Arranged {
    try {
      const { onlyHere, instructions, choices } = JSON.parse(this.#storage.getItem(ARRANGED) ?? '{}') as Partial<Arranged>;
      return { onlyHere: onlyHere === true, instructions: typeof instructions === 'string' ? instructions : '', choices: choicesFrom(choices) };
    } catch {
      return UNARRANGED;
    }
  }

  arrange({ onlyHere, instructions, choices }: Arranged): void {
    const isUsual = !onlyHere && instructions === '' && choices.thinking === null && choices.temperature === null;
    if (isUsual) this.#storage.removeItem(ARRANGED);
    else this.#write(ARRANGED, JSON.stringify({ onlyHere, instructions, choices }));
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
