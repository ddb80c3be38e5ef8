/**
 * Where words stand in a chat. The texts are searched, not the page: most of a long chat is not mounted. In what is
 * mounted, the same places are found again, to be marked. Capital letters and accents make no difference. Pure.
 */
import { BREAK, plain } from '../kit/markdown/plain';
import { split } from './attachments';
import type { OpenChat } from './open-chat.svelte';

/** One place: which message, and which of the places in it. */
export interface Hit {
  step: number;
  message: number;
  nth: number;
}

/** A text to search in, and where each of its characters stood. */
export interface Folded {
  text: string;
  at: readonly number[];
}

/** Accents stand apart from their letters once those are taken apart. */
const ACCENTS = /[\u0300-\u036f]/g;

/** The characters of a text as they are compared. */
export function folded(text: string): string {
  return text.replace(/[^\u0021-\u007e]/gu, sign).toLowerCase();
}

/** The same, with the places. */
export function foldedAt(text: string): Folded {
  const at: number[] = [];
  let result = '';
  let place = 0;
  for (const one of text) {
    const compared = folded(one);
    at.push(...Array.from({ length: compared.length }, () => place));
    result += compared;
    place += one.length;
  }
  return { text: result, at };
}

function sign(one: string): string {
  if (one === BREAK) return one;
  if (/\s/.test(one)) return ' ';
  if (one === 'ß' || one === 'ẞ') return 'ss';
  return one.normalize('NFD').replace(ACCENTS, '').toLowerCase();
}

/** Where the words begin; places do not overlap. Both are folded. */
export function placesOf(text: string, words: string): number[] {
  const found: number[] = [];
  if (words === '') return found;
  for (let at = text.indexOf(words); at !== -1; at = text.indexOf(words, at + words.length)) found.push(at);
  return found;
}

/** The texts of a chat, each read once. */
export class Texts {
  readonly #kept = new Map<number, { of: string; text: string }>();

  /** Where the words stand in the messages that show, from the first to the last. */
  find(chat: OpenChat, words: string): Hit[] {
    const wanted = folded(words.trim());
    return chat.steps.flatMap(({ message }, step) => {
      const isPerson = message.role === 'user';
      const text = isPerson ? message.text : chat.face(message).text;
      return placesOf(this.#of(message.id, text, isPerson), wanted).map((_, nth): Hit => ({ step, message: message.id, nth }));
    });
  }

  #of(id: number, of: string, isPerson: boolean): string {
    const kept = this.#kept.get(id);
    if (kept?.of === of) return kept.text;
    const text = folded(isPerson ? split(of).text : plain(of));
    this.#kept.set(id, { of, text });
    return text;
  }
}

/** What stands in a reply beside its words. */
const BESIDE = '.formula, figcaption, .spoken, [role="note"], .picture, .address, .box, button:not(.link)';
const BLOCKS = 'p, li, td, th, pre, h3, h4, h5, h6, blockquote, .heading';

/** Where the words stand in a message that is mounted. */
export function rangesOf(message: Element, words: string): Range[] {
  const wanted = folded(words.trim());
  const nodes: { node: Text; from: number }[] = [];
  let text = '';
  let block: Element | null = null;
  const walker = document.createTreeWalker(message, NodeFilter.SHOW_ALL);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    // Words do not go on over a line that was broken, or over what is drawn.
    if (node instanceof Element && node.matches('br, .formula')) text += BREAK;
    if (!(node instanceof Text) || node.parentElement?.closest(BESIDE)) continue;
    const own = node.parentElement?.closest(BLOCKS) ?? null;
    if (own !== block) text += BREAK;
    block = own;
    nodes.push({ node, from: text.length });
    text += node.data;
  }
  const { text: compared, at } = foldedAt(text);
  return placesOf(compared, wanted).map((start) => {
    const [from, last] = [at[start] ?? 0, at[start + wanted.length - 1] ?? 0];
    const range = document.createRange();
    const begin = nodes.findLast((one) => one.from <= from);
    const end = nodes.findLast((one) => one.from <= last);
    if (begin && end) {
      range.setStart(begin.node, Math.min(begin.node.length, from - begin.from));
      range.setEnd(end.node, Math.min(end.node.length, last - end.from + 1));
    }
    return range;
  });
}
