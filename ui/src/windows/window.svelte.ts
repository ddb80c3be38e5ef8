/** The window as a whole: which page shows, the house as it was last heard of, and sharing. */
import { Refusal, type Backend } from '../backend/backend';
import { ChatDesk } from '../chat/desk.svelte';
import type { HouseView } from '../generated/HouseView';
import type { Page } from '../generated/Page';
import { announcer } from '../kit/announcer.svelte';
import { t } from '../strings';
import type { Action } from './shortcuts';
import { keepPlaces, keptPlaces, places } from './slots';

export class WindowState {
  readonly backend: Backend;
  readonly desk: ChatDesk;
  page = $state<Page>('chat');
  house = $state.raw<HouseView | null>(null);
  problem = $state<string | null>(null);
  /** Whether the person has to be told why the window does not go away. */
  noTray = $state(false);
  /** Whether the side bar is open where it covers the page. */
  sideBar = $state(false);
  /** Whether the list of keys is open. */
  help = $state(false);
  /** Whether a wish about sharing is under way. */
  sharingBusy = $state(false);

  /** Ids of the paired devices, each at its place, which gives it its colour. */
  peers = $state.raw<readonly string[]>([]);
  readonly #storage: Storage;

  constructor(backend: Backend, storage: Storage = localStorage) {
    this.backend = backend;
    this.desk = new ChatDesk(backend, storage);
    this.#storage = storage;
    this.peers = keptPlaces(storage);
  }

  async start(): Promise<void> {
    try {
      await this.backend.watch({
        house: (house) => { this.#hear(house); },
        goTo: (page) => { this.show(page); },
        noTray: () => { this.noTray = true; },
      });
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
    await this.desk.list.load();
  }

  show(page: Page): void {
    this.page = page;
    this.sideBar = false;
  }

  startNew(): void {
    this.desk.startNew();
    this.show('chat');
    focusSoon('prompt');
  }

  open(id: number): void {
    void this.desk.open(id);
    this.show('chat');
  }

  async share(on: boolean): Promise<void> {
    if (this.sharingBusy) return;
    this.sharingBusy = true;
    this.problem = null;
    try {
      await this.backend.setSharing(on);
    } catch (thrown) {
      this.problem = t.share.failed(Refusal.sentence(thrown));
      announcer.say(this.problem);
    } finally {
      this.sharingBusy = false;
    }
  }

  async openLink(url: string): Promise<void> {
    try {
      await this.backend.openLink(url);
    } catch (thrown) {
      this.problem = Refusal.sentence(thrown);
    }
  }

  #hear(house: HouseView): void {
    this.house = house;
    const now = places(this.peers, house.devices.filter((d) => d.paired).map((d) => d.id));
    if (now.join(' ') === this.peers.join(' ')) return;
    this.peers = now;
    keepPlaces(this.#storage, now);
  }

  /** Does what a key asks for; says whether it did anything. */
  act(action: Action): boolean {
    switch (action) {
      case 'new-chat':
        this.startNew();
        return true;
      case 'search':
        this.sideBar = true;
        focusSoon('search-chats');
        return true;
      case 'prompt':
        this.show('chat');
        focusSoon('prompt');
        return true;
      case 'stop':
        return this.#escape();
      case 'quit':
        void this.backend.quit();
        return true;
      case 'help':
        this.help = !this.help;
        return true;
    }
  }

  #escape(): boolean {
    if (this.sideBar) {
      this.sideBar = false;
      return true;
    }
    if (this.page !== 'chat' || !this.desk.current.busy) return false;
    void this.desk.current.stop();
    return true;
  }
}

/** Focuses an element once the page has been drawn: it may not exist yet. */
function focusSoon(id: string): void {
  setTimeout(() => document.getElementById(id)?.focus(), 0);
}
