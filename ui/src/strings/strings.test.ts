/** Promises of the catalogues: whole, chosen by the system, and turned round for checks. */
import { afterEach, describe, expect, it } from 'vitest';
import { de } from './de';
import { en } from './en';
import { languageFor, locale, t, useLanguage } from './index';
import { mirrored } from './mirrored';

const root = document.documentElement;

afterEach(() => useLanguage('en', root));

/** Every text by its place; functions are called with made-up values. */
function texts(value: unknown, place = ''): [string, string][] {
  if (typeof value === 'string') return [[place, value]];
  if (typeof value === 'function') {
    const values = Array.from({ length: value.length }, (_, at) => `⟨${String(at)}⟩`);
    return [[place, String((value as (...all: unknown[]) => unknown)(...values))]];
  }
  return Object.entries(value as object).flatMap(([key, inner]) => texts(inner, `${place}.${key}`));
}

describe('German', () => {
  it('has every text that English has, and takes the same values', () => {
    const english = texts(en);
    const german = new Map(texts(de));
    expect([...german.keys()]).toEqual(english.map(([place]) => place));
    const values = (text = '') => (text.match(/⟨\d⟩/g) ?? []).sort();
    const different = english.filter(([place, text]) =>
      new Set(values(text)).size !== new Set(values(german.get(place))).size).map(([place]) => place);
    expect(different).toEqual([]);
  });

  it('leaves nothing in English', () => {
    const english = new Map(texts(en));
    const same = texts(de).filter(([place, text]) => english.get(place) === text && /\p{L}{3,} \p{L}{3,}/u.test(text));
    expect(same.map(([, text]) => text)).toEqual([]);
  });
});

it.each([
  [null, ['de-AT', 'en'], 'de'],
  ['en', ['de'], 'en'],
  ['xx', ['fr', 'de'], 'de'],
  [null, [], 'en'],
])('chosen %j and system %j give %s', (chosen, system, expected) => {
  expect(languageFor(chosen, system)).toBe(expected);
});

it('takes a language into use and says so on the page', async () => {
  await useLanguage('de', root);
  expect(t.chat.send).toBe('Senden');
  expect([locale, root.lang, root.dir]).toEqual(['de-DE', 'de', 'ltr']);
  await useLanguage('mirrored', root);
  expect(root.dir).toBe('rtl');
});

it('turns every text round for checks, and makes it longer', () => {
  const latin = texts(mirrored(en)).filter(([, text]) => /[a-z]/i.test(text));
  expect(latin).toEqual([]);
  expect(mirrored(en).chat.welcome.length).toBeGreaterThan(en.chat.welcome.length);
});
