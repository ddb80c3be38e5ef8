/** Which backend this page has: the program when it runs inside it, else the fake household. */
import type { Backend } from './backend';
import { insideProgram, tauriBackend } from './tauri';

/** Absent: a built page outside the program. The fake household exists in `npm run dev` only. */
export async function chooseBackend(): Promise<Backend | null> {
  if (insideProgram()) return tauriBackend;
  if (!import.meta.env.DEV) return null;
  const { FakeBackend } = await import('./fake');
  return new FakeBackend();
}
