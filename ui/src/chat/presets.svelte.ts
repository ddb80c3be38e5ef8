/** Instructions to start from: ready-made ones in the person's language, and their own. */

const KEY = 'inglenook.presets';
/** More of one's own are not kept; the oldest makes room. */
const OWN_MAX = 30;
/** Longest instructions that are kept here. */
export const INSTRUCTIONS_CHARACTERS_MAX = 8000;

export interface Preset {
  name: string;
  text: string;
}

export class Presets {
  own = $state.raw<readonly Preset[]>([]);
  readonly #storage: Storage;

  constructor(storage: Storage) {
    this.#storage = storage;
    this.own = parse(storage.getItem(KEY));
  }

  /** Keeps instructions under a name; a second one of that name replaces the first. */
  keep(name: string, text: string): void {
    const wanted = name.trim();
    if (wanted === '' || text.trim() === '') return;
    const others = this.own.filter((preset) => preset.name !== wanted);
    this.#set([...others, { name: wanted, text }].slice(-OWN_MAX));
  }

  forget(name: string): void {
    this.#set(this.own.filter((preset) => preset.name !== name));
  }

  #set(own: readonly Preset[]): void {
    this.own = own;
    try {
      this.#storage.setItem(KEY, JSON.stringify(own));
    } catch {
      // Full storage costs keeping it until the next time, nothing else.
    }
  }
}

function parse(json: string | null): Preset[] {
  try {
    const read: unknown = JSON.parse(json ?? '[]');
    return Array.isArray(read) ? read.filter(isPreset) : [];
  } catch {
    return [];
  }
}

function isPreset(value: unknown): value is Preset {
  return typeof value === 'object' && value !== null && 'name' in value && typeof value.name === 'string'
    && 'text' in value && typeof value.text === 'string';
}
