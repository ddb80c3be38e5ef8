/** How the fake household takes a change of its settings. */
import type { SettingAsk } from '../../generated/SettingAsk';
import type { SettingsView } from '../../generated/SettingsView';

/** What the fake computer lends unless somebody chooses. */
export const USUAL_LENT_BYTES = 4e9;

export function changed(settings: SettingsView, { key, value }: SettingAsk): SettingsView {
  const now = { ...settings, values: { ...settings.values, [key]: value } };
  if (key === 'distributed_inference.host.max_lent_memory_mb') now.lend_memory_bytes = value === null ? USUAL_LENT_BYTES : value * 1e6;
  if (key === 'port.expose_to_lan') now.expose_to_lan = value;
  return now;
}
