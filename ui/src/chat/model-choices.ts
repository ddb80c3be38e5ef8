/**
 * Which model was chosen, for which chat, kept on this computer.
 *
 * A choice stays with its chat. For other chats the last choice counts until a newer model comes: it was a
 * choice among those that were there. Where nobody chose, the house says which model answers.
 */
import type { HouseholdView } from '../generated/HouseholdView';

const LAST_KEY = 'inglenook.model';
const LAST_AT_KEY = 'inglenook.model.at';
const PREFIX = 'inglenook.model.of.';

export class ModelChoices {
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** The model of a chat for which `own` was chosen, or none. */
  of(own: string | null, { models, default_model: usual }: Pick<HouseholdView, 'models' | 'default_model'>): string | null {
    const here = (name: string | null) => models.find((model) => model.name === name);
    const chosen = here(own);
    if (chosen !== undefined) return chosen.name;
    const standing = here(usual) ?? models[0];
    const last = here(this.#storage.getItem(LAST_KEY));
    const isOlder = (standing?.added ?? 0) > Number(this.#storage.getItem(LAST_AT_KEY) ?? 0);
    return (last !== undefined && !isOlder ? last : standing)?.name ?? null;
  }

  /** What was chosen for a chat. */
  kept(conversation: number | null): string | null {
    return conversation === null ? null : this.#storage.getItem(PREFIX + String(conversation));
  }

  /** Keeps what was chosen for a chat; null forgets it. */
  keep(conversation: number | null, name: string | null): void {
    if (conversation === null) return;
    if (name === null) this.#storage.removeItem(PREFIX + String(conversation));
    else this.#write(PREFIX + String(conversation), name);
  }

  /** The person chose a model, at this second. */
  choose(name: string, at: number): void {
    this.#write(LAST_KEY, name);
    this.#write(LAST_AT_KEY, String(at));
  }

  #write(key: string, value: string): void {
    try {
      this.#storage.setItem(key, value);
    } catch {
      // Full storage costs the memory of this choice, nothing else.
    }
  }
}
