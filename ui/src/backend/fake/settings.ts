/** How the fake household takes a change of its settings. */
import type { SettingAsk } from '../../generated/SettingAsk';
import type { SettingsView } from '../../generated/SettingsView';

const FIELDS = {
  lend: 'lend',
  borrow: 'borrow',
  copy: 'copy',
  give_models: 'give_models',
  lend_memory_bytes: 'lend_memory_bytes',
  lend_streams: 'lend_streams',
  pooling: 'pooling',
  whole_on_own_devices: 'whole_on_own_devices',
  local_prefix_layers: 'local_prefix_layers',
  local_suffix_layers: 'local_suffix_layers',
  spot_checks_per_thousand: 'spot_checks_per_thousand',
  pause_on_battery: 'pause_on_battery',
  pause_in_full_screen: 'pause_in_full_screen',
  pause_when_busy_percent: 'pause_when_busy_percent',
  quiet_hours: 'quiet_hours',
  notifications: 'notifications',
  safe_graphics: 'safe_graphics',
  expose_to_lan: 'expose_to_lan',
} as const satisfies Record<Exclude<SettingAsk['key'], 'language'>, keyof SettingsView>;

export function changed(settings: SettingsView, { key, value }: SettingAsk): SettingsView {
  // The language is the tray's matter; the window's view does not hold it.
  return key === 'language' ? settings : { ...settings, [FIELDS[key]]: value };
}
