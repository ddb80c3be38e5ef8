/**
 * Why a system refused something, in the language in use. Pure.
 *
 * The usual reasons have words of their own; what the system or a library said stands behind them.
 */
import type { Reason } from '../generated/Reason';
import type { SystemReason } from '../generated/SystemReason';
import { t } from './index';

/** As the end of a sentence, without its full stop. */
export function why({ means, said }: Reason): string {
  const usual: Partial<Record<SystemReason, string>> = t.house.reasons;
  const words = means === null ? undefined : usual[means];
  return words === undefined ? said : t.house.reasonSaid(words, said);
}

/** What a library says, as the end of a sentence. */
export function ended(reason: string): string {
  return /[.?!]$/.test(reason) ? reason : `${reason}.`;
}
