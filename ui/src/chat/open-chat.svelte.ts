/** One conversation as it is open: its messages, the branch that shows, and the reply being made. */
import { Refusal, type Backend } from '../backend/backend';
import type { MessageView } from '../generated/MessageView';
import type { ReachAsk } from '../generated/ReachAsk';
import { announcer } from '../kit/announcer.svelte';
import { countWords } from '../kit/words';
import { t } from '../strings';
import { LiveReply } from './live.svelte';
import { branch, type Choices } from './tree';

/** How a turn is to be made. */
export interface Manner {
  model: string;
  reach: ReachAsk;
}

/** A turn that the house has not confirmed yet. */
interface Waiting {
  /** What the person said; null when an old message is answered again. */
  text: string | null;
  parent: number | null;
}

export class OpenChat {
  id = $state<number | null>(null);
  problem = $state<string | null>(null);
  waiting = $state.raw<Waiting | null>(null);
  /** The reply being made, or the one made last while the chat was open. */
  live = $state.raw<LiveReply | null>(null);
  /** The message that it fills. */
  liveId = $state<number | null>(null);
  #messages = $state.raw<MessageView[]>([]);
  #choices = $state.raw<Choices>(new Map());
  readonly #backend: Backend;
  readonly #changed: () => void;

  readonly #branch = $derived(branch(this.#messages, this.#choices));

  /** What shows: while an answer is made again, the branch ends at the message it answers. */
  readonly steps = $derived.by(() => {
    const waiting = this.waiting;
    if (waiting?.text !== null) return this.#branch;
    const end = this.#branch.findIndex((step) => step.message.id === waiting.parent);
    return this.#branch.slice(0, end + 1);
  });

  readonly busy = $derived(this.live !== null && !this.live.ended);
  readonly empty = $derived(this.steps.length === 0 && this.waiting === null);

  /** `changed` is called when the list of conversations may show something new. */
  constructor(backend: Backend, id: number | null, changed: () => void) {
    this.#backend = backend;
    this.#changed = changed;
    this.id = id;
  }

  async load(): Promise<void> {
    if (this.id === null || this.busy) return;
    try {
      this.#messages = await this.#backend.messages(this.id);
      this.problem = null;
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
  }

  /** Says something new; resolves to whether it was taken. */
  say(text: string, manner: Manner): Promise<boolean> {
    return this.#turn({ text, parent: this.steps.at(-1)?.message.id ?? null }, manner);
  }

  /** Asks for another answer to a message of the person. */
  again(userMessage: number, manner: Manner): Promise<boolean> {
    return this.#turn({ text: null, parent: userMessage }, manner);
  }

  async stop(): Promise<void> {
    if (this.liveId === null || !this.busy) return;
    try {
      await this.#backend.stop(this.liveId);
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
  }

  /** Shows another message among siblings. */
  choose(parent: number | null, message: number): void {
    this.#choices = new Map([...this.#choices, [parent, message]]);
  }

  async #turn(waiting: Waiting, manner: Manner): Promise<boolean> {
    if (this.busy || this.waiting !== null) return false;
    const live = new LiveReply();
    this.problem = null;
    this.waiting = waiting;
    this.live = live;
    this.liveId = null;
    try {
      const turn = { conversation: this.id, parent: waiting.parent, text: waiting.text, ...manner };
      const started = await this.#backend.say(turn, (event) => {
        live.take(event);
        if (live.ended) this.#settle(live);
      });
      this.id = started.conversation;
      this.liveId = started.reply_message;
      if (waiting.text !== null) this.#add(started.user_message, waiting.parent, 'user', waiting.text);
      this.#add(started.reply_message, started.user_message, 'assistant', '');
      this.waiting = null;
      if (live.ended) this.#settle(live);
      this.#changed();
      return true;
    } catch (thrown) {
      this.waiting = null;
      this.live = null;
      this.problem = t.chat.notSaid(Refusal.sentence(thrown));
      return false;
    }
  }

  #add(id: number, parent: number | null, role: MessageView['role'], text: string): void {
    const created = Math.floor(Date.now() / 1000);
    const message = { id, parent, role, text, created, summary: null, cut_because: null };
    this.#messages = [...this.#messages, message];
    this.#choices = new Map([...this.#choices, [parent, id]]);
  }

  /** Keeps what a finished reply said. Comes once the stream has ended and its message is known. */
  #settle(live: LiveReply): void {
    if (this.liveId === null || live !== this.live) return;
    const { text, summary, cut } = live;
    this.#messages = this.#messages.map((message) =>
      message.id === this.liveId ? { ...message, text, summary, cut_because: cut } : message,
    );
    announcer.say(cut === null ? t.chat.finished(countWords(text)) : t.chat.announceCut(cut));
    this.#changed();
  }
}
