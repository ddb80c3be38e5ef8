/** The list of conversations: search, titles, deletion, and the days they belong to. */
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { Refusal, type Backend } from '../backend/backend';
import type { ConversationView } from '../generated/ConversationView';
import { t } from '../strings';

/** Searching waits for a pause in typing, so that a word costs one search, not six. */
const SEARCH_PAUSE_MS = 150;
const DAY = 24 * 3600;

export interface DayGroup {
  name: string;
  chats: ConversationView[];
}

export class ChatList {
  search = $state('');
  problem = $state<string | null>(null);
  readonly #backend: Backend;
  #typing: ReturnType<typeof setTimeout> | null = null;
  /** All chats that were listed, as they are now: the open one is often not among what a search found. */
  readonly #known = new SvelteMap<number, ConversationView>();
  #found = $state.raw<ConversationView[]>([]);
  /** Chats that are being deleted, which the house still has. */
  readonly #hidden = new SvelteSet<number>();
  readonly entries = $derived(this.#found.filter(({ id }) => !this.#hidden.has(id)));
  /** Answers to older searches come too late. */
  #asked = 0;

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  async load(): Promise<void> {
    const asked = ++this.#asked;
    const search = this.search.trim();
    try {
      const found = await this.#backend.conversations(search === '' ? null : search);
      if (asked !== this.#asked) return;
      this.#found = found;
      for (const chat of found) this.#known.set(chat.id, chat);
      this.problem = null;
    } catch (thrown) {
      if (asked === this.#asked) this.problem = Refusal.sentence(thrown);
    }
  }

  find(words: string): void {
    this.search = words;
    if (this.#typing !== null) clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.load(), words === '' ? 0 : SEARCH_PAUSE_MS);
  }

  async rename(id: number, title: string): Promise<void> {
    const wanted = title.trim();
    if (wanted === '' || wanted === this.titleOf(id)) return;
    await this.#change(this.#backend.renameConversation(id, wanted), () => { this.#note(id, { title: wanted }); });
  }

  /** Puts a chat before all others, or back among them. */
  async pin(id: number, pinned: boolean): Promise<void> {
    await this.#change(this.#backend.pinConversation(id, pinned), () => { this.#note(id, pinned ? { pinned, archived: false } : { pinned }); });
  }

  /** Puts a chat away, or back among the others; resolves to whether that was done. */
  async archive(id: number, archived: boolean): Promise<boolean> {
    return this.#change(this.#backend.archiveConversation(id, archived), () => { this.#note(id, archived ? { archived, pinned: false } : { archived }); });
  }

  /** What is known of a chat, whether a search has found it or not. */
  kept(id: number): ConversationView | undefined {
    return this.#known.get(id);
  }

  /** Takes a chat out of the list, before it is deleted. */
  hide(id: number): void {
    this.#hidden.add(id);
  }

  /** Puts it back where it stood. */
  show(id: number): void {
    this.#hidden.delete(id);
  }

  /** Deletes a chat for good; resolves to why it was not. */
  async remove(id: number): Promise<string | null> {
    try {
      await this.#backend.deleteConversation(id);
    } catch (thrown) {
      // A window that went away may have done it already.
      const isGone = thrown instanceof Refusal && thrown.code === 'not_found';
      if (!isGone) {
        this.show(id);
        return Refusal.sentence(thrown);
      }
    }
    this.#known.delete(id);
    this.#found = this.#found.filter((chat) => chat.id !== id);
    this.show(id);
    await this.load();
    return null;
  }

  /** All titles that are known. */
  get titles(): ReadonlySet<string> {
    return new Set([...this.#known.values()].map(({ title }) => title));
  }

  titleOf(id: number | null): string | undefined {
    return id === null ? undefined : this.#known.get(id)?.title;
  }

  #note(id: number, change: Partial<ConversationView>): void {
    const known = this.#known.get(id);
    if (known !== undefined) this.#known.set(id, { ...known, ...change });
  }

  async #change(work: Promise<void>, done: () => void): Promise<boolean> {
    try {
      await work;
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
      return false;
    }
    done();
    await this.load();
    return true;
  }
}

/** The title of a chat that goes on from within another one: the next number behind it that no chat has. */
export function branchTitle(title: string, taken: ReadonlySet<string>): string {
  const stem = title.replace(/ \(\d{1,4}\)$/, '');
  let number = 2;
  while (taken.has(`${stem} (${String(number)})`)) number += 1;
  return `${stem} (${String(number)})`;
}

/** What is pinned, and the other chats by day; none that is put away. `now` and the result are in local days, as the person counts them. */
export function byDay(chats: readonly ConversationView[], now: Date): DayGroup[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime() / 1000;
  const limits: [number, string][] = [
    [midnight, t.chats.today],
    [midnight - DAY, t.chats.yesterday],
    [midnight - 7 * DAY, t.chats.week],
    [-Infinity, t.chats.earlier],
  ];
  const groups = limits.map(([since, name], index) => {
    const until = limits[index - 1]?.[0] ?? Infinity;
    return { name, chats: chats.filter((chat) => !chat.pinned && !chat.archived && chat.updated >= since && chat.updated < until) };
  });
  groups.unshift({ name: t.chats.pinned, chats: chats.filter(({ pinned }) => pinned) });
  return groups.filter((group) => group.chats.length > 0);
}
