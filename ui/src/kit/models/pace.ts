/** How long models take to come: from the internet as fast as a download of this session was, from another computer as
 *  fast as the link to it was measured. Unknown where neither was seen. */
import type { DeviceView } from '../../generated/DeviceView';
import type { DownloadView } from '../../generated/DownloadView';

/** Bytes per second that all downloads from the internet reach together; null while none says. */
export function paceOf(downloads: readonly DownloadView[]): number | null {
  const rates = downloads.flatMap(({ copied, state, bytes_per_second }) => (copied || state !== 'loading' ? [] : (bytes_per_second ?? [])));
  const all = rates.reduce((sum, rate) => sum + rate, 0);
  return all > 0 ? all : null;
}

/** Bytes per second from the computer of this name; null where it is away or its link was not measured. */
export function linkPace(devices: readonly DeviceView[], name: string | undefined): number | null {
  const rate = devices.find((device) => device.connected && device.name === name)?.way?.bytes_per_second ?? null;
  return rate !== null && rate > 0 ? rate : null;
}
