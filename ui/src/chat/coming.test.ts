/** Promises of the strip over the message field: what it tells of, and in which words. */
import { beforeEach, expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import type { DownloadView } from '../generated/DownloadView';
import type { HouseholdView } from '../generated/HouseholdView';
import { announcer } from '../kit/announcer.svelte';
import { Coming, stripWords } from './coming.svelte';

let house: HouseholdView;
let coming: Coming;

const download = (key: string, values: Partial<DownloadView> = {}): DownloadView => ({ key, name: key, origin: 'o/r', copied: false, file: `${key}.gguf`,
  state: 'loading', have_bytes: 38, file_bytes: 100, bytes_per_second: 1, seconds_left: 120, problem: null, ...values });

/** What the strip says of these downloads. */
function said(downloads: DownloadView[], isEmber = false): string[] | null {
  house = { ...house, downloads };
  coming.hear(house);
  if (coming.strip === null) return null;
  const { what, more } = stripWords(coming.strip, isEmber);
  return [coming.strip.kind, what, more].filter((part) => part !== '');
}

beforeEach(() => {
  house = new FakeBackend({ tokenMs: 0 }).house;
  coming = new Coming();
  announcer.say('');
});

it('says how far a model is, and who answers meanwhile', () => {
  for (const entry of house.catalogue) if (entry.id === 'qwen3-4b') entry.download = 'a';
  expect(said([download('a')])).toEqual(['coming', 'Qwen3 4B is coming: 38%, 2 minutes left.']);
  expect(said([download('a')], true)?.at(-1)).toBe('Until then Ember answers; it only tells stories.');
  expect(said([download('a', { state: 'connecting' })])).toEqual(['coming', 'Qwen3 4B is coming: Connecting.']);
  expect(said([download('b', { file_bytes: null, seconds_left: null })])).toEqual(['coming', 'b is coming: Loading.']);
  expect(said([])).toBeNull();
});

it('prefers what comes to what rests, and what is further on its way', () => {
  const rests = download('rests', { state: 'paused' });
  const failed = download('failed', { state: 'failed' });
  expect(said([download('rests'), download('failed')])).not.toBeNull();
  expect(said([rests, failed, download('waits', { state: 'waiting' }), download('loads')])?.[1]).toContain('loads is coming');
  expect(said([rests, failed, download('waits', { state: 'waiting' })])?.[1]).toContain('waits is coming');
  expect(said([rests, failed])).toEqual(['failed', 'failed did not arrive.']);
  expect(said([rests])).toEqual(['paused', 'rests is paused at 38%.']);
});

it('says why a model did not arrive, once aloud', () => {
  const problem = { code: 'disk_full', sentence: 'The disk is full.', wording: null };
  said([download('a')]);
  expect(said([download('a', { state: 'failed', problem })])).toEqual(['failed', 'a did not arrive.', 'The disk is full.']);
  expect(announcer.text).toBe('a did not arrive.');
  announcer.say('something else');
  said([download('a', { state: 'failed', problem })]);
  expect(announcer.text).toBe('something else');
});

it('is quiet about what rests from before, where another model answers', () => {
  const rests = download('a', { state: 'paused' });
  expect(said([rests])).toBeNull();
  house = { ...house, models: house.models.filter((model) => model.built_in) };
  expect(said([rests])).toEqual(['paused', 'a is paused at 38%.']);
  expect(said([download('a', { state: 'cancelled' })])).toBeNull();
});

it('says that a model is ready until that was read, and nothing where it was deleted', () => {
  const [template] = house.models;
  if (template === undefined) throw new Error('no model');
  said([download('a'), download('b')]);
  house = { ...house, models: [...house.models, { ...template, name: 'a', title: 'Model A' }], default_model: 'a' };
  // Another one is still coming: how far it is matters more.
  expect(said([download('b')])?.[0]).toBe('coming');
  expect(announcer.text).toBe('Model A is ready.');
  expect(said([])).toEqual(['ready', 'Model A is ready.', 'New chats use it.']);
  house = { ...house, default_model: 'another' };
  expect(said([])).toEqual(['ready', 'Model A is ready.']);
  coming.close();
  expect(said([])).toBeNull();
});
