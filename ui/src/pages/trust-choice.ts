/** The levels of trust from which something can be allowed, least first. Pure. */
import type { Trust } from '../generated/Trust';
import { t } from '../strings';

export type LeastTrust = Extract<Trust, 'guest' | 'trusted' | 'own'>;

export function leastTrusts(): { value: LeastTrust; name: string }[] {
  return (['guest', 'trusted', 'own'] as const).map((value) => ({ value, name: t.trustAtLeast[value] }));
}

/** What the settings say; they take none but these three. */
export function leastTrust(trust: Trust): LeastTrust {
  return trust === 'guest' || trust === 'own' ? trust : 'trusted';
}
