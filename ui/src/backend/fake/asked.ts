/** What other computers of the fake household asked of this one. */
import type { AuditEntryView } from '../../generated/AuditEntryView';
import type { HouseholdView } from '../../generated/HouseholdView';
import { DAD, MUM } from './household';

const MINUTE = 60;

/** The latest first; the seventh is the oldest. */
export function askedOf(house: HouseholdView, now: number): AuditEntryView[] {
  const of = (id: string) => ({ device_id: id, device: house.devices.find((d) => d.id === id)?.name ?? null, from: null });
  const stranger = (from: string, device: string | null) => ({ device_id: null, device, from });
  const entries: (Partial<AuditEntryView> & { minutes: number })[] = [
    { ...of(MUM), minutes: 0, outcome: { kind: 'under_way' }, tokens: 118, milliseconds: 9400 },
    { ...of(MUM), minutes: 4, tokens: 312, milliseconds: 21_700 },
    { ...of(DAD), minutes: 11, asked: 'hold', layers: [4, 9], bytes: 1.2e9, milliseconds: 640_000 },
    { ...of(DAD), minutes: 40, asked: 'copy', layers: null, bytes: 4.7e9, milliseconds: 95_000, outcome: { kind: 'cut', why: 'leaving' } },
    { ...of(DAD), minutes: 55, outcome: { kind: 'refused', why: 'busy' }, times: 3 },
    { ...stranger('192.168.1.77', null), minutes: 90, asked: 'connect', model: null, layers: null, outcome: { kind: 'refused', why: 'not_paired' }, times: 1204 },
    { ...stranger('192.168.1.20', 'Old Dell'), minutes: 3000, asked: 'connect', model: null, layers: null, outcome: { kind: 'refused', why: 'blocked' } },
  ];
  return entries.map(({ minutes, ...entry }, index) => ({
    number: entries.length - index,
    first: now - minutes * MINUTE - 60,
    last: now - minutes * MINUTE,
    device_id: null,
    device: null,
    from: null,
    asked: 'compute',
    model: 'Qwen2.5 7B',
    layers: [4, 13],
    outcome: { kind: 'served' },
    times: 1,
    tokens: 0,
    bytes: 0,
    milliseconds: 0,
    ...entry,
  }));
}
