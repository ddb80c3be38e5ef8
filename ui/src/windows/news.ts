/** What stands beside the places of the side bar: who helps now, how far downloads are, a new version. Pure. */
import { membersOf, shownRoute } from '../devices/members';
import type { HouseholdView } from '../generated/HouseholdView';
import type { PipelineView } from '../generated/PipelineView';

/** How many computers have a part in the reply that is being made; 0 while none is. `peers`: ids of the paired
 *  devices, each at the place that gives it its colour. */
export function helpingNow(house: HouseholdView, pipeline: PipelineView | null, peers: readonly string[]): number {
  const { route, isRunning } = shownRoute(pipeline, house.sharing.answering);
  return isRunning ? membersOf(house, peers, route).filter(({ role }) => role === 'helping').length : 0;
}

const ON_THEIR_WAY = ['connecting', 'loading', 'checking'];

/** How much of what is being downloaded is here, 0 to 1; null while nothing is, or its length is not known. */
export function downloaded({ downloads }: HouseholdView): number | null {
  const coming = downloads.filter(({ state }) => ON_THEIR_WAY.includes(state));
  let [have, all] = [0, 0];
  for (const one of coming) {
    if (one.file_bytes === null) return null;
    have += one.have_bytes;
    all += one.file_bytes;
  }
  return all === 0 ? null : Math.min(1, have / all);
}

/** Whether there is a newer version that its owner wants to be told of. One that was asked for is told where it was. */
export function isNewVersionTold({ updates, settings }: HouseholdView): boolean {
  return updates.newer !== null && settings.values['updates.new_versions'] !== 'off';
}
