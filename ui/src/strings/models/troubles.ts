/** Why a download does not go on and models do not move, in the language in use. Pure. */
import type { DownloadTrouble } from '../../generated/DownloadTrouble';
import type { FolderTrouble } from '../../generated/FolderTrouble';
import { bytes, whole } from '../../kit/words';
import { t } from '../index';
import { ended, why } from '../reasons';

export function folderTrouble(trouble: FolderTrouble): string {
  const says = t.models.folderTroubles;
  switch (trouble.why) {
    case 'under_way': return says.underWay;
    case 'not_there': return says.notThere(trouble.folder);
    case 'not_a_folder': return says.notAFolder(trouble.folder);
    case 'already_there': return says.alreadyThere(trouble.folder);
    case 'inside': return says.inside(trouble.folder);
    case 'of_another': return says.ofAnother(trouble.folder);
    case 'in_the_way': return says.inTheWay(trouble.file);
    case 'no_room': return says.noRoom(bytes(trouble.needed), bytes(trouble.free));
    case 'changed': return says.changed(trouble.file);
    case 'refused': return says.refused(trouble.file, ended(why(trouble.reason)));
    case 'stopped': return says.stopped;
  }
}

export function downloadTrouble(trouble: DownloadTrouble): string {
  const says = t.models.troubles;
  switch (trouble.why) {
    case 'retrying': return says.retrying(why(trouble.last));
    case 'gave_up': return says.gaveUp(trouble.host, whole(trouble.tries), why(trouble.last));
    case 'busy': return says.busy(trouble.file);
    case 'not_there': return says.notThere(trouble.host);
    case 'no_answer': return says.noAnswer(trouble.host, why(trouble.reason));
    case 'no_repository': return says.noRepository(trouble.host);
    case 'no_list': return says.noList(trouble.host);
    case 'not_joined': return says.notJoined(trouble.reason);
    case 'not_for_all': return says.notForAll(trouble.host);
    case 'unexpected': return says.unexpected(trouble.host, String(trouble.status));
    case 'redirected': return says.redirected(trouble.host, trouble.reason);
    case 'untrusted': return says.untrusted(trouble.host, why(trouble.reason));
    case 'no_certificates': return says.noCertificates(trouble.reason);
    case 'too_large': return says.tooLarge(bytes(trouble.bytes));
    case 'too_long': return says.tooLong(trouble.host, bytes(trouble.bytes));
    case 'not_the_one': return says.notTheOne(trouble.host);
    case 'not_gguf': return says.notGguf(trouble.host);
    case 'damaged': return says.damaged;
    case 'no_model': return trouble.deleted ? says.noModelDeleted(trouble.reason) : says.noModel(trouble.reason);
    case 'wrong_copy': return trouble.device === null ? says.wrongCopies : says.wrongCopy(trouble.device);
    case 'nobody_has_it': return says.nobodyHasIt;
    case 'no_room': return says.noRoom(bytes(trouble.needed), bytes(trouble.free));
    case 'disk_full': return says.diskFull;
    case 'not_written': return says.notWritten(trouble.file, why(trouble.reason));
    case 'interrupted': return says.interrupted;
    case 'ended': return says.ended(why(trouble.reason));
  }
}
