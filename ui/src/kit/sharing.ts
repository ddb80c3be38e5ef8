/** One line on how sharing stands, for the pages, in the language in use and the tray's words. Pure. */
import type { DeviceView } from '../generated/DeviceView';
import type { SharingView } from '../generated/SharingView';
import { t } from '../strings';
import { clockTime } from './words';

interface House {
  sharing: SharingView;
  devices: readonly Pick<DeviceView, 'connected'>[];
}

export function sharingLine({ sharing, devices }: House): string {
  if (!sharing.on) return t.share.off;
  const connected = devices.filter((device) => device.connected).length;
  const { paused } = sharing;
  const doing = sharing.streams > 0 ? t.share.helping(sharing.streams)
    : paused ? t.share.pausedBecause[paused.reason](paused.until === null ? '' : clockTime(paused.until))
      : sharing.answering ? t.share.answering : t.share.idle;
  return [t.share.on, t.share.devices(connected), doing].join(' · ');
}
