/** What the checks say about the last replies, in German. */
import type { Strings } from '../index';

export const past: Strings['past'] = {
  title: 'Die letzten Antworten',
  hint: 'Seit dem Start von Inglenook, die neueste zuerst: wer sie berechnet hat, wer verloren ging, wer übernommen hat. Von dem, was gefragt und gesagt wurde, wird dafür nichts aufbewahrt. Ein Token ist ein Wort oder ein Teil davon.',
  none: 'Keine seit dem Start von Inglenook.',
  more: (count) => `${String(count)} ältere zeigen`,
  prompt: (tokens) => `Anfrage von ${tokens} Token`,
  lost: (device) => `${device} ging verloren.`,
  awaited: (device) => `Wartete auf ${device}.`,
  shared: (device) => `${device} hatte gleichzeitig noch andere Antworten zu berechnen.`,
  tookOver: (to, from, after, seconds) => `${to} übernahm nach ${after} Token von ${from}, in ${seconds} s.`,
  tookOverHere: 'Dieser Computer übernahm.',
  underWay: 'Entsteht gerade.',
  done: (tokens, speed, first) => `${tokens} Token, ${speed} Token/s, das erste nach ${first} s.`,
  aborted: (code) => `Endete vorzeitig (${code}).`,
  stopped: 'Angehalten von dem, der fragte.',
};
