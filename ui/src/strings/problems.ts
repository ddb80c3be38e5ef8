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
import { locale, t } from './index';

/** What was refused, for a person. */
export function refusal({ code, sentence, wording }: Pick<Problem, 'code' | 'sentence'> & Partial<Problem>): string {
  return (wording ? worded(wording, code) : null) ?? exactly(byCode(code), sentence);
}

/** Why a reply was cut. */
export function cutText(code: string, sentence: string): string {
  if (code === 'cancelled') return t.chat.stopped;
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
export function unusedText({ unused, unused_because: sentence }: DeviceView): string {
  if (unused === null) return sentence ?? '';
  // Why the last reply did without a device is said in figures, and in English only.
  if (unused === 'left_out' || isEnglish()) return exactly(t.devices.unused[unused], sentence ?? '');
  return t.devices.unused[unused];
}

function worded(wording: Wording, code: string): string | null {
  const says = t.problems;
  switch (wording.kind) {
    case 'code': return byCode(code);
    case 'prompt_too_long': return says.promptTooLong(figure(wording.tokens), wording.model, figure(wording.window));
    case 'all_busy': return says.allBusy(figure(wording.running), figure(wording.waiting));
    case 'leaving': return says.leaving;
    case 'nobody_there': return says.nobodyThere;
    case 'no_code_shown': return says.noCodeShown;
    case 'wrong_code': return says.wrongCode;
    case 'pairing_lost': return says.pairingLost;
    case 'no_address': return says.noAddress(wording.typed);
    case 'no_such_device': return says.noSuchDevice(wording.name);
    case 'https_only': return says.httpsOnly;
    case 'whole_path': return says.wholePath;
  }
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
