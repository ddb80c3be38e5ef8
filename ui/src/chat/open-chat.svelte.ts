/** One conversation as it is open: its messages, the branch that shows, and the reply being made. */
import { SvelteMap } from 'svelte/reactivity';
import { Refusal, type Backend } from '../backend/backend';
import type { ConversationView } from '../generated/ConversationView';
import type { MessageView } from '../generated/MessageView';
import type { ReplyChoices } from '../generated/ReplyChoices';
import type { TurnText } from '../generated/TurnText';
import { announcer } from '../kit/announcer.svelte';
import { countWords } from '../kit/words';
import { t } from '../strings';
import type { Attachment } from './attachments';
import { begunOf, faceOf, type ReplyFace } from './face';
import { LiveReply } from './live.svelte';
import { AS_SETTINGS } from '../kit/reply-choices';
import { branch, type Choices } from './tree';

/** How often a reply is looked at that another page began. */
const LOOK_AGAIN_MS = 1000;

/** A turn that the house has not confirmed yet. */
interface Waiting {
  what: TurnText;
  /** The message at which the branch ends meanwhile; null where the turn is a beginning. */
  after: number | null;
}

export class OpenChat {
  id = $state<number | null>(null);
  problem = $state<string | null>(null);
  waiting = $state.raw<Waiting | null>(null);
  /** The reply being made, or the one made last while the chat was open. */
  live = $state.raw<LiveReply | null>(null);
  /** The message that it fills. */
  liveId = $state<number | null>(null);
  /** The message that is being edited. */
  editing = $state<number | null>(null);
  /** Never saved; gone when it is left. */
  temporary = $state(false);
  /** What the model is told before the first message. */
  instructions = $state('');
  /** The model that was chosen for this chat; null where nobody chose one for it. */
  model = $state<string | null>(null);
  /** Whether its replies stay on this computer. */
  onlyHere = $state(false);
  /** How its replies are made, where that is not as the settings say. */
  choices = $state.raw<ReplyChoices>(AS_SETTINGS);
  /** Files that go with the next message. */
  files = $state.raw<readonly Attachment[]>([]);
  /** Words that are typed over messages and not taken yet, by message. */
  readonly typed = new SvelteMap<number, string>();
  /** How often somebody asked to find words in it since that was closed; 0 while it is closed. */
  finding = $state(0);
  /** Replies whose words show who computed them. */
  marked = $state.raw<ReadonlySet<number>>(new Set());
  #messages = $state.raw<MessageView[]>([]);
  #choices = $state.raw<Choices>(new Map());
  /** Stop was asked for before the house had named the reply. */
  #stopWhenNamed = false;
  #rewording = false;
  #lookAgain: ReturnType<typeof setTimeout> | undefined;
  readonly #backend: Backend;
  readonly #changed: () => void;
  readonly #answered: (chat: OpenChat) => void;
  readonly #arranged: (chat: OpenChat) => void;

  readonly #branch = $derived(branch(this.#messages, this.#choices));

  /** What shows: while a turn waits, the branch ends at the message that it follows. */
  readonly steps = $derived.by(() => {
    const waiting = this.waiting;
    if (waiting === null) return this.#branch;
    const end = this.#branch.findIndex((step) => step.message.id === waiting.after);
    return this.#branch.slice(0, end + 1);
  });

  readonly busy = $derived(this.live !== null && !this.live.ended);
  readonly empty = $derived(this.steps.length === 0 && this.waiting === null);

  /** Whether there is anything here that would be gone with the page. */
  get isUnkept(): boolean {
    return (this.temporary && !this.empty) || this.files.length > 0 || this.typed.size > 0;
  }

  /** `changed` is called when the list of conversations may show something new, `arranged` when it was set how a chat
   *  that the house does not know yet is to be answered, `answered` when a reply has come to its end. */
  constructor(
    backend: Backend,
    id: number | null,
    changed: () => void,
    arranged: (chat: OpenChat) => void = () => undefined,
    answered: (chat: OpenChat) => void = () => undefined,
  ) {
    this.#backend = backend;
    this.#changed = changed;
    this.#answered = answered;
    this.#arranged = arranged;
    this.id = id;
  }

  /** Takes over what the list knows of this conversation. */
  know(view: ConversationView): void {
    this.instructions = view.instructions;
    this.onlyHere = view.only_here;
    this.choices = view.choices;
  }

  async load(): Promise<void> {
    if (this.id === null || this.busy) return;
    try {
      this.#messages = await this.#backend.messages(this.id);
      this.problem = null;
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
      return;
    }
    // A reply that was begun before this page was loaded goes on; its words come by looking.
    if (this.#messages.some((message) => message.finish === 'running')) {
      clearTimeout(this.#lookAgain);
      this.#lookAgain = setTimeout(() => void this.load(), LOOK_AGAIN_MS);
    }
  }

  /** Says something new; resolves to whether it was taken. */
  say(text: string, model: string): Promise<boolean> {
    const parent = this.steps.at(-1)?.message.id ?? null;
    return this.#turn({ what: { kind: 'new', message: { text, parent } }, after: parent }, model);
  }

  /** Says something else in the place of a message of the person; the old one stays beside it. Resolves to whether it
   *  was taken; what was refused is still being edited. */
  async edit({ id, parent }: MessageView, text: string, model: string | null): Promise<boolean> {
    const isBusy = this.busy || this.waiting !== null;
    if (isBusy || model === null) {
      this.problem = t.chat.notSaid(isBusy ? t.chat.stillBusy : t.chat.noModelYet);
      return false;
    }
    this.editing = null;
    const taken = await this.#turn({ what: { kind: 'new', message: { text, parent } }, after: parent }, model);
    if (taken) this.typed.delete(id);
    else this.editing ??= id;
    return taken;
  }

  /** Puts words of the person in the place of a reply, which stays beside them. Resolves to whether that was done; what
   *  was refused is still being edited. */
  async reword({ id, parent }: MessageView, text: string): Promise<boolean> {
    // Asked for twice, it would be done twice.
    if (this.#rewording) return false;
    this.#rewording = true;
    try {
      const reworded = await this.#backend.rewordReply(id, text);
      this.typed.delete(id);
      this.editing = null;
      await this.load();
      this.choose(parent, reworded);
      this.#changed();
      return true;
    } catch (thrown) {
      this.problem = t.app.notSaved(Refusal.sentence(thrown));
      return false;
    } finally {
      this.#rewording = false;
    }
  }

  /** Asks for another answer to a message of the person. */
  again(userMessage: number, model: string): Promise<boolean> {
    return this.#turn({ what: { kind: 'again', message: userMessage }, after: userMessage }, model);
  }

  /** Asks for the rest of a reply that was cut. */
  more(reply: number, model: string): Promise<boolean> {
    return this.#turn({ what: { kind: 'more', message: reply }, after: reply }, model);
  }

  /** Starts to edit what the person said last; says whether there is anything to edit. */
  editLast(): boolean {
    const last = this.steps.findLast((step) => step.message.role === 'user');
    if (last === undefined || this.busy || this.waiting !== null) return false;
    this.editing = last.message.id;
    return true;
  }

  /** What a reply shows. */
  face(reply: MessageView): ReplyFace {
    return reply.id === this.liveId && this.live !== null ? this.live : faceOf(reply);
  }

  /** Shows who computed which words of a reply, or hides it again. */
  mark(reply: number): void {
    const marked = new Set(this.marked);
    const hides = marked.delete(reply);
    if (!hides) marked.add(reply);
    this.marked = marked;
    announcer.say(hides ? t.looks.hidden : t.looks.shown);
  }

  /** The same for the latest reply; says whether it knows who computed its words. */
  markLast(): boolean {
    const last = this.steps.findLast((step) => step.message.role === 'assistant')?.message;
    if (last === undefined || this.face(last).stretches.length === 0) return false;
    this.mark(last.id);
    return true;
  }

  /** Opens the search in what was said; says whether there is anything. */
  find(): boolean {
    if (this.empty) return false;
    this.finding += 1;
    return true;
  }

  /** Stops the reply, also one that waits for its turn. */
  async stop(): Promise<void> {
    if (this.waiting !== null) this.#stopWhenNamed = true;
    if (this.waiting !== null || this.liveId === null || !this.busy) return;
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

  /** Sets what the model is told before the first message. */
  async instruct(instructions: string): Promise<void> {
    const before = this.instructions;
    this.instructions = instructions;
    if (this.id === null) return this.#arranged(this);
    if (instructions === before) return;
    await this.#keep(this.#backend.instructConversation(this.id, instructions), () => {
      this.instructions = before;
    });
  }

  /** Keeps the replies of this conversation on this computer, or lets others help again. */
  async confine(onlyHere: boolean): Promise<void> {
    const before = this.onlyHere;
    this.onlyHere = onlyHere;
    if (this.id === null) return this.#arranged(this);
    await this.#keep(this.#backend.confineConversation(this.id, onlyHere ? 'this_device' : 'house'), () => {
      this.onlyHere = before;
    });
  }

  /** Sets how its replies are made from now on. */
  async tune(choices: ReplyChoices): Promise<void> {
    const before = this.choices;
    this.choices = choices;
    if (this.id === null) return this.#arranged(this);
    await this.#keep(this.#backend.tuneConversation(this.id, choices), () => {
      this.choices = before;
    });
  }

  async #keep(work: Promise<void>, undo: () => void): Promise<void> {
    try {
      await work;
      this.problem = null;
      this.#changed();
    } catch (thrown) {
      undo();
      this.problem = t.app.notSaved(Refusal.sentence(thrown));
    }
  }

  async #turn(waiting: Waiting, model: string): Promise<boolean> {
    if (this.busy || this.waiting !== null) return false;
    const { what } = waiting;
    const cut = what.kind === 'more' ? this.#messages.find((message) => message.id === what.message) : undefined;
    const live = new LiveReply(cut && begunOf(cut));
    live.model = model;
    this.problem = null;
    this.#stopWhenNamed = false;
    this.waiting = waiting;
    this.live = live;
    this.liveId = cut?.id ?? null;
    try {
      const turn = {
        conversation: this.id,
        start: { temporary: this.temporary, instructions: this.instructions, choices: this.choices },
        text: what,
        model,
        reach: this.onlyHere ? ('this_device' as const) : ('house' as const),
      };
      const started = await this.#backend.say(turn, (event) => {
        live.take(event);
        if (live.ended) this.#settle(live);
      });
      this.id = started.conversation;
      this.liveId = started.reply_message;
      if (what.kind === 'new') this.#add(started.user_message, what.message.parent, 'user', what.message.text);
      if (what.kind !== 'more') this.#add(started.reply_message, started.user_message, 'assistant', '');
      this.waiting = null;
      if (live.ended) this.#settle(live);
      else if (this.#stopWhenNamed) await this.stop();
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
    const finish = role === 'user' ? ('complete' as const) : ('running' as const);
    const message: MessageView = { id, parent, role, text, thought: null, created, finish, reworded: false, summary: null, path: null, stretches: [], cut_because: null, cut_code: null };
    this.#messages = [...this.#messages, message];
    this.#choices = new Map([...this.#choices, [parent, id]]);
  }

  /** Keeps what a finished reply said. Comes once the stream has ended and its message is known. */
  #settle(live: LiveReply): void {
    if (this.liveId === null || live !== this.live || this.waiting !== null) return;
    const { text, thought, summary, path, stretches, finish, cut } = live;
    this.#messages = this.#messages.map((message) =>
      message.id === this.liveId ? { ...message, text, thought, summary, path, stretches: [...stretches], finish, cut_because: cut, cut_code: null } : message,
    );
    if (finish === 'stopped') announcer.say(t.chat.announceStopped);
    else announcer.say(cut === null ? t.chat.finished(countWords(text)) : t.chat.announceCut(cut));
    this.#changed();
    if (cut === null && finish !== 'stopped') this.#answered(this);
  }
}
