/** Which download the strip over the message field tells of: one that comes, one that rests, or a model that is ready. */
import type { DownloadView } from '../generated/DownloadView';
import type { HouseholdView } from '../generated/HouseholdView';
import { announcer } from '../kit/announcer.svelte';
import { percent, timeLeftWords } from '../kit/models/words';
import { share } from '../kit/words';
import { t } from '../strings';
import { refusal } from '../strings/problems';

type House = Pick<HouseholdView, 'downloads' | 'models' | 'catalogue' | 'default_model'>;

export type Strip =
  | { kind: 'coming' | 'paused' | 'failed'; download: DownloadView; title: string }
  | { kind: 'ready'; model: string; title: string; forNewChats: boolean };

/** What is further on its way comes first; of those that rest, what went wrong. */
const ORDER: readonly DownloadView['state'][] = ['loading', 'checking', 'connecting', 'waiting', 'failed', 'paused'];

export class Coming {
  strip = $state.raw<Strip | null>(null);
  /** Downloads that were seen on their way, by key, with the name that the model will have. */
  #seen = new Map<string, string>();
  /** Downloads that went wrong, and of which that was said. */
  #told = new Set<string>();
  /** The model that is ready, until somebody has read that. */
  #ready: string | null = null;

  /** Takes in the house as it is now. */
  hear(house: House): void {
    const arrived = this.#arrived(house);
    if (arrived !== null) {
      this.#ready = arrived;
      announcer.say(t.chat.strip.ready(titleOf(house, arrived)));
    }
    for (const { key, name, state } of house.downloads) {
      if (isComing(state)) this.#seen.set(key, name);
      if (state === 'failed' && this.#seen.has(key) && !this.#told.has(key)) announcer.say(t.chat.strip.failed(nameOf(house, key, name)));
      if (state === 'failed') this.#told.add(key);
      else this.#told.delete(key);
    }
    this.strip = this.#choose(house);
  }

  /** Somebody has read that a model is ready. */
  close(): void {
    this.#ready = null;
    this.strip = null;
  }

  #choose(house: House): Strip | null {
    const [first] = house.downloads.filter((one) => this.#counts(one, house))
      .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
    const ready = house.models.find(({ name }) => name === this.#ready);
    if (ready !== undefined && (first === undefined || !isComing(first.state))) {
      return { kind: 'ready', model: ready.name, title: ready.title, forNewChats: house.default_model === ready.name };
    }
    if (first === undefined) return null;
    const kind = isComing(first.state) ? 'coming' : first.state === 'failed' ? 'failed' : 'paused';
    return { kind, download: first, title: nameOf(house, first.key, first.name) };
  }

  /** One that rests is told where it came before somebody's eyes, or where only the story teller answers. */
  #counts({ key, state }: DownloadView, house: House): boolean {
    if (isComing(state)) return true;
    return state !== 'cancelled' && (this.#seen.has(key) || house.models.every((model) => model.built_in));
  }

  /** The name of a model that has come, if one has. */
  #arrived({ downloads, models }: House): string | null {
    let arrived: string | null = null;
    for (const [key, name] of this.#seen) {
      if (downloads.some((one) => one.key === key)) continue;
      this.#seen.delete(key);
      if (models.some((model) => model.name === name)) arrived = name;
    }
    return arrived;
  }
}

/** What a strip says, and what is said more softly behind it. */
export function stripWords(strip: Strip, isEmber: boolean): { what: string; more: string } {
  const words = t.chat.strip;
  if (strip.kind === 'ready') return { what: words.ready(strip.title), more: strip.forNewChats ? words.newChats : '' };
  const { download, title } = strip;
  const done = percent(download);
  const part = done === null ? '' : share(done / 100);
  if (strip.kind === 'failed') return { what: words.failed(title), more: download.problem === null ? '' : refusal(download.problem) };
  if (strip.kind === 'paused') return { what: words.paused(title, part), more: '' };
  const said = download.state === 'loading' ? [part, timeLeftWords(download)].filter((one) => one !== '') : [];
  const how = said.length === 0 ? t.models.states[download.state] : said.join(', ');
  return { what: words.coming(title, how), more: isEmber ? words.ember : '' };
}

function isComing(state: DownloadView['state']): boolean {
  return state !== 'paused' && state !== 'failed' && state !== 'cancelled';
}

/** The publisher's name for what a download brings, where it is in the list. */
function nameOf({ catalogue }: House, key: string, name: string): string {
  return catalogue.find((entry) => entry.download === key)?.name ?? name;
}

function titleOf({ models }: House, name: string): string {
  return models.find((model) => model.name === name)?.title ?? name;
}
