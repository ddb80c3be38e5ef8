/** Finds and orders conversations and their messages as the program does. Pure. */
import type { ConversationView } from '../../generated/ConversationView';
import type { MessageView } from '../../generated/MessageView';

/** Those that hold every word in one message, or in the title and the folder; pinned ones first, archived ones last. */
export function searched(
  conversations: readonly ConversationView[],
  messages: ReadonlyMap<number, readonly MessageView[]>,
  search: string,
): ConversationView[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== '');
  const holds = (text: string) => words.every((word) => text.toLowerCase().includes(word));
  const found = conversations.flatMap((one): ConversationView[] => {
    if (words.length === 0 || holds(`${one.title} ${one.folder}`)) return [{ ...one, excerpt: null }];
    const hit = (messages.get(one.id) ?? []).map(({ text }) => text).find(holds);
    if (hit === undefined) return [];
    const at = Math.max(0, hit.toLowerCase().indexOf(words[0] ?? '') - 20);
    return [{ ...one, excerpt: `…${hit.slice(at, at + 60).replace(/\s+/g, ' ')}…` }];
  });
  return found.sort((a, b) => Number(b.pinned) - Number(a.pinned) || Number(a.archived) - Number(b.archived) || b.updated - a.updated || b.id - a.id);
}

/** The name of a folder as it is kept: one line, not too long. */
export function folderName(typed: string): string {
  return [...typed.split(/\s+/).filter((word) => word !== '').join(' ')].slice(0, 60).join('').trimEnd();
}

/** Names a chat that begins with “name it”, as a model does. */
export function entitled(chat: ConversationView | undefined): Promise<string | null> {
  if (chat?.title.startsWith('name it') !== true) return Promise.resolve(null);
  chat.title = 'A better name';
  return Promise.resolve(chat.title);
}

/** The messages from a beginning to `end`; none where nobody has that message. */
export function branchOf(messages: ReadonlyMap<number, readonly MessageView[]>, end: number): MessageView[] {
  const all = [...messages.values()].find((kept) => kept.some(({ id }) => id === end)) ?? [];
  const branch: MessageView[] = [];
  for (let at = all.find(({ id }) => id === end); at !== undefined; at = all.find(({ id }) => id === branch[0]?.parent)) branch.unshift(at);
  return branch;
}
