/**
 * Chats that somebody deletes, from the moment in which they leave the list until they are gone.
 *
 * Kept on this computer, so that a window that is loaded anew meanwhile, or a program that ends, forgets none. The
 * title is kept beside the number: in a folder that was emptied, the same number may be another chat.
 */

const KEY = 'inglenook.deleting';

export interface Deletion {
  id: number;
  title: string;
}

export class Deletions {
  #all: readonly Deletion[];
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
    this.#all = parse(storage.getItem(KEY));
  }

  get all(): readonly Deletion[] {
    return this.#all;
  }

  add(deletion: Deletion): void {
    this.#set([...this.#all.filter(({ id }) => id !== deletion.id), deletion]);
  }

  /** It is done, or it was taken back. */
  drop(id: number): void {
    this.#set(this.#all.filter((one) => one.id !== id));
  }

  #set(all: readonly Deletion[]): void {
    this.#all = all;
    try {
      if (all.length === 0) this.#storage.removeItem(KEY);
      else this.#storage.setItem(KEY, JSON.stringify(all));
    } catch {
      // Full storage: they are deleted all the same, unless this page ends before.
    }
  }
}

function parse(json: string | null): Deletion[] {
  try {
    const read: unknown = JSON.parse(json ?? '[]');
    return Array.isArray(read) ? read.filter(isDeletion) : [];
  } catch {
    return [];
  }
}

function isDeletion(value: unknown): value is Deletion {
  return typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number'
    && 'title' in value && typeof value.title === 'string';
}
