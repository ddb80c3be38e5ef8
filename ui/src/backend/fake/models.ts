/** The fake household's catalogue, what its other programs hold, and downloads that come in ten pieces. */
import type { CatalogueView } from '../../generated/CatalogueView';
import type { CopyExtent } from '../../generated/CopyExtent';
import type { DownloadAsk } from '../../generated/DownloadAsk';
import type { DownloadView } from '../../generated/DownloadView';
import type { FitView } from '../../generated/FitView';
import type { FoundView } from '../../generated/FoundView';
import type { HouseholdView } from '../../generated/HouseholdView';
import type { InHouseView } from '../../generated/InHouseView';
import type { ModelView } from '../../generated/ModelView';

const PIECES = 10;
const EIGHT = '8b'.repeat(32);

export const HERE: FitView = { kind: 'here', devices: [], tokens_per_second: null };

/** Where a model fits that this computer, or this one with Dad’s PC, goes through so fast. */
function fits(file_bytes: number, kind: 'here' | 'with'): FitView {
  return { kind, devices: kind === 'here' ? [] : ['Dad’s PC'], tokens_per_second: Math.round(2.4e11 / file_bytes) / 10 };
}

function entry(id: string, name: string, file_bytes: number, values: Partial<CatalogueView>): CatalogueView {
  return { id, name, licence: 'Apache-2.0', origin: `Qwen/${name.replace(' ', '-')}-GGUF`, quantisation: 'Q4_K_M', file_bytes,
    billions: file_bytes / 6e8, languages: ['en', 'de', 'fr', 'es'], about_en: 'Clever for its size; many languages.',
    about_de: 'Klug für seine Größe; viele Sprachen.', fit: fits(file_bytes, 'here'), recommended: false, here: null, download: null, in_house: null, ...values };
}

export function startingCatalogue(): CatalogueView[] {
  return [
    entry('smollm2-360m', 'SmolLM2 360M', 386e6, { quantisation: 'Q8_0', origin: 'HuggingFaceTB/SmolLM2-360M-Instruct-GGUF', languages: ['en'] }),
    entry('qwen3-1.7b', 'Qwen3 1.7B', 1.83e9, { quantisation: 'Q8_0' }),
    entry('qwen3-4b', 'Qwen3 4B', 2_497_280_256, { recommended: true, about_en: 'The best balance for most computers.', about_de: 'Die beste Mischung für die meisten Computer.' }),
    entry('qwen3-8b', 'Qwen3 8B', 5.03e9, { fit: fits(5.03e9, 'with'), in_house: EIGHT }),
    entry('qwen3-14b', 'Qwen3 14B', 9_001_752_960, { fit: { kind: 'nowhere', devices: [], tokens_per_second: null } }),
  ];
}

/** What the other devices have. */
export function startingInHouse(): InHouseView[] {
  const model = (name: string, digest: string, file_bytes: number, values: Partial<InHouseView>): InHouseView =>
    ({ digest, name, file_bytes, devices: ['Dad’s PC'], fit: HERE, room: true, ends_bytes: file_bytes / 10, ends_room: true, ends_here: false, copy: null, ...values });
  return [
    model('gemma-3-12b', '12'.repeat(32), 7.3e9, { devices: ['Dad’s PC', 'Mum’s laptop'], room: false }),
    model('qwen3-8b', EIGHT, 5.03e9, { fit: { kind: 'with', devices: ['Dad’s PC'], tokens_per_second: null } }),
  ];
}

export const FOUND: FoundView[] = [
  { program: 'LM Studio', name: 'Mistral-7B-Instruct-v0.3-Q4_K_M', path: '/data/lm/Mistral-7B-Instruct-v0.3-Q4_K_M.gguf',
    file_bytes: 4.37e9, architecture: 'llama', quantisation: 'Q4_K_M' },
  { program: 'Ollama', name: 'gemma3:4b', path: '/data/ollama/blobs/sha256-0a1b.gguf', file_bytes: 3.3e9, architecture: 'gemma3', quantisation: 'Q4_K_M' },
];

/** Downloads of a house; `change` edits it and tells the page. */
export class FakeDownloads {
  readonly #change: (edit: (house: HouseholdView) => void) => void;
  /** Calls back when the next piece is due; never where a test lets the pieces come. */
  readonly #due: (then: () => void) => void;

  constructor(change: (edit: (house: HouseholdView) => void) => void, due: (then: () => void) => void) {
    this.#change = change;
    this.#due = due;
  }

  /** Begins; null for what names no file. */
  begin(house: HouseholdView, source: string): DownloadView | null {
    const known = house.catalogue.find((one) => one.id === source);
    if (!known && !/^(hf|https):.*\.gguf$/.test(source)) return null;
    const file = known ? `${known.id}.gguf` : (source.split('/').at(-1) ?? source);
    const key = `${file}-1`;
    const download: DownloadView = { key, name: file.replace(/\.gguf$/, ''), origin: known?.origin ?? 'o/r', copied: false, file, state: 'connecting',
      have_bytes: 0, file_bytes: known?.file_bytes ?? 1e9, bytes_per_second: null, seconds_left: null, problem: null };
    this.#change((now) => {
      now.downloads = [...now.downloads.filter((one) => one.key !== key), download];
      for (const one of now.catalogue) if (one.id === source) one.download = key;
    });
    this.#wait(key);
    return download;
  }

  /** Begins a copy of what another device has, or of this computer's part of it; null for what nobody has. */
  copy(house: HouseholdView, wanted: string, extent: CopyExtent): DownloadView | null {
    const model = house.in_house.find((one) => one.digest === wanted || one.name === wanted);
    if (!model) return null;
    const key = `${model.name}-${extent === 'ends' ? 'ends' : 'copy'}`;
    const download: DownloadView = { key, name: model.name, origin: model.devices.join(', '), copied: true, file: '', state: 'connecting',
      have_bytes: 0, file_bytes: extent === 'ends' ? model.ends_bytes : model.file_bytes, bytes_per_second: null, seconds_left: null, problem: null };
    this.#change((now) => {
      now.downloads = [...now.downloads.filter((one) => one.key !== key), download];
      for (const one of now.in_house) if (one.digest === model.digest) one.copy = key;
      for (const one of now.catalogue) if (one.in_house === model.digest) one.download = key;
    });
    this.#wait(key);
    return download;
  }

  ask(key: string, ask: DownloadAsk): void {
    this.#change((house) => {
      if (ask === 'delete') {
        house.downloads = house.downloads.filter((one) => one.key !== key);
        for (const one of house.catalogue) if (one.download === key) one.download = null;
        for (const one of house.in_house) if (one.copy === key) one.copy = null;
        return;
      }
      const state = ({ pause: 'paused', cancel: 'cancelled', resume: 'connecting' } as const)[ask];
      for (const one of house.downloads) {
        if (one.key === key) Object.assign(one, { state, bytes_per_second: null, seconds_left: null, problem: null });
      }
    });
    if (ask === 'resume') this.#wait(key);
  }

  /** A piece of a download comes, unless it rests; says whether more will. */
  come(key: string): boolean {
    let more = false;
    this.#change((house) => {
      const one = house.downloads.find((download) => download.key === key);
      if (!one || (one.state !== 'connecting' && one.state !== 'loading')) return;
      const all = one.file_bytes ?? 0;
      const have = Math.min(all, (all * (Math.round((one.have_bytes * PIECES) / all) + 1)) / PIECES);
      more = have < all;
      const rate = all / 60;
      Object.assign(one, { state: 'loading', have_bytes: have, bytes_per_second: rate, seconds_left: Math.round((all - have) / rate) });
      if (!more) arrive(house, key);
    });
    return more;
  }

  #wait(key: string): void {
    this.#due(() => { if (this.come(key)) this.#wait(key); });
  }
}

/** The download becomes a model. */
function arrive(house: HouseholdView, key: string): void {
  const done = house.downloads.find((one) => one.key === key);
  if (!done) return;
  const entry = house.catalogue.find((one) => one.download === key);
  const shared = house.in_house.find((one) => one.copy === key && key.endsWith('-ends'));
  const model: ModelView = { name: done.name, title: entry?.name ?? done.name, digest: 'bb00', architecture: 'qwen3', quantisation: 'Q4_K_M',
    layers: 36, context_length: 40960, file_bytes: shared?.file_bytes ?? done.file_bytes ?? done.have_bytes, built_in: false, added: Math.floor(Date.now() / 1000), owned: true,
    file: `/models/${done.name}.gguf`, ends_bytes: shared?.ends_bytes ?? null, fit: shared?.fit ?? HERE };
  house.downloads = house.downloads.filter((one) => one.key !== key);
  house.models = [...house.models, model];
  if (shared) Object.assign(shared, { ends_here: true, copy: null });
  else house.in_house = house.in_house.filter((one) => one.copy !== key);
  if (entry) Object.assign(entry, { here: done.name, download: null });
}
