/**
 * A whole small household inside the page: it streams, pairs, hands over and fails.
 *
 * Used by the unit tests and when the page is opened in a plain browser (`npm run dev`, the build `household`). What a
 * prompt says chooses what happens: “hand over” loses a helper in the middle, “fail” ends early,
 * “refuse” does not start at all, “think” thinks first, “queue” waits for its turn.
 */
import type { ConversationView } from '../generated/ConversationView';
import type { CopyExtent } from '../generated/CopyExtent';
import type { DownloadAsk } from '../generated/DownloadAsk';
import type { DownloadView } from '../generated/DownloadView';
import type { FoundView } from '../generated/FoundView';
import type { HouseholdView } from '../generated/HouseholdView';
import type { HubView } from '../generated/HubView';
import type { KeptPrivacyView } from '../generated/KeptPrivacyView';
import type { MessageView } from '../generated/MessageView';
import type { ModelView } from '../generated/ModelView';
import type { Page } from '../generated/Page';
import type { PauseReason } from '../generated/PauseReason';
import type { PauseView } from '../generated/PauseView';
import type { Problem } from '../generated/Problem';
import type { ReplyChoices } from '../generated/ReplyChoices';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { ReplySummary } from '../generated/ReplySummary';
import type { SettingAsk } from '../generated/SettingAsk';
import { NodeCalls, type Answer, type Ask } from '../generated/NodeCalls';
import type { PauseFor } from '../generated/PauseFor';
import type { Reach } from '../generated/Reach';
import type { Request } from '../generated/Request';
import type { Sharing } from '../generated/Sharing';
import type { Turn } from '../generated/Turn';
import { AS_SETTINGS } from '../kit/reply-choices';
import { Refusal, type Backend, type Shell, type WindowListener } from './backend';
import { FakeDownloads, FOUND, HERE } from './fake/models';
import { hubAnswer } from './fake/hub';
import { beginMove, pieceMoves } from './fake/models-folder';
import { PREDICTED, SLOW, DAD, GOOD_CODE, onlyHelp, routeOf, setTrust, startingHouse, timelineOf, wakeUp, WOKE_SECONDS } from './fake/household';
import { askedOf } from './fake/asked';
import { findingsOf } from './fake/findings';
import { ByHand, ByItself, type Pace } from './fake/pace';
import { changed } from './fake/settings';
import { measuredOf } from './fake/measured';
import { longPast, pipelineOf, recall } from './fake/past';
import { refuse } from './fake/refuse';
import { PAST, replyTo, THOUGHT } from './fake/replies';
import { branchOf, entitled, folderName, searched } from './fake/search';

export interface FakeOptions {
  /** Milliseconds between tokens; 0 streams as fast as promises resolve. */
  tokenMs: number;
  /** Time stands until a test lets it pass (`FakeBackend.pass`); `tokenMs` is then only said. */
  byHand: boolean;
  /** Whether there are conversations already. */
  past: boolean;
  /** What holds sharing back. */
  paused: PauseReason | null;
  /** Messages of one more chat, the oldest of all; 0 for none. */
  long: number;
}

/** A tenth of a download takes as long as so many tokens. */
const PIECE_TOKENS = 25;

const now = () => Math.floor(Date.now() / 1000);

export class FakeBackend extends NodeCalls implements Shell {
  house: HouseholdView = startingHouse();
  /** What was saved as a file, newest last. */
  readonly saved: string[] = [];
  /** Links that were opened, newest last. */
  readonly opened: string[] = [];
  /** What the page said that it speaks. */
  language = '';
  /** Whether it said that it has what nothing else keeps. */
  unkept = false;
  /** The page that it said it shows. */
  shown: Page | null = null;
  #listener: WindowListener | null = null;
  #conversations: ConversationView[] = [];
  #messages = new Map<number, MessageView[]>();
  #nextId = 1;
  #stopped = new Set<number>();
  /** Conversations that are not kept. */
  #passing = new Set<number>();
  #autostart = false;
  #asked = askedOf(this.house, now());
  /** The newest move of the models. */
  #move: { begun: () => void; stopped: () => void } | null = null;
  #key = 'nook-fak3K3yfak3K3yfak3K3yfak3K3yfak3K3yfak3K3yf';
  readonly #options: FakeOptions;
  readonly #pace: Pace;
  readonly #downloads: FakeDownloads;

  constructor(options: Partial<FakeOptions> = {}) {
    super();
    this.#options = { tokenMs: 40, byHand: false, past: true, paused: null, long: 0, ...options };
    this.#pace = this.#options.byHand ? new ByHand() : new ByItself(this.#options.tokenMs);
    this.#downloads = new FakeDownloads((edit) => { this.change(edit); }, (then) => { this.#pace.later(PIECE_TOKENS, then); });
    if (this.#options.past) this.#remember();
    const { paused } = this.#options;
    if (paused) this.#holdBack({ reason: paused, sentence: 'paused', until: paused === 'quiet_hours' ? now() + 3600 : null });
  }

  /** What this household was not taught, it refuses. */
  call<A extends Request['action']>(request: Ask<A>): Promise<Answer<A>> {
    return refuse('bad_request', `The made-up household does not know “${request.action}”.`);
  }

  watch(listener: WindowListener): Promise<void> {
    this.#listener = listener;
    listener.house(structuredClone(this.house));
    listener.askKeys('off');
    return Promise.resolve();
  }

  /** Changes the house from outside, as the tray or another device would. */
  change(edit: (house: HouseholdView) => void): void {
    edit(this.house);
    this.#listener?.house(structuredClone(this.house));
  }

  /** What the tray, the desktop and a fault reach the window by. */
  get window(): WindowListener {
    if (this.#listener === null) throw new Error('no window listens');
    return this.#listener;
  }

  /** Lets the time of so many tokens pass where it stands: see `ByHand`. */
  async pass(tokens: number): Promise<void> {
    if (!(this.#pace instanceof ByHand)) throw new Error('time passes by itself here');
    await this.#pace.pass(tokens);
  }

  /** Pieces of a download come, in tenths of it. */
  piecesCome(key: string, count: number): void {
    for (let piece = 0; piece < count; piece += 1) this.#downloads.come(key);
  }

  /** Files are dropped on the window. */
  drop(paths: string[], refused: Problem | null = null): void {
    this.#listener?.dropped(paths, refused);
  }

  arrived(language: string): Promise<void> { this.language = language; return Promise.resolve(); }
  turnedTo(page: Page): Promise<void> { this.shown = page; return Promise.resolve(); }
  holds(unkept: boolean): Promise<void> { this.unkept = unkept; return Promise.resolve(); }

  override setSharing(sharing: Sharing): Promise<void> {
    const on = sharing === 'on';
    this.change((house) => {
      house.sharing = { ...house.sharing, on, state: on ? 'sharing' : 'idle',
        status_line: on ? 'Sharing · 2 devices · idle' : 'Not sharing' };
    });
    return Promise.resolve();
  }

  override pauseSharing(span: PauseFor): Promise<void> {
    const until = Math.floor(Date.now() / 1000) + (span === 'until_tomorrow' ? 12 : 1) * 3600;
    this.#holdBack({ reason: 'owner', sentence: 'paused', until });
    return Promise.resolve();
  }

  override resumeSharing(): Promise<void> {
    this.#holdBack(null);
    return Promise.resolve();
  }

  override freeMemory(): Promise<void> {
    return this.pauseSharing('hour');
  }

  #holdBack(paused: PauseView | null): void {
    this.change((house) => {
      if (house.sharing.on) house.sharing = { ...house.sharing, paused, state: paused ? 'paused' : 'sharing' };
    });
  }

  autostart(): Promise<boolean> {
    return Promise.resolve(this.#autostart);
  }

  setAutostart(on: boolean): Promise<void> {
    this.#autostart = on;
    return Promise.resolve();
  }

  override setName(name: string): Promise<void> {
    if (name.trim() === '') return refuse('bad_request', 'A computer needs a name.');
    this.change((house) => { house.me.name = name.trim(); });
    return Promise.resolve();
  }

  override showCode() {
    const pairing = { code: '170352', addresses: ['192.168.1.12:4588', 'mias-laptop.local:4588'],
      expires: now() + 120, tries_left: 3 };
    this.change((house) => { house.pairing = pairing; });
    return Promise.resolve(pairing);
  }

  override cancelPairing(): Promise<void> {
    this.change((house) => { house.pairing = null; });
    return Promise.resolve();
  }

  override async join(target: Parameters<Backend['join']>[0], code: string) {
    await this.#pace.pause(10);
    const found = this.house.devices.find((d) =>
      target.kind === 'seen' ? d.id === target.at : d.addresses.some((a) => a.startsWith(target.at)));
    if (found === undefined) return refuse('not_found', 'Nobody answers at that address.', { kind: 'nobody_there' });
    if (!found.pairing) return refuse('not_found', 'That device does not show a code now.', { kind: 'no_code_shown' });
    if (code !== GOOD_CODE) {
      return refuse('trust_denied', 'The code is not the one on the other screen.', { kind: 'wrong_code' });
    }
    this.change(() => {
      Object.assign(found, { paired: true, trust: 'guest', connected: true, pairing: false, rtt_ms: 1.8,
        id: 'kitchen5pc2m7qxt', short_id: 'kitchen5',
        asks_help: true, their_terms: { answered: false, helps: false, asks: false },
        unused_because: 'Say whether these two computers may help each other: the question waits here.', unused: 'unanswered' });
    });
    return structuredClone(found);
  }

  override setTrust(device: string, trust: HouseholdView['devices'][number]['trust']): Promise<void> {
    this.change((house) => { setTrust(house, device, trust); });
    return Promise.resolve();
  }

  override async wake(device: string): Promise<number> {
    this.change((house) => { Object.assign(house.devices.find((d) => d.id === device) ?? {}, { waking: true }); });
    await this.#pace.pause(10);
    this.change((house) => { wakeUp(house, device); });
    return WOKE_SECONDS;
  }

  override async answerHelp(device: string, help: Parameters<Backend['answerHelp']>[1]): Promise<void> {
    await this.setTrust(device, help === 'nothing' ? 'guest' : 'trusted');
    if (help === 'nothing') return;
    if (help === 'only_this') this.change((house) => { onlyHelp(house, device); });
    await this.setSharing('on');
  }

  override forget(device: string): Promise<void> {
    this.change((house) => { house.devices = house.devices.filter((d) => d.id !== device); });
    return Promise.resolve();
  }

  override conversations(search: string | null): Promise<ConversationView[]> {
    const kept = this.#conversations.filter(({ id }) => !this.#passing.has(id));
    return Promise.resolve(structuredClone(searched(kept, this.#messages, search ?? '')));
  }

  override messages(conversation: number): Promise<MessageView[]> {
    const found = this.#messages.get(conversation);
    return found ? Promise.resolve(structuredClone(found)) : refuse('not_found', 'That chat is gone.');
  }

  override deleteConversation(conversation: number): Promise<void> {
    this.#conversations = this.#conversations.filter((c) => c.id !== conversation);
    this.#messages.delete(conversation);
    return Promise.resolve();
  }

  override entitleConversation(id: number) { return entitled(this.#conversations.find((c) => c.id === id)); }
  override renameConversation(id: number, title: string) { return this.#arrange(id, { title }); }
  override instructConversation(id: number, instructions: string) { return this.#arrange(id, { instructions }); }
  override confineConversation(id: number, reach: Reach) { return this.#arrange(id, { only_here: reach === 'this_device' }); }
  override tuneConversation(id: number, choices: ReplyChoices) { return this.#arrange(id, { choices }); }
  override capabilities(model: string) { return Promise.resolve({ thinks: !/ember/i.test(model), fills_gaps: false }); }
  override fileConversation(id: number, folder: string) { return this.#arrange(id, { folder: folderName(folder) }); }
  override renameFolder(folder: string, name: string) { return this.#arrangeAll((c) => c.folder === folder, { folder: folderName(name) }); }
  override pinConversation(id: number, pinned: boolean) { return this.#arrange(id, pinned ? { pinned, archived: false } : { pinned }); }
  override archiveConversation(id: number, archived: boolean) { return this.#arrange(id, archived ? { archived, pinned: false } : { archived }); }

  override branchConversation(message: number): Promise<number> {
    const copied = branchOf(this.#messages, message);
    if (copied.length === 0) return refuse('not_found', 'That message is gone.');
    const id = this.#begin('');
    let parent: number | null = null;
    for (const old of copied) parent = this.#copy(id, parent, old).id;
    return Promise.resolve(id);
  }

  override rewordReply(message: number, text: string): Promise<number> {
    const [of, messages] = [...this.#messages].find(([, kept]) => kept.some(({ id }) => id === message)) ?? [0, []];
    const reply = messages.find(({ id }) => id === message);
    if (reply === undefined) return refuse('not_found', 'That message is gone.');
    return Promise.resolve(Object.assign(this.#keep(of, reply.parent, 'assistant', text), { reworded: true }).id);
  }

  #arrange(id: number, change: Partial<ConversationView>): Promise<void> { return this.#arrangeAll((c) => c.id === id, change); }

  #arrangeAll(which: (one: ConversationView) => boolean, change: Partial<ConversationView>): Promise<void> {
    this.#conversations = this.#conversations.map((c) => (which(c) ? { ...c, ...change } : c));
    return Promise.resolve();
  }

  exportConversation(conversation: number, title: string, form: Parameters<Backend['exportConversation']>[2]): Promise<string> {
    const messages = this.#messages.get(conversation) ?? [];
    this.saved.push(form.kind === 'json' ? JSON.stringify({ title, messages }) : messages.map((m) => m.text).join('\n\n'));
    return Promise.resolve(`Downloads/${title}.${form.kind === 'json' ? 'json' : 'md'}`);
  }

  override importConversation(file: string): Promise<number> {
    try {
      const read = JSON.parse(file) as { title: string; messages: MessageView[] };
      const id = this.#begin(read.title);
      this.#messages.set(id, read.messages);
      return Promise.resolve(id);
    } catch {
      return refuse('bad_request', 'This is no chat that Inglenook saved as JSON.');
    }
  }

  async say(turn: Turn, onEvent: (event: ReplyEvent) => void) {
    await this.#pace.pause(1);
    const { text: what } = turn;
    if (what.kind === 'new' && what.message.text.includes('refuse')) return refuse('busy', 'This computer is busy. Try again shortly.');
    const conversation = turn.conversation ?? this.#begin(what.kind === 'new' ? what.message.text : '');
    if (turn.conversation === null) {
      if (turn.start.temporary) this.#passing.add(conversation);
      await this.instructConversation(conversation, turn.start.instructions);
      await this.confineConversation(conversation, turn.reach);
      await this.tuneConversation(conversation, turn.start.choices);
    }
    const kept = this.#messages.get(conversation) ?? [];
    const named = what.kind === 'new' ? undefined : kept.find((m) => m.id === what.message);
    const asked = what.kind === 'new' ? this.#keep(conversation, what.message.parent, 'user', what.message.text)
      : what.kind === 'again' ? named : kept.find((m) => m.id === named?.parent);
    if (asked === undefined) return refuse('not_found', 'That message is gone.');
    const reply = what.kind === 'more' && named !== undefined ? named : this.#keep(conversation, asked.id, 'assistant', '');
    void this.#stream(reply, asked.text, turn, onEvent);
    return { conversation, user_message: asked.id, reply_message: reply.id };
  }

  stop(replyMessage: number): Promise<void> {
    this.#stopped.add(replyMessage);
    return Promise.resolve();
  }

  chooseModelFile(): Promise<string | null> {
    return Promise.resolve('/models/gemma-2-2b.gguf');
  }

  override async importModel(path: string): Promise<ModelView> {
    await this.#pace.pause(10);
    if (!path.endsWith('.gguf')) return refuse('bad_model', `${path} is not a GGUF file.`);
    const name = (path.split(/[\\/]/).at(-1) ?? path).replace(/\.gguf$/, '');
    const model: ModelView = { name, title: name, digest: 'aa00', architecture: 'llama', quantisation: 'Q4_K_M', layers: 32,
      context_length: 4096, file_bytes: 4e9, built_in: false, added: now(), owned: false, file: path, ends_bytes: null, fit: HERE };
    this.change((house) => { house.models = [...house.models, model]; });
    return model;
  }

  override removeModel(name: string): Promise<void> {
    this.change((house) => { house.models = house.models.filter((model) => model.name !== name); });
    return Promise.resolve();
  }

  override async pull(source: string): Promise<DownloadView> {
    await this.#pace.pause(1);
    return this.#downloads.begin(this.house, source)
      ?? refuse('bad_request', `“${source}” names no file that can be downloaded. Write hf:owner/repository/file.gguf or an https address.`);
  }

  override async copyModel(model: string, _from: string | null, extent: CopyExtent): Promise<DownloadView> {
    await this.#pace.pause(1);
    return this.#downloads.copy(this.house, model, extent)
      ?? refuse('not_found', 'No device that may give models to this one has that now.');
  }

  override changeDownload(key: string, ask: DownloadAsk): Promise<void> {
    this.#downloads.ask(key, ask);
    return Promise.resolve();
  }

  chooseModelsFolder(): Promise<string | null> {
    return Promise.resolve('/media/mia/big disk/models');
  }

  override moveModels(to: string | null): Promise<void> {
    let refused: string | null = null;
    this.change((house) => { refused = beginMove(house, to); });
    if (refused !== null) return Promise.resolve().then(() => refuse('bad_request', refused ?? ''));
    const go = (): void => { this.#pace.later(PIECE_TOKENS, () => { if (this.modelsMove()) go(); }); };
    go();
    return new Promise((begun, stopped) => {
      this.#move = { begun, stopped: () => { stopped(new Refusal({ code: 'cancelled', sentence: 'It was stopped.' })); } };
      this.#tellMove();
    });
  }

  /** A tenth of the models moves; says whether more is to come. */
  modelsMove(): boolean {
    let more = false;
    this.change((house) => { more = pieceMoves(house); });
    this.#tellMove();
    return more;
  }

  /** Whoever asked for a move hears of it once nothing is waited for. */
  #tellMove(): void {
    if (this.house.models_folder.moving?.state !== 'waiting') this.#move?.begun();
  }

  override stopMovingModels(): Promise<void> {
    // One that has begun has been answered, and hears nothing more.
    this.#move?.stopped();
    this.change((house) => { house.models_folder = { ...house.models_folder, moving: null }; });
    return Promise.resolve();
  }

  override foundModels(): Promise<FoundView[]> { return Promise.resolve(FOUND); }
  override searchModels(words: string): Promise<HubView> { return hubAnswer(words); }

  override changeSetting(setting: SettingAsk): Promise<void> {
    this.change((house) => {
      house.settings = changed(house.settings, setting);
      if (setting.key === 'device.kind') house.me.facts = { ...house.me.facts, kind: setting.value };
    });
    return Promise.resolve();
  }

  override lookForUpdate(): Promise<void> {
    this.change((house) => { house.updates = { ...house.updates, is_looking: true }; });
    return Promise.resolve();
  }

  override installUpdate(): Promise<void> {
    if (this.house.updates.newer === null) return refuse('bad_request', 'No newer version is known. Look for one first.');
    this.change((house) => { house.updates = { ...house.updates, is_installing: true, trouble: null }; });
    return Promise.resolve();
  }

  override portKey(): Promise<string> { return Promise.resolve(this.#key); }

  override renewPortKey(): Promise<string> {
    this.#key = 'nook-n3wK3yn3wK3yn3wK3yn3wK3yn3wK3yn3wK3yn3wK3yn';
    return Promise.resolve(this.#key);
  }

  override addPortKey(name: string): Promise<string> {
    const added = Math.floor(Date.now() / 1000);
    this.change((house) => { house.port.keys.push({ name: name.trim(), added }); });
    return Promise.resolve('nook-0n3Pr0gramK3y0n3Pr0gramK3y0n3Pr0gramK3y0n3P');
  }

  override removePortKey(name: string): Promise<void> {
    this.change((house) => { house.port.keys = house.port.keys.filter((key) => key.name !== name); });
    return Promise.resolve();
  }

  testPort(): Promise<number> {
    return Promise.resolve(200);
  }

  diagnostics(): ReturnType<Backend['diagnostics']> {
    return Promise.resolve({
      findings: findingsOf(this.house),
      system: 'linux x86_64',
      web_view: '2.50.1',
      tray: true,
      log: '/data/inglenook/inglenook.log',
      safe_graphics: false,
    });
  }

  override audit() {
    return Promise.resolve(this.#asked);
  }

  override clearAudit(): Promise<void> {
    this.#asked = this.#asked.filter((entry) => entry.outcome.kind === 'under_way');
    return Promise.resolve();
  }

  override privacy(): Promise<KeptPrivacyView> { return Promise.resolve(measuredOf(this.house)); }

  override pipeline() {
    return Promise.resolve(pipelineOf(this.house));
  }

  quit(): Promise<void> {
    return Promise.resolve();
  }

  restart(): Promise<void> {
    return Promise.resolve();
  }

  openLink(url: string): Promise<void> {
    this.opened.push(url);
    return Promise.resolve();
  }

  async #stream(reply: MessageView, prompt: string, turn: Turn, onEvent: (event: ReplyEvent) => void) {
    let route = routeOf(this.house, turn.reach === 'this_device');
    const failovers: ReplySummary['failovers'] = [];
    const before = reply.path?.completion_tokens ?? 0;
    const goOver = (tokens: number) => { reply.stretches.push({ at: reply.text.length, after_tokens: before + tokens, route }); };
    // The rest of a cut reply is what it has not said yet.
    const whole = replyTo(prompt);
    const rest = whole.startsWith(reply.text) ? whole.slice(reply.text.length) : whole;
    const goesOn = reply.text !== '';
    const tokens = rest.match(/\s*\S{1,6}/g) ?? [];
    Object.assign(reply, { finish: 'running', cut_because: null, cut_code: null });
    goOver(0);
    // Not a pause of tokens, which may be none: nothing else would ever run.
    while (prompt.includes('queue') && !this.#stopped.has(reply.id)) await new Promise((done) => setTimeout(done, 5));
    onEvent({ kind: 'started', prompt_tokens: 24, route, predicted: prompt.includes('slowly') ? SLOW : null });
    while (prompt.includes('slowly') && !this.#stopped.has(reply.id)) await new Promise((done) => setTimeout(done, 5));
    await this.#pace.pause(8);
    if (prompt.includes('think') && reply.text === '') await this.#think(reply, onEvent);
    const middle = Math.floor(tokens.length / 2);
    const started = Date.now();
    for (const [index, text] of tokens.entries()) {
      if (this.#stopped.has(reply.id)) return this.#cut(reply, 'cancelled', 'Stopped.', onEvent);
      if (index === middle && prompt.includes('fail') && !goesOn) {
        return this.#cut(reply, 'pipeline_stalled', 'A device stopped answering and nobody could take over.', onEvent);
      }
      if (index === middle && prompt.includes('hand over') && route.legs.length > 1) {
        onEvent({ kind: 'shard_status', device: 'Dad’s PC', status: 'lost' });
        await this.#pace.pause(8);
        this.change((house) => { for (const d of house.devices) if (d.id === DAD) d.connected = false; });
        route = routeOf(this.house, false);
        const failover = { from: 'Dad’s PC', to: 'Mum’s laptop', pause_ms: 310, after_tokens: index };
        failovers.push(failover);
        goOver(index);
        onEvent({ kind: 'shard_failover', failover, route });
      }
      reply.text += text;
      onEvent({ kind: 'token_delta', text, tokens: index + 1 });
      await this.#pace.pause(1);
    }
    const seconds = Math.max(0.001, (Date.now() - started) / 1000);
    reply.summary = { model: turn.model, finish_reason: 'stop', prompt_tokens: 24, completion_tokens: tokens.length,
      route, tokens_per_second: tokens.length / seconds, first_token_ms: 412, shared: [],
      resumed_tokens: 0, computed_tokens: 24 + tokens.length, failovers,
      total_ms: 412 + seconds * 1000, timeline: timelineOf(reply.stretches, 24, before + tokens.length), predicted: PREDICTED };
    reply.finish = 'complete';
    onEvent({ kind: 'done', summary: structuredClone(reply.summary) });
  }

  async #think(reply: MessageView, onEvent: (event: ReplyEvent) => void): Promise<void> {
    for (const [index, text] of (THOUGHT.match(/\s*\S{1,6}/g) ?? []).entries()) {
      if (this.#stopped.has(reply.id)) return;
      const ms = (index + 1) * this.#options.tokenMs;
      reply.thought = { text: (reply.thought?.text ?? '') + text, ms };
      onEvent({ kind: 'thought_delta', text, tokens: index + 1, ms });
      await this.#pace.pause(1);
    }
  }

  #cut(reply: MessageView, code: string, sentence: string, onEvent: (event: ReplyEvent) => void): void {
    reply.cut_because = sentence;
    reply.cut_code = code;
    reply.finish = code === 'cancelled' ? 'stopped' : 'failed';
    onEvent({ kind: 'pipeline_aborted', code, sentence, wording: null });
  }

  #begin(text: string): number {
    const id = this.#nextId++;
    this.#conversations.push({ id, title: text.split(/\s+/).slice(0, 6).join(' '), updated: now(),
      instructions: '', only_here: false, choices: AS_SETTINGS, pinned: false, archived: false, folder: '', excerpt: null });
    this.#messages.set(id, []);
    return id;
  }

  #keep(conversation: number, parent: number | null, role: MessageView['role'], text: string): MessageView {
    const message: MessageView = { id: this.#nextId++, parent, role, text, thought: null, created: now(), finish: 'complete', reworded: false, summary: null,
      path: null, stretches: [], cut_because: null, cut_code: null };
    this.#messages.get(conversation)?.push(message);
    this.#conversations = this.#conversations.map((c) => (c.id === conversation ? { ...c, updated: now(), archived: false } : c));
    return message;
  }

  #copy(conversation: number, parent: number | null, { role, text, finish, reworded, summary, stretches }: MessageView): MessageView {
    return Object.assign(this.#keep(conversation, parent, role, text), { finish, reworded, summary, stretches });
  }

  #remember(): void {
    for (const [hours, title, messages] of [...PAST, ...longPast(this.#options.long)]) {
      const id = this.#begin(title);
      let parent: number | null = null;
      let asked: number | null = null;
      for (const old of messages) {
        const kept = this.#keep(id, old.sibling ? asked : parent, old.role, old.text);
        parent = kept.id;
        if (old.role === 'user') asked = kept.id;
        else if (old.cut === undefined) recall(this.house, kept, old.failover ?? false);
        kept.cut_because = old.cut ?? null;
        if (old.cut !== undefined) {
          kept.finish = 'failed';
          kept.path = { route: routeOf(this.house, false), failovers: [], completion_tokens: 20 };
        }
      }
      void this.#arrange(id, { title, updated: now() - Math.round(hours * 3600) });
    }
  }
}
