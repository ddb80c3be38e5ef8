/** Why a download does not go on, in the language in use. Pure. */
import type { DownloadTrouble } from '../../generated/DownloadTrouble';
import { bytes, whole } from '../../kit/words';
import { t } from '../index';

export function downloadTrouble(trouble: DownloadTrouble): string {
  const says = t.models.troubles;
  switch (trouble.why) {
    case 'retrying': return says.retrying(trouble.last);
    case 'gave_up': return says.gaveUp(trouble.host, whole(trouble.tries), trouble.last);
    case 'busy': return says.busy(trouble.file);
    case 'not_there': return says.notThere(trouble.host);
    case 'not_for_all': return says.notForAll(trouble.host);
    case 'unexpected': return says.unexpected(trouble.host, String(trouble.status));
    case 'redirected': return says.redirected(trouble.host, trouble.reason);
    case 'untrusted': return says.untrusted(trouble.host, trouble.reason);
    case 'no_certificates': return says.noCertificates(trouble.reason);
    case 'too_large': return says.tooLarge(bytes(trouble.bytes));
    case 'too_long': return says.tooLong(trouble.host, bytes(trouble.bytes));
    case 'not_the_one': return says.notTheOne(trouble.host);
    case 'not_gguf': return says.notGguf(trouble.host);
    case 'damaged': return says.damaged;
    case 'no_model': return trouble.deleted ? says.noModelDeleted(trouble.reason) : says.noModel(trouble.reason);
    case 'no_room': return says.noRoom(bytes(trouble.needed), bytes(trouble.free));
    case 'disk_full': return says.diskFull;
    case 'not_written': return says.notWritten(trouble.file, trouble.reason);
    case 'interrupted': return says.interrupted;
    case 'ended': return says.ended(trouble.reason);
  }
}
