/** One line on how sharing stands, in the language in use. The tray shows the house's own. Pure. */
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
      : sharing.state === 'busy' ? t.share.answering : t.share.idle;
  return [t.share.on, t.share.devices(connected), doing].join(' · ');
}
