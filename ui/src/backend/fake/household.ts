/** The household that the fake backend starts with: four devices, one seen stranger, three models' worth of layers. */
import type { PredictedView } from '../../generated/PredictedView';
import type { PredictionView } from '../../generated/PredictionView';
import type { DeviceView } from '../../generated/DeviceView';
import type { FactsView } from '../../generated/FactsView';
import type { HouseholdView } from '../../generated/HouseholdView';
import type { LegView } from '../../generated/LegView';
import type { PartView } from '../../generated/PartView';
import type { RouteView } from '../../generated/RouteView';
import type { StretchView } from '../../generated/StretchView';
import { DEFAULTS } from '../../generated/settings';
import { HERE, startingCatalogue, startingInHouse } from './models';
import { startingFolder } from './models-folder';
import { USUAL_LENT_BYTES } from './settings';

/** A laptop beside a gaming PC. */
export const PREDICTED: PredictedView = {
  alone: { first_token_ms: 2_400, load_ms: 0, tokens_per_second: 7, total_ms: 31_000, measured: true },
  together: { first_token_ms: 600, load_ms: 0, tokens_per_second: 20, total_ms: 10_600, measured: true },
};

/** A long message, and a model that is not in memory. */
export const SLOW: PredictionView = { first_token_ms: 40_000, load_ms: 10_000, tokens_per_second: 7, total_ms: 71_000, measured: true };

export const DAD = 'dads7pcq4xk2m6vt';
export const MUM = 'mumsl4ptp6rz3wbn';
const ME = 'thisl4ptp2ha7qcx';

/** The six digits that the fake household's stranger accepts. */
export const GOOD_CODE = '483920';

const NOW = () => Math.floor(Date.now() / 1000);
const TODAY = () => Math.floor(NOW() / 86_400);

/** As the program says it of a guest. */
const NOT_ALLOWED = 'You have not allowed it to compute for you: set it to Trusted.';

const NO_FACTS: FactsView = { kind: null, processor: null, gpu: null, memory_bytes: null, power: null, temperature: null };

function device(id: string, name: string, values: Partial<DeviceView>): DeviceView {
  return {
    id,
    short_id: id.slice(0, 8),
    name,
    paired: true,
    trust: 'trusted',
    connected: true,
    pairing: false,
    addresses: ['192.168.1.20:4588'],
    rtt_ms: null,
    way: null,
    lends: [],
    streams_free: null,
    memory_free_bytes: null,
    last_seen: NOW(),
    unused_because: null,
    unused: null,
    left_out: null,
    takes_whole: false,
    safety_number: null,
    asks_help: false,
    only_helped: false,
    their_terms: null,
    fetched_percent: null,
    wakeable: false,
    waking: false,
    woke_seconds: null,
    facts: NO_FACTS,
    helped_days: [],
    ...values,
  };
}

/** The owner helps a device and does not ask it for help. */
export function onlyHelp(house: HouseholdView, device: string): void {
  const helped = house.devices.find((d) => d.id === device);
  Object.assign(helped ?? {}, { only_helped: true, unused: 'only_helped', unused_because: 'You chose that this computer helps it.' });
}

/** The owner trusts a device this far. */
export function setTrust(house: HouseholdView, device: string, trust: DeviceView['trust']): void {
  const helps = trust === 'trusted' || trust === 'own';
  const why = trust === 'blocked' ? 'You blocked it.' : NOT_ALLOWED;
  const set: Partial<DeviceView> = {
    trust,
    asks_help: false,
    only_helped: false,
    connected: trust !== 'blocked',
    unused: helps ? null : trust === 'blocked' ? 'blocked' : 'not_allowed',
    unused_because: helps ? null : why,
  };
  Object.assign(house.devices.find((d) => d.id === device) ?? {}, set);
}

/** How long the fake household's sleeper takes. */
export const WOKE_SECONDS = 22;

/** A sleeping device is there. */
export function wakeUp(house: HouseholdView, device: string): void {
  const woken: Partial<DeviceView> = { waking: false, connected: true, woke_seconds: WOKE_SECONDS, unused: null, unused_because: null };
  Object.assign(house.devices.find((d) => d.id === device) ?? {}, woken);
}

/** A house in full swing. */
export function startingHouse(): HouseholdView {
  const model = 'Qwen2.5 7B';
  return {
    me: {
      id: 'thisl4pt-p2ha7qcx-6mzk3vbd-w5fyr2tn',
      short_id: 'thisl4pt',
      name: 'Mia’s laptop',
      app_version: '0.1.0',
      listen_port: 4588,
      key_kept_in: 'the system\'s keychain',
      key_place: { kind: 'keychain' },
      memory_bytes: 8.2e9,
      disk_free_bytes: 84.3e9,
      facts: { kind: 'laptop', processor: 'AMD Ryzen 5 5500U', gpu: null, memory_bytes: 8.2e9, power: { kind: 'battery', percent: 64 }, temperature: 54 },
    },
    sharing: {
      on: true,
      state: 'sharing',
      answering: false,
      streams: 0,
      streams_max: 2,
      paused: null,
      guests: [],
      lent_days: [{ day: TODAY() - 3, tokens: 1840 }, { day: TODAY(), tokens: 412 }],
      gpus: [{ number: 0, name: 'Intel Iris Xe Graphics', memory_bytes: null, shares_memory: true, own_bytes: 0, lent_bytes: 0 }],
      status_line: 'Sharing · 2 devices · idle',
    },
    devices: [
      device(DAD, 'Dad’s PC', {
        rtt_ms: 0.4,
        way: { interface: 'cable', address: '192.168.1.20:4588', bytes_per_second: 112e6, by_cable: null },
        safety_number: '54047 34568 43386 88771 68777 35060 51112 27486',
        lends: [{ model, first_layer: 1, last_layer: 20, held: [1, 16] }],
        streams_free: 2,
        memory_free_bytes: 6.9e9,
        facts: { kind: 'tower', processor: 'AMD Ryzen 7 5800X', gpu: 'RTX 4070', memory_bytes: 32e9, power: { kind: 'mains' }, temperature: 61 },
        helped_days: [4130, 7300, 2900, 8900, 5200, 15730, 6400].map((tokens, at) => ({ day: TODAY() - 6 + at, tokens })),
      }),
      device(MUM, 'Mum’s laptop', {
        addresses: ['192.168.1.23:4588'],
        rtt_ms: 6.2,
        way: {
          interface: 'wifi',
          address: '192.168.1.23:4588',
          bytes_per_second: 21e6,
          by_cable: { device_id: 'mum', device: 'Mum’s laptop', tokens_per_second_now: 9.1, tokens_per_second_then: 24.3 },
        },
        safety_number: '10282 77310 60094 15537 93021 44806 25719 38850',
        lends: [{ model, first_layer: 21, last_layer: 26, held: null }],
        streams_free: 1,
        memory_free_bytes: 6.4e9,
        facts: { kind: 'laptop', processor: 'Apple M2', gpu: null, memory_bytes: 16e9, power: { kind: 'charging', percent: 81 }, temperature: null },
        helped_days: [{ day: TODAY() - 2, tokens: 8270 }],
      }),
      device('0lddellx5n2kq7rw', 'Old Dell', {
        addresses: ['192.168.1.31:4588'],
        trust: 'guest',
        rtt_ms: 48,
        unused_because: NOT_ALLOWED,
        unused: 'not_allowed',
        facts: { kind: 'desktop', processor: 'Intel Core i5-6500', gpu: null, memory_bytes: 8e9, power: { kind: 'mains' }, temperature: null },
      }),
      device('tag:kitchen', 'Kitchen PC', {
        short_id: 'tag',
        paired: false,
        trust: 'unknown',
        connected: false,
        pairing: true,
        addresses: ['192.168.1.40:4588'],
      }),
      device('tag:attic', 'Attic', {
        short_id: 'tag',
        paired: false,
        trust: 'unknown',
        connected: false,
        addresses: ['192.168.1.44:4588'],
      }),
    ],
    models: [
      {
        name: 'ember',
        title: 'Ember (tells small stories)',
        digest: '9c1f',
        architecture: 'llama',
        quantisation: 'Q8_0',
        layers: 8,
        context_length: 1024,
        file_bytes: 4_186_816,
        built_in: true,
        added: NOW(),
        owned: true,
        file: '/models/ember-q8_0.gguf',
        ends_bytes: null,
        fit: HERE,
      },
      {
        name: model,
        title: 'Qwen2.5 7B Instruct',
        digest: '77ab',
        architecture: 'qwen2',
        quantisation: 'Q4_K_M',
        layers: 28,
        context_length: 8192,
        file_bytes: 4_700_000_000,
        built_in: false,
        added: NOW(),
        owned: true,
        file: `/models/${model}.gguf`,
        ends_bytes: null,
        fit: HERE,
      },
    ],
    default_model: model,
    catalogue: startingCatalogue(),
    catalogue_edition: { written: NOW() - 40 * 86_400, built_in: true, trouble: null },
    downloads: [],
    models_folder: startingFolder(),
    in_house: startingInHouse(),
    pairing: null,
    paired_by_code: null,
    port: {
      on: true,
      base_url: 'http://127.0.0.1:4587/v1',
      problem: null,
      keys: [{ name: 'Zed', added: NOW() - 3 * 86_400 }],
      requests: [
        { kind: 'reply', ended: NOW() - 40, key: 'Zed', app: 'Zed/0.211', model, devices: ['Mia’s laptop', 'Dad’s PC'], tokens: 212, tokens_per_second: 9.4, error: null, times: 1 },
        { kind: 'reply', ended: NOW() - 95, key: 'Zed', app: 'Zed/0.211', model, devices: ['Mia’s laptop', 'Dad’s PC'], tokens: 31, tokens_per_second: 0, error: 'cancelled', times: 1 },
        { kind: 'reply', ended: NOW() - 300, key: null, app: 'curl/8.14.1', model: '', devices: [], tokens: 0, tokens_per_second: 0, error: '401 invalid_api_key', times: 3 },
        { kind: 'reply', ended: NOW() - 900, key: null, app: 'OpenAI/Python 2.8.1', model: 'ember', devices: ['Mia’s laptop'], tokens: 64, tokens_per_second: 88, error: null, times: 1 },
        { kind: 'embeddings', ended: NOW() - 3600, key: 'Zed', app: null, model: 'ember', devices: ['Mia’s laptop'], tokens: 1310, tokens_per_second: 0, error: null, times: 1 },
        { kind: 'reply', ended: NOW() - 7200, key: 'Zed', app: null, model, devices: [], tokens: 0, tokens_per_second: 0, error: 'cancelled', times: 1 },
      ],
    },
    problems: [],
    settings: {
      values: { ...DEFAULTS, 'distributed_inference.host.max_concurrent_streams': 2 },
      lend_memory_bytes: USUAL_LENT_BYTES,
      expose_to_lan: false,
    },
    updates: { can_look: true, looked: NOW() - 7200, is_looking: false, is_installing: false, way: 'itself', newer: null, trouble: null },
  };
}

/** The boomerang: ends here, middle at the helpers that are trusted and connected now. */
export function routeOf(house: HouseholdView, onlyHere: boolean): RouteView {
  const me = { device_id: ME, device: house.me.name, local: true };
  const helps = (id: string) =>
    house.devices.some((d) => d.id === id && d.connected && (d.trust === 'trusted' || d.trust === 'own'));
  const helpers = [DAD, MUM].filter((id) => !onlyHere && helps(id));
  if (helpers.length === 0) {
    return { legs: [{ ...me, layers: [0, 27], embedding: true, head: true }] };
  }
  const bounds: Record<string, [number, number]> =
    helpers.length === 2 ? { [DAD]: [1, 20], [MUM]: [21, 26] } : { [helpers[0] ?? DAD]: [1, 26] };
  return {
    legs: [
      { ...me, layers: [0, 0], embedding: true, head: false },
      ...helpers.map((id) => ({
        device_id: id,
        device: house.devices.find((d) => d.id === id)?.name ?? id,
        local: false,
        layers: bounds[id] ?? null,
        embedding: false,
        head: false,
      })),
      { ...me, layers: [27, 27], embedding: false, head: true },
    ],
  };
}

/** What each device did for a reply of so many tokens: made-up figures that add up. Those that were lost come first. */
export function timelineOf(stretches: readonly Pick<StretchView, 'after_tokens' | 'route'>[], prompt: number, tokens: number): PartView[] {
  const lost = stretches.slice(0, -1).flatMap(({ after_tokens, route }, at) =>
    route.legs.filter((leg) => !leg.local).map((leg) => partOf(leg, prompt, after_tokens, stretches[at + 1]?.after_tokens ?? tokens)));
  const last = stretches.at(-1);
  // This device is in every route, and computes from the first token to the last.
  return [...lost, ...(last?.route.legs ?? []).map((leg) => partOf(leg, prompt, leg.local ? 0 : last?.after_tokens ?? 0, tokens))];
}

/** What a leg did behind so many tokens, which it had to read first, up to this one. */
function partOf(leg: LegView, prompt: number, after: number, last: number): PartView {
  const layers = leg.layers === null ? 0 : leg.layers[1] - leg.layers[0] + 1;
  const work = (steps: number, positions: number, each: number) => ({
    steps,
    positions,
    compute_ms: steps === 0 ? 0 : positions * layers * each,
    queue_ms: leg.local ? 0 : steps * 0.1,
    network_ms: leg.local ? 0 : steps * 1.2,
  });
  const [read, written] = [prompt + after, Math.max(0, last - after - 1)];
  const rows = leg.local ? 0 : (read + written) * 7168;
  return {
    device_id: leg.device_id,
    device: leg.device,
    local: leg.local,
    layers: leg.layers,
    first_token: after + 1,
    last_token: last,
    prompt: work(1, read, 0.2),
    reply: work(written, written, 1.1),
    bytes_out: rows,
    bytes_in: rows,
  };
}
