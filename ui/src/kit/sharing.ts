/** One line on how sharing stands, for the pages, in the language in use. Pure.
 *
 *  It says whom this computer helps, and never how many devices are in reach: the pages count those that can help, and
 *  guests are none of them. The tray's own line counts what is connected. */
import type { SharingView } from '../generated/SharingView';
import { locale, t } from '../strings';
import { clockTime, listOf } from './words';

export function sharingLine({ sharing }: { sharing: SharingView }): string {
  if (!sharing.on) return t.share.off;
  const { paused, guests, streams } = sharing;
  // A pause lets replies end that are being made.
  if (streams > 0) return guests.length > 0 ? t.share.helpingWhom(listOf(guests.map((guest) => guest.device))) : begin(t.share.helping(streams));
  if (paused) return begin(t.share.pausedBecause[paused.reason](paused.until === null ? '' : clockTime(paused.until)));
  return sharing.answering ? t.share.onAnswering : t.share.onIdle;
}

/** A phrase at the beginning of a line. */
function begin(phrase: string): string {
  return phrase.charAt(0).toLocaleUpperCase(locale) + phrase.slice(1);
}
