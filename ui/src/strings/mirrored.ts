/**
 * A made-up language for checks: every text longer and in letters that run from right to left, so that
 * a sentence outside the catalogue, a cut label or a fixed side is seen at once.
 */
import type { Strings } from './index';

const FROM = 'abcdefghijklmnopqrstuvwxyz';
const TO = 'אבגדהוזחטיכלמנסעפצקרשתךםןף';

/** Texts up to here stay as long as they are: the name of a control must begin with what stands on it. */
const SHORT = 12;
/** Letters of a word that makes a text longer. */
const WORD = 9;

/** English with every letter replaced, and a third longer. */
export function mirrored(strings: Strings): Strings {
  return turn(strings) as Strings;
}

function turn(value: unknown): unknown {
  if (typeof value === 'string') return letters(value);
  if (typeof value === 'function') {
    return (...values: unknown[]) => letters(String((value as (...all: unknown[]) => unknown)(...values)));
  }
  if (Array.isArray(value)) return value.map(turn);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, turn(inner)]));
  }
  return value;
}

function letters(text: string): string {
  const turned = [...text].map((letter) => TO[FROM.indexOf(letter.toLowerCase())] ?? letter).join('');
  if (turned.length <= SHORT) return turned;
  const more = Math.ceil(turned.length / 3);
  const words = Array.from({ length: Math.ceil(more / WORD) }, (_, at) => 'ש'.repeat(Math.min(WORD, more - at * WORD)));
  return [turned, ...words].join(' ');
}
