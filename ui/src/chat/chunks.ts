/**
 * The branch of a conversation cut into chunks of a few messages, of which only those near the view are mounted.
 *
 * A thousand messages mounted at once took 3 s of processor to open, 390 MB, and a layout of all of them with each
 * key in the message field. `content-visibility: auto` would be less code, but WebKitGTK 2.50 keeps a message
 * clipped at the height that it had when it was not the latest, and the elements would still be there.
 * A chunk that is not mounted keeps its height, so that the scroll bar means what it shows.
 */
import type { Step } from './tree';

/** Few, so that no step of scrolling has much to draw; not one, because each chunk is watched. */
export const CHUNK_MESSAGES = 4;
/** So many chunks at the end are always mounted: whoever opens a chat sees its end at once. */
export const ALWAYS_MOUNTED = 3;

/** For heights of messages that were never seen: about what a line of text takes. */
const LINE_PX = 24;
const LINE_CHARACTERS = 84;
/** What stands around the words of a message. */
const AROUND_PERSON_PX = 90;
const AROUND_REPLY_PX = 130;
/** A longer text of a message is not searched for words while it is not mounted. */
const FOUND_CHARACTERS_MAX = 20_000;

export interface Chunk {
  /** Its place from 0; the first chunk stays the first, however many come behind it. */
  key: number;
  steps: readonly Step[];
  /** Whether it is among the last ones. */
  last: boolean;
}

export function chunksOf(steps: readonly Step[]): Chunk[] {
  const count = Math.ceil(steps.length / CHUNK_MESSAGES);
  return Array.from({ length: count }, (_, key) => ({
    key,
    steps: steps.slice(key * CHUNK_MESSAGES, (key + 1) * CHUNK_MESSAGES),
    last: key >= count - ALWAYS_MOUNTED,
  }));
}

/** How tall a chunk will be, before anybody has seen it. */
export function guessedHeight({ steps }: Chunk): number {
  return steps.reduce((sum, { message }) => {
    const lines = message.text.split('\n').reduce((count, line) => count + Math.max(1, Math.ceil(line.length / LINE_CHARACTERS)), 0);
    return sum + lines * LINE_PX + (message.role === 'user' ? AROUND_PERSON_PX : AROUND_REPLY_PX);
  }, 0);
}

/** The words of a chunk, for a search in the page. */
export function wordsOf({ steps }: Chunk): string {
  return steps.map(({ message }) => message.text.slice(0, FOUND_CHARACTERS_MAX)).join('\n');
}
