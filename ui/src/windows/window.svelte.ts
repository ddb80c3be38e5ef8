/** The window as a whole: which page shows, the house as it was last heard of, and sharing. */
import { flushSync } from 'svelte';
import { MediaQuery } from 'svelte/reactivity';
import { Refusal, type Backend } from '../backend/backend';
import { ChatDesk } from '../chat/desk.svelte';
import { printOpen } from '../chat/printing';
import type { AskKeys } from '../generated/AskKeys';
import type { HouseholdView } from '../generated/HouseholdView';
import type { Problem } from '../generated/Problem';
import { announcer } from '../kit/announcer.svelte';
import { paceOf } from '../kit/models/pace';
import { toasts } from '../kit/toasts.svelte';
import { Look } from '../look/look.svelte';
import { FirstStart } from '../start/first-start.svelte';
import { t } from '../strings';
import { refusal } from '../strings/problems';
import type { PageName } from './pages';
import { loaded } from './parts';
import type { Action } from './shortcuts';
import { keepPlaces, keptPlaces, places } from './slots';

/** Where the side bar covers the page; the style sheets have the same width. */
const NARROW = 'max-width: 720px';

export class WindowState {
  readonly backend: Backend;
  readonly desk: ChatDesk;
  readonly look: Look;
  readonly firstStart: FirstStart;
  page = $state<PageName>('chat');
  house = $state.raw<HouseholdView | null>(null);
  problem = $state<string | null>(null);
  /** Whether the person has to be told why the window does not go away. */
  noTray = $state(false);
  /** What became of the keys that bring the window up for a question. */
  askKeys = $state<AskKeys>('off');
  /** Set once the program cannot go on because of a fault of its own; `log` is where it wrote why. */
  stopped = $state.raw<{ log: string | null } | null>(null);
  /** Whether the side bar is open where it covers the page. */
  sideBar = $state(false);
  /** Whether the list of keys is open. */
  help = $state(false);
  /** A page or a chat that waits until the person agrees to lose a chat that is not kept. */
  leaving = $state.raw<(() => void) | null>(null);
  /** Where a model is to be added from: what was typed or chosen for it, or the file that was dropped on the window last. */
  modelPath = $state('');
  /** Whether the page of the household is opened to add a device. */
  isAdding = $state(false);
  /** Whether a wish about sharing is under way. */
  sharingBusy = $state(false);

  /** Ids of the paired devices, each at its place, which gives it its colour. */
  peers = $state.raw<readonly string[]>([]);
  /** Bytes per second of the last download from the internet that was seen since the window opened. */
  downloadPace = $state.raw<number | null>(null);
  /** Somebody had a question before there was anything to show. */
  #hasQuestion = false;
  readonly #storage: Storage;
  readonly #narrow = new MediaQuery(NARROW);

  constructor(backend: Backend, storage: Storage = localStorage) {
    this.backend = backend;
    this.desk = new ChatDesk(backend, storage);
    this.look = new Look(document.documentElement, storage);
    this.firstStart = new FirstStart(storage);
    this.#storage = storage;
    this.peers = keptPlaces(storage);
  }

  async start(): Promise<void> {
    try {
      await this.backend.watch({
        house: (house) => { this.#hear(house); },
        goTo: (page) => { this.#arrive(page); },
        ask: () => { this.#ask(); },
        askKeys: (state) => { this.askKeys = state; },
        noTray: () => { this.noTray = true; },
        stopped: (log) => { this.stopped = { log }; },
        notDone: (problem) => { toasts.say({ text: new Refusal(problem).message, icon: 'warn', isProblem: true }); },
        dropped: (paths, refused) => { this.#drop(paths, refused); },
      });
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
    void this.backend.turnedTo(this.page);
    await this.desk.start();
  }

  /** Whether the side bar lies over the page, which then takes no keys and no clicks. */
  get covers(): boolean {
    return this.sideBar && this.#narrow.current;
  }

  show(page: PageName): void {
    this.page = page;
    this.isAdding = false;
    this.sideBar = false;
    void this.backend.turnedTo(page);
  }

  /** Shows what the tray or a notice leads to. Whoever reads the page goes on from its beginning. */
  #arrive(page: PageName): void {
    closeDialogs();
    this.show(page);
    if (page === 'chat') return focus('prompt');
    flushSync();
    // Where it cannot be loaded, the page says so, and has no title.
    void loaded(page).then(() => { if (this.page === page) focusTitle(); }, () => undefined);
  }

  /** Shows a new chat, now or as soon as the house is known. */
  #ask(): void {
    this.#hasQuestion = this.house === null;
    if (this.house === null || this.stopped !== null) return;
    closeDialogs();
    this.startNew();
  }

  /** From the first start to where a device is added. */
  toAddDevice(): void {
    this.show('devices');
    this.isAdding = true;
  }

  startNew(): void {
    this.#leaveChat(() => {
      this.desk.startNew();
      this.show('chat');
      focus('prompt');
    });
  }

  open(id: number): void {
    this.#leaveChat(() => {
      void this.desk.open(id);
      this.show('chat');
    });
  }

  /** Deletes a chat; who takes that back stands at its row again. */
  remove(id: number): void {
    this.desk.remove(id, () => { focus(`chat-${String(id)}`); });
  }

  /** Puts a chat away; who takes that back stands at its row again. */
  archive(id: number): void {
    void this.desk.archive(id, () => { focus(`chat-${String(id)}`); });
  }

  /** Ends the program, once everything was done that could still be taken back. */
  async quit(): Promise<void> {
    // A program that stopped does nothing more; the next one does it.
    if (this.stopped === null) await toasts.finish();
    await this.backend.quit();
  }

  /** Opens a chat that was saved as a file. */
  bringIn(file: File): void {
    this.#leaveChat(() => {
      void this.desk.bringIn(file);
      this.show('chat');
    });
  }

  /** Answers whether a chat that is not kept may be left. */
  answerLeaving(yes: boolean): void {
    const go = this.leaving;
    this.leaving = null;
    if (yes) go?.();
  }

  /** Takes a chosen language into use: the page starts anew, and drafts and chats are found again, but for a chat that
   *  is not kept. */
  speak(language: string | null, reload: () => void = () => { location.reload(); }): void {
    this.#leaveChat(() => {
      this.look.chooseLanguage(language);
      reload();
    });
  }

  #leaveChat(go: () => void): void {
    const { temporary, empty } = this.desk.current;
    if (temporary && !empty) this.leaving = go;
    else go();
  }

  /** A model's file goes to the page that adds it. Others are refused: the page is told the path, and may not read it. */
  #drop(paths: string[], refused: Problem | null): void {
    const model = paths.find((path) => path.toLowerCase().endsWith('.gguf'));
    if (model === undefined) {
      const name = paths[0]?.split(/[\\/]/).at(-1);
      if (refused !== null) this.problem = refusal(refused);
      else if (name !== undefined) this.problem = t.app.notDropped(name);
      return;
    }
    this.problem = null;
    this.modelPath = model;
    this.show('models');
  }

  async share(on: boolean): Promise<void> {
    if (this.sharingBusy) return;
    this.sharingBusy = true;
    this.problem = null;
    try {
      await this.backend.setSharing(on ? 'on' : 'off');
    } catch (thrown) {
      this.problem = t.share.failed(Refusal.sentence(thrown));
      announcer.say(this.problem);
    } finally {
      this.sharingBusy = false;
    }
  }

  /** Ends a pause that the person began. */
  async resume(): Promise<void> {
    this.problem = null;
    try {
      await this.backend.resumeSharing();
    } catch (thrown) {
      this.problem = t.share.failed(Refusal.sentence(thrown));
      announcer.say(this.problem);
    }
  }

  async openLink(url: string): Promise<void> {
    try {
      await this.backend.openLink(url);
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
  }

  #hear(house: HouseholdView): void {
    this.house = house;
    this.desk.coming.hear(house);
    this.downloadPace = paceOf(house.downloads) ?? this.downloadPace;
    if (this.#hasQuestion) this.#ask();
    const now = places(this.peers, house.devices.filter((d) => d.paired).map((d) => d.id));
    if (now.join(' ') === this.peers.join(' ')) return;
    this.peers = now;
    keepPlaces(this.#storage, now);
  }

  /** Does what a key asks for; says whether it did anything. */
  act(action: Action): boolean {
    if (this.stopped !== null && action !== 'quit') return false;
    switch (action) {
      case 'new-chat':
        this.startNew();
        return true;
      case 'search':
        this.sideBar = true;
        focus('search-chats');
        return true;
      case 'find':
        return this.page === 'chat' && this.desk.current.find();
      case 'print':
        return this.page === 'chat' && this.house !== null && printOpen(this.desk, this.house);
      case 'prompt':
        this.show('chat');
        focus('prompt');
        return true;
      case 'marks':
        return this.page === 'chat' && this.desk.current.markLast();
      case 'stop':
        return this.#escape();
      case 'quit':
        void this.quit();
        return true;
      case 'undo':
        return toasts.undoNewest();
      case 'help':
        this.help = !this.help;
        return true;
    }
  }

  #escape(): boolean {
    if (this.covers) {
      this.sideBar = false;
      return true;
    }
    if (this.page !== 'chat' || !this.desk.current.busy) return false;
    void this.desk.current.stop();
    return true;
  }
}

/** Draws the page, where the element may be new, and focuses it. At once: what is typed next goes there. */
function focus(id: string): void {
  flushSync();
  document.getElementById(id)?.focus();
}

/** Draws the page and focuses its title. */
function focusTitle(): void {
  flushSync();
  const title = document.querySelector<HTMLElement>('main h1');
  if (title === null) return;
  title.tabIndex = -1;
  title.focus();
}

/** Whoever comes from outside the window sees the page, not what lay over it, and types there. */
function closeDialogs(): void {
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
}
