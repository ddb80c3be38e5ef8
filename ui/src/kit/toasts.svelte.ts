/**
 * Short messages at the lower edge of the window: what was just done, for about six seconds, and one way to take it back.
 *
 * A message may stand for something that is still to be done (`over`): that happens once its time is over, and is
 * never left out.
 */
import type { IconName } from './icons';

/** How long a message can be read, and taken back. */
export const SHOWN_MS = 6000;
/** How often the time of the messages is counted. */
const BEAT_MS = 200;
/** More are not drawn at once. */
export const DRAWN_MAX = 3;

export interface Message {
  text: string;
  icon?: IconName;
  /** Takes back what was done; `name` is what its button is called aloud. */
  undo?: { name: string; act: () => void };
  /** What is still to be done when the time to take it back is over. */
  over?: () => Promise<void>;
  /** Something did not happen: it stays until it was read and closed. */
  isProblem?: boolean;
}

export class Toast {
  readonly message: Message;
  left = SHOWN_MS;
  /** The pointer is on it. */
  isPointed = false;
  /** Something in it has the focus. */
  isFocused = false;

  constructor(message: Message) {
    this.message = message;
  }
}

export class Toasts {
  /** All of them, newest last. */
  all = $state.raw<readonly Toast[]>([]);
  /** Those that are drawn. */
  readonly drawn = $derived(this.all.slice(-DRAWN_MAX));
  #clock: ReturnType<typeof setInterval> | null = null;
  /** What is being done of messages whose time is over. */
  #running = new Set<Promise<void>>();

  say(message: Message): void {
    const newest = this.all.at(-1);
    // The same words twice are one message that stays longer.
    const isSame = newest?.message.text === message.text && newest.message.undo === undefined && newest.message.over === undefined;
    const before = isSame ? this.all.slice(0, -1) : [...this.all];
    // Only those that have nothing left to do make room.
    while (before.length >= DRAWN_MAX) {
      const extra = before.findIndex((one) => one.message.over === undefined);
      if (extra < 0) break;
      before.splice(extra, 1);
    }
    this.#set([...before, new Toast(message)]);
  }

  /** Takes back what a message says. Nothing is left to do then. */
  undo(toast: Toast): void {
    if (!this.all.includes(toast)) return;
    this.#set(this.all.filter((one) => one !== toast));
    toast.message.undo?.act();
  }

  /** Takes back what was done last; says whether there was anything. */
  undoNewest(): boolean {
    const newest = this.all.findLast((one) => one.message.undo !== undefined);
    if (newest === undefined) return false;
    this.undo(newest);
    return true;
  }

  /** Ends a message now. */
  close(toast: Toast): void {
    if (!this.all.includes(toast)) return;
    this.#set(this.all.filter((one) => one !== toast));
    const { over } = toast.message;
    if (over === undefined) return;
    // It says by itself how it went.
    const work = over().catch(() => undefined).finally(() => this.#running.delete(work));
    this.#running.add(work);
  }

  /** Ends every message, and does now what they stand for. */
  async finish(): Promise<void> {
    for (const toast of this.all) this.close(toast);
    await Promise.all(this.#running);
  }

  #set(all: readonly Toast[]): void {
    this.all = all;
    const isTicking = all.some((one) => one.message.isProblem !== true);
    if (isTicking) this.#clock ??= setInterval(() => { this.#beat(); }, BEAT_MS);
    else if (this.#clock !== null) {
      clearInterval(this.#clock);
      this.#clock = null;
    }
  }

  /** Time stands while somebody is at a message, and while a dialog keeps everybody from them. */
  #beat(): void {
    if (this.all.some((one) => one.isPointed || one.isFocused) || document.querySelector('dialog[open]') !== null) return;
    for (const toast of this.all) {
      if (toast.message.isProblem === true) continue;
      toast.left -= BEAT_MS;
      if (toast.left <= 0) this.close(toast);
    }
  }
}

export const toasts = new Toasts();
