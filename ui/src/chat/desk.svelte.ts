/** Which conversation is open. Conversations whose reply is still being made stay alive beside it. */
import { Refusal, type Backend } from '../backend/backend';
import type { ExportAsk } from '../generated/ExportAsk';
import type { HouseholdView } from '../generated/HouseholdView';
import { toasts } from '../kit/toasts.svelte';
import { t } from '../strings';
import { FILES_MAX, isLong, join, pasted, PUT_BACK_CHARACTERS_MAX, read, type Attachment } from './attachments';
import { branchTitle, ChatList } from './chat-list.svelte';
import { Coming } from './coming.svelte';
import { Deletions } from './deletions';
import { Drafts, UNARRANGED } from './drafts';
import { ModelChoices } from './model-choices';
import { OpenChat } from './open-chat.svelte';
import { Presets } from './presets.svelte';
import { type Starter, starters } from './starters';

/** Open conversations that are kept beside the current one; beyond it, the oldest finished is let go. */
const KEPT_MAX = 8;

/** The message that is being written; files that were chosen for it go into no other. */
class Writing {
  /** Choices of files that are being read. */
  reading = $state(0);
}

export class ChatDesk {
  readonly list: ChatList;
  readonly drafts: Drafts;
  readonly presets: Presets;
  /** The model that comes, as the strip over the message field tells it. */
  readonly coming = new Coming();
  current: OpenChat = $state.raw() as OpenChat;
  /** What is in the message field. */
  draft = $state('');
  /** Why a file was not attached. */
  refused = $state<string | null>(null);
  #writing = $state.raw(new Writing());
  /** Counts choices of a model: the storage tells nobody that it changed. */
  #chosen = $state(0);
  #kept = $state.raw<OpenChat[]>([]);
  /** The files as they stand in the message. */
  readonly #filesWritten = $derived(join('', this.files));
  readonly #backend: Backend;
  readonly #models: ModelChoices;
  readonly #deletions: Deletions;

  constructor(backend: Backend, storage: Storage = localStorage) {
    this.#backend = backend;
    this.list = new ChatList(backend);
    this.drafts = new Drafts(storage);
    this.presets = new Presets(storage);
    this.#models = new ModelChoices(storage);
    this.#deletions = new Deletions(storage);
    this.current = this.#make(null);
    this.draft = this.drafts.of(null);
  }

  /** The model that answers in the open chat. */
  model(house: Pick<HouseholdView, 'models' | 'default_model'>): string | null {
    void this.#chosen;
    return this.#models.of(this.current.model, house);
  }

  /** Whether a model may think before it answers; where nobody can say, it may. */
  async thinks(model: string): Promise<boolean> {
    return this.#backend.capabilities(model).then(({ thinks }) => thinks, () => true);
  }

  /** Chooses the model of the open chat, and of those that are begun from now on. */
  chooseModel(name: string): void {
    this.current.model = name;
    this.#models.choose(name, Math.floor(Date.now() / 1000));
    this.#keepModel(this.current);
    this.#chosen += 1;
  }

  /** A chat that is not kept leaves nothing behind. */
  #keepModel(chat: OpenChat): void {
    if (!chat.temporary) this.#models.keep(chat.id, chat.model);
  }

  /** Whether anything in the open chats would be gone with the page. */
  get holdsUnkept(): boolean {
    return this.#kept.some(({ isUnkept }) => isUnkept);
  }

  startNew(): void {
    this.#show(this.#unsent());
  }

  /** The chat that has not begun, as it was left: what was set for it counts for the words that were typed. */
  #unsent(): OpenChat {
    const isUnsent = ({ id, empty, temporary }: OpenChat): boolean => id === null && empty && !temporary;
    return isUnsent(this.current) ? this.current : (this.#kept.find(isUnsent) ?? this.#make(null));
  }

  /** Files that go with the next message. */
  get files(): readonly Attachment[] {
    return this.current.files;
  }

  set files(files: readonly Attachment[]) {
    this.current.files = files;
  }

  async open(id: number): Promise<void> {
    const kept = this.#kept.find((chat) => chat.id === id);
    const chat = kept ?? this.#make(id);
    const view = this.list.kept(id);
    if (view !== undefined) chat.know(view);
    this.#show(chat);
    await chat.load();
  }

  /** Puts the first words of a message into the field, with the instructions that go with them; sends nothing.
   *  What somebody typed or told the model already stays. */
  begin({ text, instructions }: Starter): void {
    const isTyped = this.draft !== '' && starters().every((one) => one.text !== this.draft);
    this.type(isTyped ? `${this.draft.trimEnd()}\n\n${text}` : text);
    const told = this.current.instructions;
    const isOwn = told !== '' && starters().every((one) => one.instructions !== told);
    if (!isOwn) void this.current.instruct(instructions);
  }

  /** Keeps what is typed, so that it is there again after a crash or another chat. What is typed in
   *  a chat that is not kept is not kept either. */
  type(text: string): void {
    this.draft = text;
    this.drafts.keep(this.current.id, this.current.temporary ? '' : text);
  }

  /** Whether a file for the next message is being read: a PDF takes a moment. */
  get attaching(): boolean {
    return this.#writing.reading > 0;
  }

  /** Attaches files to the message that is being written now. What is read only after that message was
   *  left is dropped. */
  async attach(chosen: readonly File[]): Promise<void> {
    const writing = this.#writing;
    this.refused = null;
    writing.reading += 1;
    try {
      for (const file of chosen) {
        if (this.files.length >= FILES_MAX) {
          this.refused = t.chat.attachTooMany(FILES_MAX);
          return;
        }
        const outcome = await read(file);
        if (writing !== this.#writing) return;
        this.#take(outcome);
      }
    } finally {
      writing.reading -= 1;
    }
  }

  /** Others may have come while this one was read, so they are counted again. */
  #take(outcome: Attachment | { refused: string }): void {
    if ('refused' in outcome) {
      this.refused = outcome.refused;
      return;
    }
    const others = this.files.filter(({ name }) => name !== outcome.name);
    if (others.length < FILES_MAX) this.files = [...others, outcome];
    else this.refused = t.chat.attachTooMany(FILES_MAX);
  }

  /** Takes a text that is too long for the message field as an attachment; says whether it was. */
  paste(text: string): boolean {
    if (!isLong(text)) return false;
    this.refused = null;
    this.#take(pasted(text, this.files));
    return true;
  }

  /** Whether an attachment can be put into the message field instead. */
  fitsField({ text, pasted }: Attachment): boolean {
    return pasted === true && text.length <= PUT_BACK_CHARACTERS_MAX;
  }

  /** Puts a pasted text into the message field after all, behind what is typed there. */
  putBack(file: Attachment): void {
    this.detach(file.name);
    this.type([this.draft, file.text].filter((part) => part !== '').join('\n\n'));
  }

  detach(name: string): void {
    this.files = this.files.filter((file) => file.name !== name);
  }

  /** What would be sent now. Not one join of all: files are long, and this is asked for with each key. */
  get message(): string {
    return [this.draft.trim(), this.#filesWritten].filter((part) => part !== '').join('\n\n');
  }

  /** Sends what is typed and attached, once all of it has been read. A refused message goes back into the field. */
  async send(model: string): Promise<void> {
    const chat = this.current;
    const { message, draft, files } = this;
    if (message === '' || chat.busy || this.attaching) return;
    const before = chat.id;
    this.draft = '';
    this.files = [];
    this.refused = null;
    const taken = await chat.say(message, model);
    if (!chat.temporary) this.drafts.keep(before, taken ? '' : draft);
    if (taken && before === null) this.drafts.arrange(UNARRANGED);
    if (taken && chat.model !== null) this.#keepModel(chat);
    if (taken) return;
    if (chat.files.length === 0) chat.files = files;
    if (chat === this.current && this.draft === '') this.draft = draft;
  }

  /** Saves the open chat as a file; resolves to where it is. */
  async save(form: 'json' | 'markdown'): Promise<string> {
    const { id, steps } = this.current;
    const leaf = steps.at(-1)?.message.id;
    if (id === null || leaf === undefined) throw new Error(t.chats.none);
    const ask: ExportAsk = form === 'json' ? { kind: 'json' } : { kind: 'markdown', you: t.sheet.you, thought: t.chat.thought, leaf };
    return this.#backend.exportConversation(id, this.list.titleOf(id) ?? t.chat.untitled, ask);
  }

  /** Takes in a chat that was saved as JSON, and opens it. */
  async bringIn(file: File): Promise<void> {
    try {
      await this.#openNew(await this.#backend.importConversation(await file.text()));
    } catch (thrown) {
      toasts.say({ text: t.chats.importFailed(Refusal.sentence(thrown)), icon: 'warn', isProblem: true });
    }
  }

  /** Puts a chat away; `back` is told when that was taken back. */
  async archive(id: number, back: () => void = () => undefined): Promise<void> {
    const title = this.list.titleOf(id) ?? t.chat.untitled;
    const wasPinned = this.list.kept(id)?.pinned === true;
    if (!(await this.list.archive(id, true))) return;
    const open = this.current.id === id ? this.current : null;
    if (open !== null) this.#show(this.#unsent());
    const act = (): void => {
      if (open !== null && this.#isUntouched()) this.#reopen(open);
      // What was pinned is pinned again, which also brings it back.
      void (wasPinned ? this.list.pin(id, true) : this.list.archive(id, false)).then(back);
    };
    toasts.say({ text: t.chats.archived(title), icon: 'archive', undo: { name: t.chats.unarchive(title), act } });
  }

  /** Takes a folder apart; its chats stay, and can go back into it. */
  async takeApart(folder: string): Promise<void> {
    const inside = this.list.inFolder(folder);
    if (!(await this.list.takeApart(folder))) return;
    const act = (): void => void this.#refile(inside, folder);
    toasts.say({ text: t.chats.apart(folder), icon: 'folder', undo: { name: t.chats.together(folder), act } });
  }

  /** Gives a folder another name; resolves to the one that it has now. Where another folder has it already the two
   *  become one, which can be taken back. */
  async renameFolder(folder: string, name: string): Promise<string> {
    const inside = this.list.inFolder(folder);
    const before = this.list.folders;
    const now = await this.list.renameFolder(folder, name);
    if (now !== folder && before.includes(now)) {
      const act = (): void => void this.#refile(inside, folder);
      toasts.say({ text: t.chats.merged(folder, now), icon: 'folder', undo: { name: t.chats.unmerge(folder, now), act } });
    }
    return now;
  }

  async #refile(chats: readonly number[], folder: string): Promise<void> {
    for (const id of chats) await this.list.file(id, folder);
  }

  /** Begins a chat with a copy of the open one up to `message`, and opens it. */
  async branch(message: number): Promise<void> {
    const from = this.current;
    const title = branchTitle(this.list.titleOf(from.id) ?? t.chat.untitled, this.list.titles);
    try {
      const id = await this.#backend.branchConversation(message);
      this.#models.keep(id, from.model);
      await this.#backend.renameConversation(id, title);
      await this.#openNew(id);
    } catch (thrown) {
      toasts.say({ text: Refusal.sentence(thrown), icon: 'warn', isProblem: true });
      return;
    }
    toasts.say({ text: t.chats.branched, icon: 'branch' });
  }

  /** Opens a chat that the list does not have yet; no search hides it there. */
  async #openNew(id: number): Promise<void> {
    this.list.search = '';
    await this.list.load();
    await this.open(id);
  }

  /** Loads the list, and deletes what was to be deleted when the window was there last. */
  async start(): Promise<void> {
    const left = this.#deletions.all;
    for (const { id } of left) this.list.hide(id);
    await this.list.load();
    // They are tried again with the next window.
    if (this.list.problem !== null) return;
    for (const { id, title } of left) {
      if (this.list.titleOf(id) === title) await this.#delete(id, title);
      else {
        this.list.show(id);
        this.#deletions.drop(id);
      }
    }
  }

  /** Takes a chat out of the list, and deletes it once the time to take that back is over. `back` is told when it
   *  was taken back. */
  remove(id: number, back: () => void = () => undefined): void {
    const title = this.list.titleOf(id) ?? t.chat.untitled;
    const open = this.current.id === id ? this.current : null;
    this.#deletions.add({ id, title });
    this.list.hide(id);
    if (open !== null) this.#show(this.#unsent());
    const act = (): void => {
      this.#deletions.drop(id);
      this.list.show(id);
      if (open !== null && this.#isUntouched()) this.#reopen(open);
      back();
    };
    toasts.say({ text: t.chats.deleted(title), icon: 'bin', undo: { name: t.chats.undelete(title), act }, over: () => this.#delete(id, title) });
  }

  async #delete(id: number, title: string): Promise<void> {
    const open = this.#kept.find((chat) => chat.id === id);
    if (open?.busy) await open.stop();
    const problem = await this.list.remove(id);
    this.#deletions.drop(id);
    if (problem !== null) {
      toasts.say({ text: t.chats.notDeleted(title, problem), icon: 'warn', isProblem: true });
      return;
    }
    this.drafts.keep(id, '');
    this.#models.keep(id, null);
    this.#kept = this.#kept.filter((chat) => chat !== open);
  }

  /** Whether nobody has begun anything in the chat that shows. */
  #isUntouched(): boolean {
    const { id, empty, temporary } = this.current;
    return id === null && empty && !temporary && this.draft === '' && this.files.length === 0;
  }

  /** Shows a chat again as it was left. */
  #reopen(chat: OpenChat): void {
    if (!this.#kept.includes(chat)) this.#kept = [...this.#kept, chat];
    this.#show(chat);
  }

  #show(chat: OpenChat): void {
    const left = this.current;
    if (left === chat) return;
    if (left.temporary) void this.#drop(left);
    this.current = chat;
    this.draft = chat.temporary ? '' : this.drafts.of(chat.id);
    this.refused = null;
    this.#writing = new Writing();
  }

  /** Has its model name a chat; which ones are named, and when, is for the house to say. */
  async #entitle({ id, temporary }: OpenChat): Promise<void> {
    if (id === null || temporary) return;
    // Without one the first words stand there.
    const title = await this.#backend.entitleConversation(id).catch(() => null);
    if (title !== null) await this.list.load();
  }

  /** A chat that is not kept ends where it is left. */
  async #drop(chat: OpenChat): Promise<void> {
    this.#kept = this.#kept.filter((kept) => kept !== chat);
    await chat.stop();
    if (chat.id === null) return;
    // The house keeps only a few of them, and none beyond its own end; a refusal costs nothing.
    await this.#backend.deleteConversation(chat.id).catch(() => undefined);
  }

  #make(id: number | null): OpenChat {
    const chat = new OpenChat(
      this.#backend,
      id,
      () => void this.list.load(),
      (one) => { if (!one.temporary) this.drafts.arrange(one); },
      (one) => void this.#entitle(one),
    );
    chat.model = this.#models.kept(id);
    if (id === null) Object.assign(chat, this.drafts.arranged);
    const idle = this.#kept.filter((kept) => !kept.busy && kept.files.length === 0 && kept.typed.size === 0);
    const extra = idle.slice(0, Math.max(0, this.#kept.length + 1 - KEPT_MAX));
    this.#kept = [...this.#kept.filter((kept) => !extra.includes(kept)), chat];
    return chat;
  }
}
