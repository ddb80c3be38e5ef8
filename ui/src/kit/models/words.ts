/** Models, their memory and their downloads in words. Pure. */
import type { CatalogueView } from '../../generated/CatalogueView';
import type { DownloadView } from '../../generated/DownloadView';
import type { FitView } from '../../generated/FitView';
import { locale, t } from '../../strings';
import { bytes, listOf, speed, WORDS_PER_TOKEN } from '../words';

const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Whether the household has the memory for a model, and how fast it is expected to answer then. */
export function fitWords({ kind, devices, tokens_per_second: tokens }: FitView): string {
  const fits = kind === 'with' ? t.models.fitWith(listOf(devices))
    : { here: t.models.fitHere, nowhere: t.models.fitNot, unknown: t.models.fitUnknown }[kind];
  return tokens === null ? fits : `${fits} ${t.models.fitSpeed(speed(tokens * WORDS_PER_TOKEN))}`;
}

/** Whether an entry is the one to begin with here. Where none fits, the smallest is recommended; that fits nobody. */
export function isBestFit({ recommended, fit }: CatalogueView): boolean {
  return recommended && (fit.kind === 'here' || fit.kind === 'with');
}

/** What a model of the catalogue is good for, in the window's language where it is known. */
export function aboutWords(entry: CatalogueView): string {
  return locale.startsWith('de') ? entry.about_de : entry.about_en;
}

/** `Q4_K_M · 2.5 GB · Apache-2.0 · English and German`. */
export function entryFacts(entry: CatalogueView): string {
  const names = new Intl.DisplayNames([locale], { type: 'language', fallback: 'code' });
  const languages = listOf(entry.languages.map((code) => names.of(code) ?? code));
  return [entry.quantisation, bytes(entry.file_bytes), entry.licence, languages].join(' · ');
}

/** How much is here: `1.2 GB of 4.7 GB`. */
export function partWords({ have_bytes: have, file_bytes: all }: DownloadView): string {
  return all === null ? bytes(have) : t.models.part(bytes(have), bytes(all));
}

/** What a download does: `12 MB a second, 4 minutes left`. */
export function stateWords(download: DownloadView): string {
  const { state, bytes_per_second: rate, seconds_left: left } = download;
  if (state !== 'loading' || rate === null) return t.models.states[state];
  const pace = t.models.pace(bytes(rate));
  return left === null ? pace : `${pace}, ${timeLeft(left)}`;
}

/** How long it still takes: `4 minutes left`; empty while nobody knows. */
export function timeLeftWords({ seconds_left: left }: DownloadView): string {
  return left === null ? '' : timeLeft(left);
}

/** What the download with this key does, where another list shows it: on its way, or why it is not. */
export function wayWords(downloads: DownloadView[], key: string): string {
  const state = downloads.find((one) => one.key === key)?.state;
  return state === 'failed' || state === 'paused' || state === 'cancelled' ? t.models.states[state] : t.models.onItsWay;
}

/** Whole per cent; null while nobody knows the length. */
export function percent({ have_bytes: have, file_bytes: all }: DownloadView): number | null {
  return all === null || all === 0 ? null : Math.min(100, Math.floor((100 * have) / all));
}

/** How long so many bytes take: `4 minutes`; empty while nobody knows how fast they come. */
export function timeFor(size: number, bytesPerSecond: number | null): string {
  const { seconds, minutes, hours } = t.models;
  return bytesPerSecond === null ? '' : inUnits(size / bytesPerSecond, { seconds, minutes, hours });
}

/** How long something still takes, of seconds: `4 minutes left`. */
export function timeLeft(time: number): string {
  const { secondsLeft: seconds, minutesLeft: minutes, hoursLeft: hours } = t.models;
  return inUnits(time, { seconds, minutes, hours });
}

interface Units {
  seconds: (count: number) => string;
  minutes: (count: number) => string;
  hours: (count: string) => string;
}

/** A time in the unit that suits it; rounded first: 59.9 seconds are a minute, and 59.9 minutes an hour. */
function inUnits(time: number, { seconds, minutes, hours }: Units): string {
  const whole = Math.round(time);
  if (whole < MINUTE) return seconds(Math.max(1, whole));
  const rounded = Math.round(whole / MINUTE);
  if (rounded < HOUR / MINUTE) return minutes(rounded);
  return hours((whole / HOUR).toLocaleString(locale, { maximumFractionDigits: whole < 10 * HOUR ? 1 : 0 }));
}
