/** Finds conversations as the program does: every word in the title or in one message, pinned ones first. Pure. */
import type { ConversationView } from '../../generated/ConversationView';
import type { MessageView } from '../../generated/MessageView';

export function searched(
  conversations: readonly ConversationView[],
  messages: ReadonlyMap<number, readonly MessageView[]>,
  search: string,
): ConversationView[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const holds = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const found = conversations.flatMap((one): ConversationView[] => {
    if (words.length === 0 || holds(one.title)) return [{ ...one, excerpt: null }];
    const hit = (messages.get(one.id) ?? []).map(({ text }) => text).find(holds);
    if (hit === undefined) return [];
    const at = Math.max(0, hit.toLowerCase().indexOf(words[0] ?? '') - 20);
    return [{ ...one, excerpt: `…${hit.slice(at, at + 60).replace(/\s+/g, ' ')}…` }];
  });
  return found.sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updated - a.updated || b.id - a.id);
}
