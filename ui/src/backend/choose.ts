/** Which backend this page has: the program when it runs inside it, else the fake household. */
import type { Backend } from './backend';
import { insideProgram, tauriBackend } from './tauri';

/** Absent: a built page outside the program. The fake household exists in `npm run dev` only. */
export async function chooseBackend(): Promise<Backend | null> {
  if (insideProgram()) return tauriBackend;
  if (!import.meta.env.DEV) return null;
  const { FakeBackend } = await import('./fake');
  // `?token-ms=10` for whoever wants to see it faster or slower.
  const wanted = new URLSearchParams(location.search).get('token-ms');
  return new FakeBackend(wanted === null ? {} : { tokenMs: Number(wanted) });
}
