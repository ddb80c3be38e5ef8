/** A refusal as the program gives it. */
import type { Wording } from '../../generated/Wording';
import { Refusal } from '../backend';

export function refuse(code: string, sentence: string, wording: Wording | null = null): Promise<never> {
  return Promise.reject(new Refusal({ code, sentence, wording }));
}
