/** One line on how sharing stands, in the language in use. The tray shows the house's own. Pure. */
import type { DeviceView } from '../generated/DeviceView';
import type { SharingView } from '../generated/SharingView';
import { t } from '../strings';

interface House {
  sharing: SharingView;
  devices: readonly Pick<DeviceView, 'connected'>[];
}

export function sharingLine({ sharing, devices }: House): string {
  if (!sharing.on) return t.share.off;
  const connected = devices.filter((device) => device.connected).length;
  const doing = sharing.streams > 0 ? t.share.helping(sharing.streams)
    : sharing.state === 'paused' ? t.share.paused
      : sharing.state === 'busy' ? t.share.answering : t.share.idle;
  return [t.share.on, t.share.devices(connected), doing].join(' · ');
}
