/** What another computer asked of this one, in words. Pure. */
import type { AuditEntryView } from '../generated/AuditEntryView';
import { bytes, listOf, seconds, whole } from '../kit/words';
import { t } from '../strings';

export function whoAsked({ device_id, device, from }: AuditEntryView): string {
  if (device_id !== null) return device ?? device_id;
  const who = from === null ? t.asked.fromMany : t.asked.from(from);
  return device === null ? who : t.asked.claims(who, device);
}

export function whatWasAsked(entry: AuditEntryView): string {
  const model = entry.model ?? t.asked.aModel;
  return t.asked.what[entry.asked](entry.layers === null ? model : t.asked.layers(entry.layers[0], entry.layers[1], model));
}

export function whatCameOfIt(entry: AuditEntryView): string {
  const { outcome, tokens, times } = entry;
  const amounts = [...(tokens > 0 ? [t.asked.tokens(whole(tokens))] : []), ...(entry.bytes > 0 ? [bytes(entry.bytes)] : [])];
  const amount = amounts.length === 0 ? t.asked.nothing : listOf(amounts);
  const took = seconds(entry.milliseconds);
  switch (outcome.kind) {
    case 'under_way': return t.asked.underWay(amount, took);
    case 'served':
      if (entry.asked === 'relay') return t.asked.taken;
      return entry.asked === 'hold' ? t.asked.held(amount, took) : t.asked.served(amount, took);
    case 'cut': return t.asked.cut(amount, took, t.asked.why[outcome.why]);
    case 'unknown': return t.asked.unknown(amount, took);
    case 'refused': return times > 1 ? t.asked.refusedOften(whole(times), t.asked.why[outcome.why]) : t.asked.refused(t.asked.why[outcome.why]);
  }
}
