/**
 * What the house says of itself, in the language in use. Pure.
 *
 * Each fact comes with an English sentence, which the command line shows. The window words the fact
 * itself. A kind that is not in its types, from a program of another version, yields nothing at run time;
 * then the sentence stands.
 */
import type { Condition } from '../generated/Condition';
import type { DeviceTrouble } from '../generated/DeviceTrouble';
import type { Finding } from '../generated/Finding';
import type { GpuUseView } from '../generated/GpuUseView';
import type { MeView } from '../generated/MeView';
import type { KeyPlace } from '../generated/KeyPlace';
import type { Trouble } from '../generated/Trouble';
import type { TroubleView } from '../generated/TroubleView';
import type { WhyLeftOut } from '../generated/WhyLeftOut';
import { bytes, milliseconds, seconds, speed, whole } from '../kit/words';
import { t } from './index';
import { ended, why } from './reasons';

/** Shorter times are said in milliseconds. */
const SECONDS_FROM_MS = 100;

/** What is not well, and what to do. */
export function troubleText({ sentence, trouble }: TroubleView): string {
  return (trouble && troubleWords(trouble)) ?? sentence;
}

/** What a check found. */
export function findingText({ sentence, condition }: Finding): string {
  return (condition && conditionWords(condition)) ?? sentence;
}

/** Where the secret key of this device is. */
export function keyText({ key_kept_in: sentence, key_place: place }: MeView): string {
  return (place && keyWords(place)) ?? sentence;
}

/** What the catalogue says of a trouble. */
export function troubleWords(trouble: Trouble): string {
  const says = t.house.troubles;
  switch (trouble.kind) {
    case 'model_switched_off':
      return says.model_switched_off(trouble.model, whole(trouble.ends), whole(trouble.minutes), trouble.reason);
    case 'model_file_gone': return says.model_file_gone(trouble.model, trouble.file);
    case 'models_folder_away': return says.models_folder_away(trouble.folder, trouble.models);
    case 'model_file_changed': return says.model_file_changed(trouble.model, trouble.file);
    case 'model_file_being_read': return says.model_file_being_read(trouble.model, trouble.file);
    case 'model_unreadable': return says.model_unreadable(trouble.model, ended(why(trouble.reason)));
    case 'settings_broken':
      return says.settings_broken(trouble.file, whole(trouble.line), whole(trouble.column), ended(trouble.reason));
    case 'setting_unfit': return says.setting_unfit(trouble.setting, trouble.value, ended(trouble.reason));
    case 'settings_unusable': return says.settings_unusable(ended(why(trouble.reason)));
    case 'devices_not_saved': return says.devices_not_saved(ended(why(trouble.reason)));
    case 'download_server': return says.download_server(ended(trouble.reason));
    case 'port_taken': return says.port_taken(trouble.address, why(trouble.reason));
    case 'port_shared': return says.port_shared(trouble.address);
    case 'port_not_local': return says.port_not_local(trouble.address);
    case 'discovery_unheard': return says.discovery_unheard;
    case 'discovery_refused': return says.discovery_refused(ended(why(trouble.reason)));
    case 'copy_seen': return says.copy_seen;
    case 'part_ended': return says.part_ended(trouble.part);
    case 'device': return deviceWords(trouble.device, trouble.trouble);
  }
}

function deviceWords(device: string, trouble: DeviceTrouble): string {
  const says = t.house.deviceTroubles;
  switch (trouble.kind) {
    case 'twice': return says.twice(device, trouble.kept, trouble.refused);
    case 'forgot': return says.forgot(device);
    case 'other_version': return says.other_version(device);
    case 'outdated': return says.outdated(device, trouble.update, trouble.theirs, trouble.ours);
    case 'suspect': return says.suspect(device, wrongWords(trouble));
    case 'computes_otherwise': return says.computes_otherwise(device, trouble.model);
    case 'left_out': return says.left_out(device, trouble.minutes);
  }
}

function wrongWords({ wrong, reason }: Extract<DeviceTrouble, { kind: 'suspect' }>): string {
  const { wrong: says, wrongMore } = t.house;
  if (wrong === 'unreadable') return wrongMore(says.unreadable, reason);
  return says[wrong] ?? reason;
}

function conditionWords(condition: Condition): string {
  const says = t.house.found;
  switch (condition.kind) {
    case 'identity':
      return says.identity(condition.name, condition.short_id, keyWords(condition.key));
    case 'listening': return says.listening(String(condition.port), condition.connected);
    case 'discovery_works': return says.discovery_works(condition.seen);
    case 'discovery_uncertain': return says.discovery_uncertain;
    case 'discovery_absent': return says.discovery_absent;
    case 'port_open': return says.port_open(condition.base_url);
    case 'port_closed': return says.port_closed;
    case 'device_away': return says.device_away(condition.device);
    case 'device_connected': {
      const { device, round_trip_ms: ms, may_compute: mayCompute, may_use: mayUse } = condition;
      const roundTrip = ms === null ? t.house.notMeasured : t.devices.rtt(milliseconds(ms));
      return says.device_connected(device, roundTrip, mayCompute, mayUse);
    }
    case 'cable_unused': return says.cable_unused(condition.device, condition.address);
    case 'models': return says.models(condition.count);
    case 'disk_room': return says.disk_room(bytes(condition.free_bytes));
    case 'computes': return says.computes(condition.backend, condition.now.join(', '));
    case 'gpu': {
      const { number, name, api, driver, memory_bytes: memory } = condition;
      const facts = [api, driver, ...(memory === null ? [] : [bytes(memory)])].join(', ');
      const gpu = says.gpu(`gpu:${number} ${name} (${facts})`, gpuUse(condition.used));
      const held = condition.holds;
      if (held === null) return gpu;
      const { layers, of_layers: of, bytes: all, lent_bytes: lent } = held;
      return `${gpu} ${t.house.gpuHolds(layers, of, bytes(all - lent), bytes(lent))}`;
    }
    case 'cards_unused': return says.cards_unused(condition.cards.join(', '));
    case 'trouble': return troubleWords(condition.trouble);
  }
}

/** Why a graphics card is used, or why not. */
function gpuUse(used: GpuUseView): string {
  const says = t.house.gpuUse;
  switch (used.kind) {
    case 'chosen': return says.chosen;
    case 'not_chosen': return says.not_chosen;
    case 'software': return says.software;
    case 'unmeasured': return says.unmeasured;
    case 'measured': return says.measured(used.is_used, speed(used.cpu), speed(used.gpu));
    case 'on_battery': return says.on_battery;
    case 'used_by_others': return says.used_by_others;
    case 'resting': return says.resting(used.minutes, used.reason);
    case 'unfit': return says.unfit(used.reason);
  }
}

function keyWords(place: KeyPlace): string {
  switch (place.kind) {
    case 'keychain': return t.house.keyPlaces.keychain;
    case 'file': return t.house.keyPlaces.file(place.path);
  }
}

/** Why a reply did without a device. */
export function leftOutWords(why: WhyLeftOut): string {
  const says = t.house.leftOut;
  switch (why.kind) {
    case 'full': return says.full(bytes(why.needs_bytes), bytes(why.free_bytes));
    case 'too_slow': return says.too_slow(time(why.slower_ms));
    case 'hop_costs_more_than_it_saves': return says.hop_costs_more_than_it_saves(time(why.hop_ms), time(why.saves_ms));
    case 'loading_takes_too_long': return says.loading_takes_too_long(time(why.load_ms), time(why.saves_ms));
    case 'gain_is_too_small': return says.gain_is_too_small(time(why.saves_ms));
    default: return says[why.kind];
  }
}

function time(ms: number): string {
  return ms < SECONDS_FROM_MS ? `${milliseconds(ms)} ms` : `${seconds(ms)} s`;
}
