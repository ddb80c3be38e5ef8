/** Promises of printing: the whole chat with who said what, drawn before it is printed and gone afterwards. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { join } from './attachments';
import { ChatDesk } from './desk.svelte';
import { onBeforePrint, printOpen, turnsOf } from './printing';

let backend: FakeBackend;
let desk: ChatDesk;
const print = vi.fn();

beforeEach(async () => {
  vi.stubGlobal('print', print);
  print.mockClear();
  backend = new FakeBackend({ tokenMs: 0, long: 100 });
  desk = new ChatDesk(backend, localStorage);
  await desk.start();
});

afterEach(() => {
  window.dispatchEvent(new Event('afterprint'));
  vi.unstubAllGlobals();
});

const paper = () => document.querySelector('.paper');

async function openOldest(): Promise<void> {
  const id = desk.list.entries.at(-1)?.id;
  if (id === undefined) throw new Error('the made-up household has chats');
  await desk.open(id);
}

it('draws every message before it prints, and takes all away afterwards', async () => {
  await openOldest();
  let drawn = 0;
  print.mockImplementation(() => { drawn = document.querySelectorAll('.paper section').length; });
  expect(printOpen(desk, backend.house)).toBe(true);
  await vi.waitFor(() => { expect(print).toHaveBeenCalledOnce(); });
  expect(drawn).toBe(100);
  expect(paper()?.querySelector('h1')?.textContent).toBe('Everything that we ever asked');
  const [asked, answered] = paper()?.querySelectorAll('section') ?? [];
  expect([asked?.querySelector('h2')?.textContent, answered?.querySelector('h2')?.textContent]).toEqual(['You', 'Qwen2.5 7B Instruct']);
  expect(asked?.textContent).toContain('Question 1: what about the leaves?');
  expect(document.documentElement.dataset['printed']).toBe('');
  window.dispatchEvent(new Event('afterprint'));
  expect(paper()).toBeNull();
  expect(document.documentElement.dataset['printed']).toBeUndefined();
});

it('is taken away by the next key where a webview does not say that it has printed', async () => {
  await openOldest();
  printOpen(desk, backend.house);
  await vi.waitFor(() => { expect(print).toHaveBeenCalledOnce(); });
  expect(paper()).not.toBeNull();
  // The listeners come right after the call.
  await vi.waitFor(() => {
    window.dispatchEvent(new Event('keydown'));
    expect(paper()).toBeNull();
  });
});

it('prints the chat, too, where somebody prints in another way', async () => {
  await openOldest();
  onBeforePrint(desk, backend.house);
  expect(document.querySelectorAll('.paper section')).toHaveLength(100);
  onBeforePrint(desk, backend.house);
  expect(document.querySelectorAll('.paper')).toHaveLength(1);
});

it('has nothing to print where nothing has been said', () => {
  expect(printOpen(desk, backend.house)).toBe(false);
  onBeforePrint(desk, backend.house);
  expect(paper()).toBeNull();
});

it('names the files that went with a message, and not what is in them', async () => {
  await desk.current.say(join('Read this', [{ name: 'list.txt', text: 'many words' }]), 'ember');
  await vi.waitFor(() => { expect(desk.current.busy).toBe(false); });
  const [asked, reply] = turnsOf(desk.current, backend.house);
  expect([asked?.text, asked?.files]).toEqual(['Read this', ['list.txt']]);
  expect(reply?.who).toBe('Ember (tells small stories)');
});
