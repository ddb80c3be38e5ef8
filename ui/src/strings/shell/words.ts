/**
 * The words on sharing, for the pages. They stand in the files beside this one, which the program reads
 * too: the tray, its notices and the pages say the same.
 */
import type shell from './en.json';

type Catalogue = typeof shell;

/** `text` with `value` for the name in braces. */
function fill(text: string, name: string, value: string): string {
  return text.replaceAll(`{${name}}`, value);
}

export function shareWords(words: Catalogue) {
  return {
    title: words.share,
    pausedBecause: {
      owner: (until: string) => (until === '' ? words.paused : fill(words.paused_until, 'time', until)),
      sleep: () => words.paused_sleep,
      quiet_hours: () => words.paused_quiet_hours,
      battery: () => words.paused_battery,
      full_screen: () => words.paused_full_screen,
      busy: () => words.paused_busy,
    },
    helping: (count: number) => (count === 1 ? words.helping_one : fill(words.helping_many, 'count', String(count))),
  };
}
