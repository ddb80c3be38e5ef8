/**
 * Colours code. The highlighter and its languages are fetched when the first code block is finished.
 *
 * The result is HTML, which this window inserts nowhere else but for formulas: the highlighter escapes
 * what it is given, and DOMPurify lets nothing through but `<span class>`.
 */
import DOMPurify from 'dompurify';
import type { HLJSApi } from 'highlight.js';

/** Longer code is shown plain: colouring it would stop the page. */
const COLOURED_CHARACTERS_MAX = 20_000;

let loading: Promise<HLJSApi> | null = null;

/** Coloured HTML, or null where the language is unknown or the code too long. */
export async function highlight(code: string, language: string): Promise<string | null> {
  if (language === '' || code.length > COLOURED_CHARACTERS_MAX) return null;
  loading ??= import('./languages').then((module) => module.highlighter);
  const highlighter = await loading;
  if (!highlighter.getLanguage(language)) return null;
  const { value } = highlighter.highlight(code, { language, ignoreIllegals: true });
  return clean(value);
}

/** Lets nothing through but spans with a class. */
export function clean(html: string): string {
  return DOMPurify.sanitize(html, { ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'] });
}
