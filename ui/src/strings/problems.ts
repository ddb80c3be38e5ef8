/**
 * What the program says in English, in the language in use. Pure.
 *
 * A refusal comes with its code, an English sentence, and a wording where the catalogues have words of
 * their own. Where they have not, the code says what kind of thing it is, and the sentence follows.
 */
import type { DeviceView } from '../generated/DeviceView';
import type { ErrorCode } from '../generated/ErrorCode';
import type { MessageView } from '../generated/MessageView';
import type { Problem } from '../generated/Problem';
import type { Wording } from '../generated/Wording';
import { bytes } from '../kit/words';
import { locale, t } from './index';
import { downloadTrouble, folderTrouble } from './models/troubles';
import { ended, why } from './reasons';
import { leftOutWords, troubleWords } from './troubles';

/** What was refused, for a person. */
export function refusal({ code, sentence, wording }: Pick<Problem, 'code' | 'sentence'> & Partial<Problem>): string {
  return (wording ? worded(wording, code) : null) ?? exactly(byCode(code), sentence);
}

/** Why a reply was cut. */
export function cutText(code: string, sentence: string, wording: Wording | null = null): string {
  if (code === 'cancelled') return t.chat.stopped;
  const words = wording === null || wording.kind === 'code' ? null : worded(wording, code);
  if (words !== null) return words;
  return isEnglish() ? sentence : (byCode(code) ?? sentence);
}

/** Why a kept reply was cut; null when it was not. */
export function keptCut({ finish, cut_because: cut, cut_code: code }: MessageView): string | null {
  if (cut === null) return null;
  if (finish === 'stopped') return t.chat.stopped;
  if (finish === 'interrupted') return t.chat.closed;
  return code === null ? cut : cutText(code, cut);
}

/** Why a device is not used; empty when it is. */
export function unusedText({ unused, unused_because: sentence, left_out: why, fetched_percent: percent }: DeviceView): string {
  if (unused === null) return sentence ?? '';
  if (unused === 'fetching' && percent !== null) return t.house.fetched(figure(percent));
  const general = t.house.unused[unused];
  if (unused === 'left_out') {
    const words = why && leftOutWords(why);
    return words ? `${general} ${words}` : exactly(general, sentence ?? '');
  }
  return isEnglish() ? exactly(general, sentence ?? '') : general;
}

function worded(wording: Wording, code: string): string | null {
  const says = t.problems;
  const more = t.house.refusals;
  switch (wording.kind) {
    case 'code': return byCode(code);
    case 'prompt_too_long': {
      const tokens = figure(wording.tokens);
      return says.promptTooLong(wording.at_least ? says.atLeast(tokens) : tokens, wording.model, figure(wording.window));
    }
    case 'all_busy': return says.allBusy(figure(wording.running), figure(wording.waiting));
    case 'no_room': return cannotAlone(t.house.noRoom.needs(wording.model, bytes(wording.needs_bytes), bytes(wording.free_bytes)), wording);
    case 'only_ends': return cannotAlone(t.house.noRoom.onlyEnds(wording.model), wording);
    case 'ends_on_their_way': return t.house.noRoom.endsOnTheirWay(wording.model);
    case 'device_gone': return t.house.noRoom.deviceGone(wording.device);
    case 'leaving': return says.leaving;
    case 'stopped': return says.stopped;
    case 'nobody_there': return says.nobodyThere;
    case 'no_code_shown': return says.noCodeShown;
    case 'wrong_code': return says.wrongCode;
    case 'pairing_lost': return says.pairingLost;
    case 'no_address': return more.noAddress(wording.typed);
    case 'name_not_found': return more.nameNotFound(wording.typed);
    case 'two_models': return says.twoModels(wording.one, wording.other);
    case 'no_such_device': return says.noSuchDevice(wording.name);
    case 'may_not_wake': return more.mayNotWake(wording.device);
    case 'wake_other_network': return more.wakeOtherNetwork(wording.device);
    case 'wake_refused': return more.wakeRefused(wording.device, ended(why(wording.reason)));
    case 'not_woken': return more.notWoken(wording.device);
    case 'download': return downloadTrouble(wording.trouble);
    case 'models_folder': return folderTrouble(wording.trouble);
    case 'path_no_text': return says.pathNoText(wording.path);
    case 'https_only': return says.httpsOnly;
    case 'whole_path': return says.wholePath;
    case 'not_six_digits': return more.notSixDigits;
    case 'same_device': return more.sameDevice;
    case 'not_kept_here': return more.notKeptHere;
    case 'not_kept_there': return more.notKeptThere;
    case 'pairing_odd': return more.pairingOdd;
    case 'no_pairing_port': return more.noPairingPort;
    case 'not_started': return more.notStarted(ended(why(wording.reason)));
    case 'already_runs': return more.alreadyRuns(wording.folder);
    case 'no_file': return more.noFile(wording.file);
    case 'file_changes': return more.fileChanges(wording.file);
    case 'no_model': return more.noModel(wording.file, ended(wording.reason));
    case 'name_taken': return more.nameTaken(wording.name);
    case 'model_unusable': return more.modelUnusable(wording.model);
    case 'no_search': return more.noSearch;
    case 'no_chat': return more.noChat;
    case 'chat_too_large': return more.chatTooLarge;
    case 'chat_of_later_version': return more.chatOfLaterVersion;
    case 'chat_gone': return more.chatGone;
    case 'message_gone': return more.messageGone;
    case 'folder_gone': return more.folderGone;
    case 'chats_unusable': return more.chatsUnusable(ended(why(wording.reason)));
    case 'disk_full': return more.diskFull;
    case 'login_start': return more.loginStart(ended(why(wording.reason)));
    case 'no_browser': return more.noBrowser(ended(why(wording.reason)));
    case 'not_saved': return more.notSaved(ended(why(wording.reason)));
    case 'port_silent': return more.portSilent;
    case 'port_foreign': return more.portForeign;
    case 'trouble': return troubleWords(wording.trouble);
  }
}

/** What this computer lacks, and what to do about it, device by device. */
function cannotAlone(lack: string, { others, only_here: onlyHere }: Extract<Wording, { kind: 'no_room' | 'only_ends' }>): string {
  const says = t.house.noRoom;
  const reasons = others.map(({ device, why }) => says.why[why](device)).join('; ');
  const then = onlyHere ? says.onlyHere : reasons === '' ? says.nobody : says.divided(reasons);
  return `${lack} ${then}`;
}

function byCode(code: string): string | null {
  return Object.hasOwn(t.problems.codes, code) ? t.problems.codes[code as ErrorCode] : null;
}

/** The program's sentence says more than the catalogue, and speaks English only. */
function exactly(general: string | null, sentence: string): string {
  if (isEnglish() || general === null) return sentence;
  return sentence === '' ? general : `${general} (${sentence})`;
}

function isEnglish(): boolean {
  return locale.startsWith('en');
}

function figure(count: number): string {
  return count.toLocaleString(locale);
}
