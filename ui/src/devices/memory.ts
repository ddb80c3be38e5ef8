/** What each computer has and lends of its memory, as far as anybody told: the rows' figures and bars, and the rings of
 *  the picture. Pure. */
import type { DeviceView } from '../generated/DeviceView';
import type { HouseholdView } from '../generated/HouseholdView';
import { bytes } from '../kit/words';
import { t } from '../strings';

export interface Amount {
  text: string;
  /** Parts of the bar, 0 to 1: what is there for others, then what this computer takes itself. Empty where the whole is
   *  not known. */
  bar: readonly number[];
}

/** Of this computer: how much it would lend at most, and what is in use on each graphics card with a memory of its own. */
export function memoryHere({ me, sharing, settings }: HouseholdView): Amount[] {
  const isLent = sharing.on && sharing.paused === null;
  const most = settings.lend_memory_bytes;
  const own: Amount = isLent ? amount(t.household.lends, most, me.memory_bytes) : { text: t.household.lendsNone, bar: [] };
  const cards = sharing.gpus.flatMap(({ memory_bytes: all, shares_memory: isShared, own_bytes: mine, lent_bytes: lent }) =>
    all === null || all === 0 || isShared ? [] : [{ text: t.household.graphics(ofAll(mine + lent, all)), bar: [lent / all, mine / all] }]);
  return [...cards, own];
}

/** Of another one: what it could still lend. That counts its graphics card in where one computes, and how large that is it
 *  does not say, so there is no whole then. */
export function memoryThere({ memory_free_bytes: free, facts: { gpu, memory_bytes: all } }: DeviceView): Amount[] {
  return free === null ? [] : [amount(t.household.canLend, free, gpu === null ? all : null)];
}

/** How many parts of models a computer offers, and how many of them are in its memory; null where it offers none. */
export function loadedOf({ connected, lends }: DeviceView): { held: number; offered: number } | null {
  if (!connected || lends.length === 0) return null;
  const count = (ends: readonly [number, number] | null) => (ends === null ? 0 : ends[1] - ends[0] + 1);
  return {
    held: lends.reduce((sum, { held }) => sum + count(held), 0),
    offered: lends.reduce((sum, lend) => sum + count([lend.first_layer, lend.last_layer]), 0),
  };
}

function amount(says: (amount: string) => string, part: number, all: number | null): Amount {
  return all === null || all < part ? { text: says(bytes(part)), bar: [] } : { text: says(ofAll(part, all)), bar: [part / all] };
}

/** `6.4 of 16 GB`: the unit once where it is the same. */
function ofAll(part: number, all: number): string {
  const [some, whole] = [bytes(part), bytes(all)];
  const unit = / \S+$/.exec(whole)?.[0] ?? '';
  return t.household.ofAll(unit !== '' && some.endsWith(unit) ? some.slice(0, -unit.length) : some, whole);
}
