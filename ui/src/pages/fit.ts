/** Whether a model fits into the memory of this household, before anything is loaded. Pure. */
import type { DeviceView } from '../generated/DeviceView';
import type { ModelView } from '../generated/ModelView';

/** Beside the weights: conversations, activations, and the program itself. */
const BESIDE_WEIGHTS = 1.15;
const BESIDE_BYTES = 300e6;
/** The rest of a computer needs memory too. */
const OWN_SHARE = 0.75;

export type Fit = { kind: 'here' } | { kind: 'with'; devices: string[] } | { kind: 'no' } | { kind: 'unknown' };

/** `memory`: all memory of this computer in bytes; null where the system does not say. */
export function fitOf(model: ModelView, memory: number | null, devices: readonly DeviceView[]): Fit {
  if (memory === null) return { kind: 'unknown' };
  let missing = model.file_bytes * BESIDE_WEIGHTS + BESIDE_BYTES - memory * OWN_SHARE;
  if (missing <= 0) return { kind: 'here' };
  const helpers = devices
    .filter((device) => device.paired && device.connected && (device.trust === 'trusted' || device.trust === 'own'))
    .map((device) => ({ name: device.name, room: device.memory_free_bytes ?? 0 }))
    .sort((a, b) => b.room - a.room);
  const needed: string[] = [];
  for (const { name, room } of helpers) {
    if (room <= 0) continue;
    needed.push(name);
    missing -= room;
    if (missing <= 0) return { kind: 'with', devices: needed };
  }
  return { kind: 'no' };
}
