/** Numbers and times as people read them. Pure; `now` is an argument. */
import { locale, t } from '../strings';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Words of a usual English text by its tokens. Of a reply the window counts the words; of a prediction there are none.
 *  The details of each computer say that it is so. */
export const WORDS_PER_TOKEN = 0.75;

/** Words of a text: what stands between white space. */
export function countWords(text: string): number {
  let words = 0;
  let inside = false;
  // Not by a pattern that finds them all: a growing reply is counted many times a second, and each time
  // a piece of memory for every word would be garbage.
  for (let at = 0; at < text.length; at += 1) {
    const isWord = !isSpace(text, at);
    if (isWord && !inside) words += 1;
    inside = isWord;
  }
  return words;
}

function isSpace(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  if (unit > 0x20 && unit < 0x7f) return false;
  return /\s/.test(text.charAt(at));
}

/** A speed with two figures: `14`, `9.3`, `0.8`. */
export function speed(perSecond: number): string {
  const digits = perSecond < 9.95 ? 1 : 0;
  return perSecond.toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Milliseconds as seconds: `0.4`, `12`. */
export function seconds(ms: number): string {
  const digits = ms < 9950 ? 1 : 0;
  return (ms / 1000).toLocaleString(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Milliseconds as seconds, where short ones matter too: `0.004`, `1.2`, `12`. */
export function exactSeconds(ms: number): string {
  const digits = ms < 100 ? 3 : ms < 1000 ? 2 : ms < 9950 ? 1 : 0;
  return (ms / 1000).toLocaleString(locale, { maximumFractionDigits: digits });
}

/** A round trip: `0.4`, `48`. */
export function milliseconds(ms: number): string {
  return ms.toLocaleString(locale, { maximumFractionDigits: ms < 10 ? 1 : 0 });
}

/** Bytes as people buy them: `6.9 GB`. */
export function bytes(count: number): string {
  if (count < 1e3) return t.time.bytes(whole(count));
  const [value, unit] = count < 1e6 ? [count / 1e3, 'kB'] : count < 1e9 ? [count / 1e6, 'MB'] : [count / 1e9, 'GB'];
  return `${value.toLocaleString(locale, { maximumFractionDigits: value < 10 ? 1 : 0 })} ${unit}`;
}

/** A share of a whole, 0 to 1, as a percentage: `38%`. */
export function share(part: number): string {
  return part.toLocaleString(locale, { style: 'percent' });
}

/** A whole number: `8,192`. */
export function whole(count: number): string {
  return Math.round(count).toLocaleString(locale);
}

/** What is left of a countdown: `1:42`. */
export function countdown(secondsLeft: number): string {
  const whole = Math.max(0, Math.ceil(secondsLeft));
  return `${String(Math.floor(whole / MINUTE))}:${String(whole % MINUTE).padStart(2, '0')}`;
}

/** How long ago, in words. Times in the future count as now: clocks differ. */
export function ago(then: number, now: number): string {
  const passed = now - then;
  if (passed < MINUTE) return t.time.justNow;
  if (passed < HOUR) return t.time.minutes(Math.floor(passed / MINUTE));
  if (passed < DAY) return t.time.hours(Math.floor(passed / HOUR));
  return t.time.days(Math.floor(passed / DAY));
}

/** The time of day of a moment, in seconds since 1970: `06:00`. */
export function clockTime(at: number): string {
  return new Date(at * 1000).toLocaleTimeString(locale, { hour: '2-digit', minute: '2-digit' });
}

/** The day of a moment, in seconds since 1970: `26 November 2026`. */
export function day(at: number): string {
  return new Date(at * 1000).toLocaleDateString(locale, { day: 'numeric', month: 'long', year: 'numeric', timeZone: 'UTC' });
}

/** A day of the last week, by its number since 1970-01-01: `Saturday`. */
export function calendarDay(day: number): string {
  return new Date(day * DAY * 1000).toLocaleDateString(locale, { weekday: 'long', timeZone: 'UTC' });
}

/** The same in a few letters: `Sat`. */
export function shortDay(day: number): string {
  return new Date(day * DAY * 1000).toLocaleDateString(locale, { weekday: 'short', timeZone: 'UTC' });
}

/** Names in a row: `Dad’s PC and Mum’s laptop`. */
export function listOf(names: readonly string[]): string {
  return new Intl.ListFormat(locale, { type: 'conjunction' }).format(names);
}
