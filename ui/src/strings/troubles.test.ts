/**
 * Promises of what the house says of itself: there are words for every fact in both languages, every value
 * is in them, and a fact that this window does not know is said in the program's English.
 */
import { afterEach, describe, expect, it } from 'vitest';
import type { Condition } from '../generated/Condition';
import type { DeviceTrouble } from '../generated/DeviceTrouble';
import type { DeviceView } from '../generated/DeviceView';
import type { FolderTrouble } from '../generated/FolderTrouble';
import type { GpuUseView } from '../generated/GpuUseView';
import type { KeyPlace } from '../generated/KeyPlace';
import type { MeView } from '../generated/MeView';
import type { Trouble } from '../generated/Trouble';
import type { WhyLeftOut } from '../generated/WhyLeftOut';
import type { Wording } from '../generated/Wording';
import type { WrongResult } from '../generated/WrongResult';
import type { SystemReason } from '../generated/SystemReason';
import { useLanguage } from './index';
import { refusal, unusedText } from './problems';
import { findingText, keyText, troubleText } from './troubles';

/** One fact of each kind: the compiler asks for a new kind here. */
type OneOfEach<Fact extends { kind: string }> = { [Kind in Fact['kind']]: Extract<Fact, { kind: Kind }> };

const root = document.documentElement;
const SENTENCE = 'What only the program says.';

const WRONG: Record<WrongResult, true> = {
  other_positions: true, other_shape: true, not_finite: true, zero_row: true, copy: true, much_larger: true,
  much_smaller: true, contradicted_here: true, contradicted_elsewhere: true, no_such_token: true, out_of_turn: true,
  unreadable: true,
};

const because = (said: string, means: SystemReason | null = null) => ({ means, said });

const DEVICE_TROUBLES: OneOfEach<DeviceTrouble> = {
  twice: { kind: 'twice', kept: '192.168.1.20:4588', refused: '192.168.1.21:4588' },
  forgot: { kind: 'forgot' },
  other_version: { kind: 'other_version' },
  outdated: { kind: 'outdated', update: 'this', ours: '1', theirs: '2–3' },
  suspect: { kind: 'suspect', wrong: 'unreadable', reason: 'chunk seven is torn' },
  computes_otherwise: { kind: 'computes_otherwise', model: 'ember' },
  left_out: { kind: 'left_out', minutes: 7 },
};

const TROUBLES: OneOfEach<Trouble> = {
  model_switched_off: { kind: 'model_switched_off', model: 'ember', ends: 3, minutes: 5, reason: 'signal eleven' },
  model_file_gone: { kind: 'model_file_gone', model: 'ember', file: '/models/e.gguf' },
  models_folder_away: { kind: 'models_folder_away', folder: '/disk/models', models: 3 },
  model_file_changed: { kind: 'model_file_changed', model: 'ember', file: '/models/e.gguf' },
  model_file_being_read: { kind: 'model_file_being_read', model: 'ember', file: '/models/e.gguf' },
  model_unreadable: { kind: 'model_unreadable', model: 'ember', reason: because('no magic') },
  settings_broken: { kind: 'settings_broken', file: '/data/settings.toml', line: 12, column: 5, reason: 'expected a string' },
  setting_unfit: { kind: 'setting_unfit', setting: 'device.name', value: 'x', reason: 'a name' },
  settings_unusable: { kind: 'settings_unusable', reason: because('denied') },
  devices_not_saved: { kind: 'devices_not_saved', reason: because('denied') },
  download_server: { kind: 'download_server', reason: 'no address' },
  port_taken: { kind: 'port_taken', address: '127.0.0.1:4587', reason: because('in use') },
  port_shared: { kind: 'port_shared', address: '[::1]:4587' },
  port_not_local: { kind: 'port_not_local', address: '0.0.0.0:4587' },
  discovery_unheard: { kind: 'discovery_unheard' },
  discovery_refused: { kind: 'discovery_refused', reason: because('denied') },
  copy_seen: { kind: 'copy_seen' },
  part_ended: { kind: 'part_ended', part: 'survey' },
  device: { kind: 'device', device: 'Attic', trouble: { kind: 'forgot' } },
};

const KEY: KeyPlace = { kind: 'file', path: '/data/key' };

const GPU_USES: OneOfEach<GpuUseView> = {
  chosen: { kind: 'chosen' },
  not_chosen: { kind: 'not_chosen' },
  software: { kind: 'software' },
  unmeasured: { kind: 'unmeasured' },
  measured: { kind: 'measured', is_used: false, cpu: 6.71, gpu: 5.5 },
  on_battery: { kind: 'on_battery' },
  used_by_others: { kind: 'used_by_others' },
  resting: { kind: 'resting', minutes: 4, reason: 'the worker ended.' },
  unfit: { kind: 'unfit', reason: 'it has too little memory for it.' },
};

const CONDITIONS: OneOfEach<Condition> = {
  identity: { kind: 'identity', name: 'Attic', short_id: 'abcd2345', key: KEY },
  listening: { kind: 'listening', port: 4588, connected: 3 },
  discovery_works: { kind: 'discovery_works', seen: 4 },
  discovery_uncertain: { kind: 'discovery_uncertain' },
  discovery_absent: { kind: 'discovery_absent' },
  port_open: { kind: 'port_open', base_url: 'http://127.0.0.1:4587/v1' },
  port_closed: { kind: 'port_closed' },
  device_away: { kind: 'device_away', device: 'Attic' },
  device_connected: { kind: 'device_connected', device: 'Attic', round_trip_ms: 48, may_compute: true, may_use: false },
  cable_unused: { kind: 'cable_unused', device: 'Attic', address: '192.168.1.20:4588' },
  models: { kind: 'models', count: 5 },
  disk_room: { kind: 'disk_room', free_bytes: 84.3e9 },
  computes: { kind: 'computes', backend: 'auto', now: ['gpu:0', 'native'] },
  gpu: { kind: 'gpu', number: 1, name: 'Radeon 780M', api: 'vulkan', driver: 'Mesa 25.1', memory_bytes: 4e9, used: { kind: 'measured', is_used: true, cpu: 4, gpu: 9 }, holds: null },
  cards_unused: { kind: 'cards_unused', cards: ['NVIDIA GeForce RTX 4090 (24 GB)'] },
  trouble: { kind: 'trouble', trouble: TROUBLES.copy_seen },
};

const LEFT_OUT: OneOfEach<WhyLeftOut> = {
  absent: { kind: 'absent' },
  not_sharing: { kind: 'not_sharing' },
  not_allowed: { kind: 'not_allowed' },
  leaving: { kind: 'leaving' },
  other_file: { kind: 'other_file' },
  lacks_layers: { kind: 'lacks_layers' },
  refused: { kind: 'refused' },
  failed_lately: { kind: 'failed_lately' },
  computes_wrongly: { kind: 'computes_wrongly' },
  nothing_to_compute: { kind: 'nothing_to_compute' },
  full: { kind: 'full', needs_bytes: 121e6, free_bytes: 24e9 },
  streams_taken: { kind: 'streams_taken' },
  does_not_fit_in: { kind: 'does_not_fit_in' },
  too_slow: { kind: 'too_slow', slower_ms: 24_680 },
  hop_costs_more_than_it_saves: { kind: 'hop_costs_more_than_it_saves', hop_ms: 12_000, saves_ms: 12.4 },
  loading_takes_too_long: { kind: 'loading_takes_too_long', load_ms: 11_000, saves_ms: 13_000 },
  unknown_speed: { kind: 'unknown_speed' },
  gain_is_too_small: { kind: 'gain_is_too_small', saves_ms: 14_000 },
  others_are_better: { kind: 'others_are_better' },
};

const WORDINGS: OneOfEach<Wording> = {
  no_room: { kind: 'no_room', model: 'Qwen3 8B', needs_bytes: 5e9, free_bytes: 2e9, others: [{ device: 'Desk', why: 'absent' }], only_here: false },
  only_ends: { kind: 'only_ends', model: 'Qwen3 8B', others: [{ device: 'Desk', why: 'absent' }], only_here: false },
  ends_on_their_way: { kind: 'ends_on_their_way', model: 'Qwen3 8B' },
  device_gone: { kind: 'device_gone', device: 'Desk' },
  code: { kind: 'code' },
  prompt_too_long: { kind: 'prompt_too_long', tokens: 900, at_least: true, model: 'ember', window: 512 },
  all_busy: { kind: 'all_busy', running: 2, waiting: 16 },
  leaving: { kind: 'leaving' },
  stopped: { kind: 'stopped' },
  nobody_there: { kind: 'nobody_there' },
  no_code_shown: { kind: 'no_code_shown' },
  wrong_code: { kind: 'wrong_code' },
  pairing_lost: { kind: 'pairing_lost' },
  no_address: { kind: 'no_address', typed: 'kitchen' },
  name_not_found: { kind: 'name_not_found', typed: 'kitchen.local:40123' },
  two_models: { kind: 'two_models', one: '3c3c3c3c3c3c', other: '070707070707' },
  no_such_device: { kind: 'no_such_device', name: 'Attic' },
  may_not_wake: { kind: 'may_not_wake', device: 'Attic' },
  wake_other_network: { kind: 'wake_other_network', device: 'Attic' },
  wake_refused: { kind: 'wake_refused', device: 'Attic', reason: because('no network') },
  not_woken: { kind: 'not_woken', device: 'Attic' },
  download: { kind: 'download', trouble: { why: 'not_there', host: 'example.org' } },
  models_folder: { kind: 'models_folder', trouble: { why: 'not_there', folder: '/disk/models' } },
  path_no_text: { kind: 'path_no_text', path: '/models/e.gguf' },
  https_only: { kind: 'https_only' },
  whole_path: { kind: 'whole_path' },
  not_six_digits: { kind: 'not_six_digits' },
  same_device: { kind: 'same_device' },
  not_kept_here: { kind: 'not_kept_here' },
  not_kept_there: { kind: 'not_kept_there' },
  pairing_odd: { kind: 'pairing_odd' },
  no_pairing_port: { kind: 'no_pairing_port' },
  not_started: { kind: 'not_started', reason: because('no thread') },
  already_runs: { kind: 'already_runs', folder: '/data/inglenook' },
  no_file: { kind: 'no_file', file: '/models/e.gguf' },
  file_changes: { kind: 'file_changes', file: '/models/e.gguf' },
  no_model: { kind: 'no_model', file: '/models/e.gguf', reason: 'no magic' },
  name_taken: { kind: 'name_taken', name: 'ember' },
  model_unusable: { kind: 'model_unusable', model: 'ember' },
  no_search: { kind: 'no_search' },
  no_chat: { kind: 'no_chat' },
  chat_too_large: { kind: 'chat_too_large' },
  chat_of_later_version: { kind: 'chat_of_later_version' },
  chat_gone: { kind: 'chat_gone' },
  message_gone: { kind: 'message_gone' },
  folder_gone: { kind: 'folder_gone' },
  chats_unusable: { kind: 'chats_unusable', reason: because('disk I/O error') },
  disk_full: { kind: 'disk_full' },
  login_start: { kind: 'login_start', reason: because('denied') },
  no_browser: { kind: 'no_browser', reason: because('denied') },
  not_saved: { kind: 'not_saved', reason: because('denied') },
  port_silent: { kind: 'port_silent' },
  port_foreign: { kind: 'port_foreign' },
  trouble: { kind: 'trouble', trouble: TROUBLES.copy_seen },
};

const ofDevice = (trouble: DeviceTrouble): Trouble => ({ kind: 'device', device: 'Attic', trouble });
const trouble = (fact: Trouble) => troubleText({ sentence: SENTENCE, trouble: fact });
const condition = (fact: Condition) => findingText({ verdict: 'well', subject: 'x', sentence: SENTENCE, condition: fact });
const leftOut = (fact: WhyLeftOut) => unusedText({ unused: 'left_out', unused_because: SENTENCE, left_out: fact } as DeviceView);
const wording = (fact: Wording) => refusal({ code: 'busy', sentence: SENTENCE, wording: fact });

/** Name, how it is said, and the values that must be in it. */
const SAID: [string, () => string, unknown[]][] = [
  ...Object.values(TROUBLES).map((fact): [string, () => string, unknown[]] =>
    [`trouble ${fact.kind}`, () => trouble(fact), fact.kind === 'device' ? ['Attic'] : valuesOf(fact)]),
  ...Object.values(DEVICE_TROUBLES).map((fact): [string, () => string, unknown[]] =>
    [`device ${fact.kind}`, () => trouble(ofDevice(fact)), ['Attic', ...valuesOf(fact, 'wrong')]]),
  ...Object.keys(WRONG).map((wrong): [string, () => string, unknown[]] =>
    [`wrong ${wrong}`, () => trouble(ofDevice({ kind: 'suspect', wrong: wrong as WrongResult, reason: 'x' })), ['Attic']]),
  ...Object.values(CONDITIONS).map((fact): [string, () => string, unknown[]] =>
    [`found ${fact.kind}`, () => condition(fact), valuesOf(fact, 'key', 'trouble', 'may_compute', 'may_use', 'free_bytes', 'memory_bytes', 'used', 'holds', ...(fact.kind === 'computes' ? ['backend'] : []))]),
  ...Object.values(GPU_USES).map((fact): [string, () => string, unknown[]] =>
    [`gpu ${fact.kind}`, () => condition({ ...CONDITIONS.gpu, used: fact }), valuesOf(fact, 'is_used', 'cpu', 'gpu')]),
  ['gpu holds some', () => condition({ ...CONDITIONS.gpu, holds: { layers: 20, of_layers: 32, bytes: 3e9, lent_bytes: 1e9 } }), [20, 32, '2 GB', '1 GB']],
  ['gpu holds all', () => condition({ ...CONDITIONS.gpu, holds: { layers: 32, of_layers: 32, bytes: 3e9, lent_bytes: 1e9 } }), [32, '2 GB', '1 GB']],
  ...Object.values(LEFT_OUT).map((fact): [string, () => string, unknown[]] => [`left out ${fact.kind}`, () => leftOut(fact), []]),
  ...Object.values(WORDINGS).map((fact): [string, () => string, unknown[]] =>
    [`refusal ${fact.kind}`, () => wording(fact), valuesOf(fact, 'trouble', 'needs_bytes', 'free_bytes', 'others', 'only_here')]),
];

/** What stands in a fact beside its kind. */
function valuesOf(fact: object, ...apart: string[]): unknown[] {
  return Object.entries(fact).filter(([name, value]) => name !== 'kind' && value !== 'this' && typeof value !== 'boolean' && !apart.includes(name)).map(([, value]) => spoken(value));
}

/** What must be said of a value: of a reason, its words; of this computer, nothing that all languages say alike. */
function spoken(value: unknown): unknown {
  if (Array.isArray(value)) return value.join(', ');
  return typeof value === 'object' && value !== null && 'said' in value ? value.said : value;
}

afterEach(() => useLanguage('en', root));

describe.each(['en', 'de'] as const)('in %s', (language) => {
  it.each(SAID)('%s has words, with every value', async (_, say, values) => {
    await useLanguage(language, root);
    const said = say();
    expect(said).not.toContain(SENTENCE);
    expect(said).not.toMatch(/undefined|null|NaN|\[object/);
    expect(said).toMatch(/[.?!1]$/);
    for (const value of values) expect(said).toContain(String(value));
  });

  it('no two facts are said alike', async () => {
    await useLanguage(language, root);
    const said = SAID.filter(([name]) => !/ (trouble|forgot|code|unreadable)$/.test(name)).map(([, say]) => say());
    expect(said.filter((words, at) => said.indexOf(words) !== at)).toEqual([]);
  });
});

it('German says none of it as English does', async () => {
  const english = SAID.map(([, say]) => say());
  await useLanguage('de', root);
  const same = SAID.filter(([, say], at) => say() === english[at]).map(([name]) => name);
  expect(same).toEqual([]);
});

it('says figures as the language writes them', async () => {
  await useLanguage('de', root);
  expect(leftOut(LEFT_OUT.full)).toContain('121 MB, frei sind 24 GB');
  expect(leftOut({ kind: 'hop_costs_more_than_it_saves', hop_ms: 1234, saves_ms: 12.4 })).toContain('1,2 s, und sein Rechnen spart 12 ms');
  expect(condition({ ...CONDITIONS.device_connected, round_trip_ms: null })).toContain('noch nicht gemessen');
  expect(trouble(ofDevice({ kind: 'left_out', minutes: 1 }))).toContain('noch eine Minute nicht');
});

it('says what may and may not be', () => {
  const may = (may_compute: boolean, may_use: boolean) => condition({ ...CONDITIONS.device_connected, may_compute, may_use });
  expect(may(true, false)).toContain('It may compute for this computer, and may not use');
  expect(may(false, true)).toContain('It may not compute for this computer, and may use');
});

it('says where the key is', async () => {
  const me = (key_place: KeyPlace | null) => ({ key_kept_in: SENTENCE, key_place }) as MeView;
  expect([keyText(me({ kind: 'keychain' })), keyText(me(KEY)), keyText(me(null))]).toEqual(['the system’s keychain', 'the file /data/key', SENTENCE]);
  await useLanguage('de', root);
  expect([keyText(me({ kind: 'keychain' })), keyText(me(KEY))]).toEqual(['dem Schlüsselbund des Systems', 'der Datei /data/key']);
});

it('lets the sentence stand where it knows no words', async () => {
  await useLanguage('de', root);
  const unheard = { kind: 'never heard of' } as unknown;
  expect(troubleText({ sentence: SENTENCE, trouble: null })).toBe(SENTENCE);
  expect(trouble(unheard as Trouble)).toBe(SENTENCE);
  expect(trouble(ofDevice(unheard as DeviceTrouble))).toBe(SENTENCE);
  expect(condition(unheard as Condition)).toBe(SENTENCE);
  expect(leftOut(unheard as WhyLeftOut)).toContain(SENTENCE);
  expect(wording(unheard as Wording)).toContain(SENTENCE);
  const torn = trouble(ofDevice({ kind: 'suspect', wrong: 'never heard of' as WrongResult, reason: 'it is torn' }));
  expect(torn).toContain('(it is torn)');
});

it('says what a system refused in the language in use, and keeps its own words', async () => {
  const full = () => trouble({ kind: 'devices_not_saved', reason: because('No space left on device (os error 28)', 'no_room') });
  expect(full()).toBe('The list of paired devices could not be saved: the disk is full; the system says: No space left on device (os error 28).');
  await useLanguage('de', root);
  expect(full()).toContain('der Datenträger ist voll; das System sagt: No space left on device (os error 28).');
  const later = trouble({ kind: 'discovery_refused', reason: because('no socket', 'of a later version' as SystemReason) });
  expect(later).toContain(': no socket.');
});

const FOLDERS: FolderTrouble[] = [
  { why: 'under_way' }, { why: 'not_there', folder: '/a' }, { why: 'not_a_folder', folder: '/a' }, { why: 'already_there', folder: '/a' },
  { why: 'inside', folder: '/a' }, { why: 'of_another', folder: '/a' }, { why: 'in_the_way', file: '/a/m.gguf' },
  { why: 'no_room', needed: 5e9, free: 2e9 }, { why: 'changed', file: '/a/m.gguf' },
  { why: 'refused', file: '/a', reason: because('denied', 'not_allowed') }, { why: 'stopped' },
];

it('says why models do not move, in both languages and never alike', async () => {
  const say = () => FOLDERS.map((why) => wording({ kind: 'models_folder', trouble: why }));
  const english = say();
  await useLanguage('de', root);
  const all = [...english, ...say()];
  expect(new Set(all).size).toBe(2 * FOLDERS.length);
  expect(all.filter((said) => !said.endsWith('.') || said.includes('undefined'))).toEqual([]);
});
