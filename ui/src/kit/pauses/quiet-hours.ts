/** Quiet hours as the settings write them, `22:00-07:00`, and as two fields show them. Pure. */

export interface Hours {
  from: string;
  to: string;
}

/** What the fields begin with when somebody switches quiet hours on. */
export const USUAL: Hours = { from: '22:00', to: '07:00' };

/** `null`: there are none. */
export function readHours(text: string): Hours | null {
  const [from, to] = text.split('-');
  return from && to ? { from, to: to === '24:00' ? '00:00' : to } : null;
}

/** Empty for none. A time field that was emptied leaves everything as it was: `null`. */
export function writeHours(hours: Hours | null): string | null {
  if (hours === null) return '';
  if (hours.from === '' || hours.to === '' || hours.from === hours.to) return null;
  return `${hours.from}-${hours.to}`;
}
