/**
 * The texts of the language in use. Pages import `t` and never write a sentence of their own.
 *
 * `useLanguage` is called once, before anything is drawn; another language is a new start of the
 * page. `t` and `locale` are live bindings, so nothing may read them while modules are loaded.
 */
import { en } from './en';

export type Strings = typeof en;

/** Languages that a person can choose, by their own names. */
export const LANGUAGES = { en: 'English', de: 'Deutsch' } as const;
export type Language = keyof typeof LANGUAGES;

/** The catalogue in use. */
export let t: Strings = en;

/** The locale for numbers and dates. */
export let locale = 'en-GB';

/** The language to use: the chosen one, else the first of the system's that there is. */
export function languageFor(chosen: string | null, system: readonly string[]): Language {
  const known = (code: string): code is Language => code in LANGUAGES;
  const codes = [chosen ?? '', ...system].map((code) => code.toLowerCase().split('-')[0] ?? '');
  return codes.find(known) ?? 'en';
}

/** Takes a language into use and says so on the page. `mirrored` is for checks: a made-up language
 *  from right to left. */
export async function useLanguage(language: Language | 'mirrored', root: HTMLElement): Promise<void> {
  if (language === 'de') {
    t = (await import('./de')).de;
    locale = 'de-DE';
  } else if (import.meta.env.MADE_UP && language === 'mirrored') {
    t = (await import('./mirrored')).mirrored(en);
    locale = 'en-GB';
  } else {
    t = en;
    locale = 'en-GB';
  }
  root.lang = language === 'mirrored' ? 'he' : language;
  root.dir = language === 'mirrored' ? 'rtl' : 'ltr';
}
