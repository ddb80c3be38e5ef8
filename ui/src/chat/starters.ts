/** What somebody could begin a chat with. Pure. */
import type { IconName } from '../kit/icons';
import { t } from '../strings';

export interface Starter {
  name: string;
  hint: string;
  /** What goes into the message field. */
  text: string;
  /** Ready-made instructions that go with it; empty for none. */
  instructions: string;
  icon: IconName;
  /** Whether the story teller that is built in can do it. */
  isStory: boolean;
}

/** Places among the ready-made instructions. */
const HOMEWORK = 0;
const STORIES = 3;
/** In the order of their words. */
const KINDS: readonly { icon: IconName; preset: number | null }[] = [
  { icon: 'book', preset: HOMEWORK },
  { icon: 'pencil', preset: null },
  { icon: 'pot', preset: null },
  { icon: 'moon', preset: STORIES },
];

/** In the language in use. */
export function starters(): Starter[] {
  return KINDS.flatMap(({ icon, preset }, at) => {
    const words = t.chat.starters[at];
    const instructions = preset === null ? '' : (t.presets[preset]?.text ?? '');
    return words === undefined ? [] : [{ ...words, icon, instructions, isStory: preset === STORIES }];
  });
}
