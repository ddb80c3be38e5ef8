/** The list of conversations: search, titles, deletion, and the folders and days they belong to. */
import { SvelteMap, SvelteSet } from 'svelte/reactivity';
import { Refusal, type Backend } from '../backend/backend';
import type { ConversationView } from '../generated/ConversationView';
import { toasts } from '../kit/toasts.svelte';
import { t } from '../strings';

/** Searching waits for a pause in typing, so that a word costs one search, not six. */
const SEARCH_PAUSE_MS = 150;
const DAY = 24 * 3600;
/** Most characters of the name of a folder; the house cuts longer ones. */
export const FOLDER_CHARACTERS_MAX = 60;

export interface Group {
  name: string;
  chats: ConversationView[];
}

/** The list as it is shown, from top to bottom. Each chat is in one of them. */
export interface Groups {
  pinned: ConversationView[];
  /** By name. */
  folders: Group[];
  /** What lies in no folder; only days that have any. */
  days: Group[];
  archived: ConversationView[];
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
  /** Names of all folders, whatever a search has found of them. */
  readonly folders = $derived(byName([...this.#known.values()].map(({ folder }) => folder)));
  /** Those whose chats are in view. */
  readonly opened = new SvelteSet<string>();
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

  /** Puts a chat into a folder, or with '' out of one. Where it went is in view then. */
  async file(id: number, folder: string): Promise<void> {
    await this.#change(this.#backend.fileConversation(id, folder), () => { this.#note(id, { folder }); });
    const now = this.kept(id)?.folder ?? '';
    if (folder !== '' && now !== '') this.opened.add(now);
  }

  /** Gives a folder another name; resolves to the one that it has now, as the house keeps it. */
  async renameFolder(folder: string, name: string): Promise<string> {
    const wanted = name.trim();
    if (wanted === '' || wanted === folder) return folder;
    const [first] = this.inFolder(folder);
    if (first === undefined || !(await this.#moveAll(folder, wanted))) return folder;
    const now = this.kept(first)?.folder ?? wanted;
    if (this.opened.has(folder)) this.opened.add(now);
    return now;
  }

  /** Takes all chats out of a folder; resolves to whether that was done. */
  takeApart(folder: string): Promise<boolean> {
    return this.#moveAll(folder, '');
  }

  async #moveAll(folder: string, name: string): Promise<boolean> {
    const inside = this.inFolder(folder);
    return this.#change(this.#backend.renameFolder(folder, name), () => {
      for (const id of inside) this.#note(id, { folder: name });
      // Before the list says so: its rows stay then, also under somebody's pointer.
      if (name !== '' && this.opened.has(folder)) this.opened.add(name);
    });
  }

  /** The chats in a folder, those too that are pinned, put away or not found by a search. */
  inFolder(folder: string): number[] {
    return [...this.#known.values()].filter((chat) => chat.folder === folder).map(({ id }) => id);
  }

  /** Opens or closes a folder. */
  turn(folder: string): void {
    // What a search has found is in view in any case.
    if (this.search === '' && !this.opened.delete(folder)) this.opened.add(folder);
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
      // Not in the list: in a narrow window that is hidden while a chat is open.
      toasts.say({ text: Refusal.sentence(thrown), icon: 'warn', isProblem: true });
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

/** Names without those that are empty or there twice, as people sort them. */
function byName(names: readonly string[]): string[] {
  return [...new Set(names)].filter((name) => name !== '').sort((a, b) => a.localeCompare(b));
}

/** Who stands where. `now` and the result are in local days, as the person counts them. */
export function grouped(chats: readonly ConversationView[], now: Date): Groups {
  const others = chats.filter(({ pinned, archived }) => !pinned && !archived);
  const folders = byName(others.map(({ folder }) => folder)).map((name) => ({ name, chats: others.filter(({ folder }) => folder === name) }));
  return {
    pinned: chats.filter(({ pinned }) => pinned),
    folders,
    days: byDay(others.filter(({ folder }) => folder === ''), now),
    archived: chats.filter(({ archived }) => archived),
  };
}

function byDay(chats: readonly ConversationView[], now: Date): Group[] {
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime() / 1000;
  const limits: [number, string][] = [
    [midnight, t.chats.today],
    [midnight - DAY, t.chats.yesterday],
    [midnight - 7 * DAY, t.chats.week],
    [-Infinity, t.chats.earlier],
  ];
  const groups = limits.map(([since, name], index) => {
    const until = limits[index - 1]?.[0] ?? Infinity;
    return { name, chats: chats.filter(({ updated }) => updated >= since && updated < until) };
  });
  return groups.filter((group) => group.chats.length > 0);
}
