/** Which backend this page has: the program when it runs inside it, else the fake household. */
import type { PauseReason } from '../generated/PauseReason';
import type { Backend } from './backend';
import { insideProgram, tauriBackend } from './tauri';

const PAUSES: readonly PauseReason[] = ['owner', 'sleep', 'quiet_hours', 'battery', 'full_screen', 'busy'];

/** Absent: a page of the program that is opened outside of it. The fake household is in `npm run dev` and in
 *  the build `household`, never in what the program carries. */
export async function chooseBackend(): Promise<Backend | null> {
  if (insideProgram()) return tauriBackend;
  if (!import.meta.env.MADE_UP) return null;
  const { FakeBackend } = await import('./fake');
  // `?token-ms=10` for whoever wants to see it faster or slower, `?paused=battery` for sharing that rests,
  // `?long=1000` for a chat of so many messages, `?by-hand`
  // for tests that let time pass themselves: they find the household in the window.
  const wanted = new URLSearchParams(location.search);
  const tokenMs = wanted.get('token-ms');
  const paused = PAUSES.find((reason) => reason === wanted.get('paused'));
  const byHand = wanted.has('by-hand');
  const long = Number(wanted.get('long') ?? 0);
  const made = new FakeBackend({ byHand, long, ...(tokenMs === null ? {} : { tokenMs: Number(tokenMs) }), ...(paused ? { paused } : {}) });
  if (byHand) Object.assign(window, { household: made });
  return made;
}
