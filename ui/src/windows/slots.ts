/** Gives each paired device a place, and with it a colour, that it keeps while it stays paired. */

const KEY = 'inglenook.places';

/** A place that nobody has. */
const FREE = '';

/** The places after a change: who left frees a place, who came takes the first free one. */
export function places(before: readonly string[], paired: readonly string[]): string[] {
  const after = before.map((id) => (paired.includes(id) ? id : FREE));
  for (const id of paired) {
    if (after.includes(id)) continue;
    const free = after.indexOf(FREE);
    if (free === -1) after.push(id);
    else after[free] = id;
  }
  return after;
}

/** The places of the last time this window was open. */
export function keptPlaces(storage: Storage): string[] {
  return (storage.getItem(KEY) ?? '').split(' ');
}

/** Keeps the places for the next time. Ids hold no spaces. */
export function keepPlaces(storage: Storage, all: readonly string[]): void {
  storage.setItem(KEY, all.join(' '));
}
