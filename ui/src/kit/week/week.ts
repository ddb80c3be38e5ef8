/** The last seven days of what was computed, as bars. Pure. */
import type { LentDayView } from '../../generated/LentDayView';
import { t } from '../../strings';
import { calendarDay, shortDay, whole, WORDS_PER_TOKEN } from '../words';

const DAYS = 7;
const DAY_SECONDS = 86_400;
/** A day on which something was computed can be seen, however little it was. */
const PART_MIN = 0.06;

export interface Day {
  day: number;
  /** `Fr`. */
  short: string;
  /** For whoever does not see bars: `Friday: about 1,380 words`. */
  says: string;
  /** Of the highest bar, 0 to 1. */
  part: number;
  isToday: boolean;
}

/** Days since 1970-01-01 by the calendar of this computer. `now` in seconds since 1970. */
export function calendarDayOf(now: number): number {
  return Math.floor((now - new Date(now * 1000).getTimezoneOffset() * 60) / DAY_SECONDS);
}

/** Words that were helped with in the last seven days, as exactly as a count of tokens tells: two figures. */
export function wordsOf(days: readonly LentDayView[]): number {
  return Number((days.reduce((sum, { tokens }) => sum + tokens, 0) * WORDS_PER_TOKEN).toPrecision(2));
}

/** The seven days up to `today`, the oldest first; those that are left out had nothing. */
export function weekOf(days: readonly LentDayView[], today: number): Day[] {
  const tokens = (day: number) => days.find((one) => one.day === day)?.tokens ?? 0;
  const week = Array.from({ length: DAYS }, (_, at) => today - DAYS + 1 + at);
  const most = Math.max(1, ...week.map(tokens));
  return week.map((day) => {
    const part = tokens(day) / most;
    return {
      day,
      short: shortDay(day),
      says: t.household.dayWords(calendarDay(day), whole(tokens(day) * WORDS_PER_TOKEN)),
      part: part === 0 ? 0 : Math.max(PART_MIN, part),
      isToday: day === today,
    };
  });
}
