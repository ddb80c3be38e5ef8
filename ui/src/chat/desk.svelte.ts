/** Which conversation is open. Conversations whose reply is still being made stay alive beside it. */
import type { Backend } from '../backend/backend';
import type { ReachAsk } from '../generated/ReachAsk';
import { ChatList } from './chat-list.svelte';
import { Drafts } from './drafts';
import { OpenChat, type Manner } from './open-chat.svelte';

const MODEL_KEY = 'inglenook.model';
/** Open conversations that are kept beside the current one; beyond it, the oldest finished is let go. */
const KEPT_MAX = 8;

export class ChatDesk {
  readonly list: ChatList;
  readonly drafts: Drafts;
  current: OpenChat = $state.raw() as OpenChat;
  /** What is in the message field. */
  draft = $state('');
  #model = $state<string | null>(null);
  #reach = $state<ReachAsk>('house');
  #kept: OpenChat[] = [];
  readonly #backend: Backend;
  readonly #storage: Storage;

  constructor(backend: Backend, storage: Storage = localStorage) {
    this.#backend = backend;
    this.#storage = storage;
    this.list = new ChatList(backend);
    this.drafts = new Drafts(storage);
    this.#model = storage.getItem(MODEL_KEY);
    this.current = this.#make(null);
    this.draft = this.drafts.of(null);
  }

  get onlyHere(): boolean {
    return this.#reach === 'this_device';
  }

  set onlyHere(on: boolean) {
    this.#reach = on ? 'this_device' : 'house';
  }

  /** The chosen model if it is still here, else the first. */
  model(names: readonly string[]): string | null {
    return names.find((name) => name === this.#model) ?? names[0] ?? null;
  }

  chooseModel(name: string): void {
    this.#model = name;
    this.#storage.setItem(MODEL_KEY, name);
  }

  startNew(): void {
    this.#show(this.current.empty && this.current.id === null ? this.current : this.#make(null));
  }

  async open(id: number): Promise<void> {
    const kept = this.#kept.find((chat) => chat.id === id);
    this.#show(kept ?? this.#make(id));
    await this.current.load();
  }

  /** Keeps what is typed, so that it is there again after a crash or another chat. */
  type(text: string): void {
    this.draft = text;
    this.drafts.keep(this.current.id, text);
  }

  /** Sends what is typed. A refused message goes back into the field. */
  async send(model: string): Promise<void> {
    const chat = this.current;
    const text = this.draft.trim();
    if (text === '' || chat.busy) return;
    const before = chat.id;
    this.draft = '';
    const taken = await chat.say(text, this.#manner(model));
    this.drafts.keep(before, taken ? '' : text);
    if (!taken && chat === this.current && this.draft === '') this.draft = text;
  }

  async again(userMessage: number, model: string): Promise<void> {
    await this.current.again(userMessage, this.#manner(model));
  }

  async remove(id: number): Promise<void> {
    const open = this.#kept.find((chat) => chat.id === id);
    if (open?.busy) await open.stop();
    this.drafts.keep(id, '');
    await this.list.remove(id);
    this.#kept = this.#kept.filter((chat) => chat !== open);
    if (this.current === open) this.#show(this.#make(null));
  }

  #manner(model: string): Manner {
    return { model, reach: this.#reach };
  }

  #show(chat: OpenChat): void {
    this.current = chat;
    this.draft = this.drafts.of(chat.id);
    if (chat.id === null) this.#reach = 'house';
  }

  #make(id: number | null): OpenChat {
    const chat = new OpenChat(this.#backend, id, () => void this.list.load());
    const idle = this.#kept.filter((kept) => !kept.busy);
    const extra = idle.slice(0, Math.max(0, this.#kept.length + 1 - KEPT_MAX));
    this.#kept = [...this.#kept.filter((kept) => !extra.includes(kept)), chat];
    return chat;
  }
}
