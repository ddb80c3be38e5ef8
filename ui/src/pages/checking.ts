/** How often something is computed twice, as a choice: pieces of a thousand. Pure. */
import { t } from '../strings';

export const CHECKS = { off: 0, sometimes: 20, often: 200 } as const;
/** `own` is a number that no page offers. */
export type CheckLevel = keyof typeof CHECKS | 'own';

const LEVELS = ['off', 'sometimes', 'often'] as const;

export function checkLevel(perThousand: number): CheckLevel {
  return LEVELS.find((level) => CHECKS[level] === perThousand) ?? 'own';
}

export function checkChoices(perThousand: number): { value: CheckLevel; name: string }[] {
  const offered = LEVELS.map((value): { value: CheckLevel; name: string } => ({ value, name: t.privacy.checkLevels[value] }));
  return checkLevel(perThousand) === 'own' ? [...offered, { value: 'own', name: t.privacy.checksOwn(perThousand) }] : offered;
}
