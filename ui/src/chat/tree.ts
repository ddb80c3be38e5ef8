/** A conversation is a tree of messages; people see one branch of it. Pure. */
import type { MessageView } from '../generated/MessageView';

export interface Step {
  message: MessageView;
  /** Ids of the messages that follow the same parent, this one included, oldest first. */
  siblings: number[];
  /** Which of them this one is, from 0. */
  index: number;
}

/** What follows which message; `null` stands for the start. */
export type Choices = ReadonlyMap<number | null, number>;

/** The branch to show: at each fork the chosen message, else the one that leads to the newest. */
export function branch(messages: readonly MessageView[], choices: Choices): Step[] {
  const children = new Map<number | null, MessageView[]>();
  for (const message of messages) {
    const group = children.get(message.parent);
    if (group === undefined) children.set(message.parent, [message]);
    else group.push(message);
  }
  const newest = newestBelow(messages);
  const steps: Step[] = [];
  const seen = new Set<number | null>();
  let parent: number | null = null;
  // A message that is its own ancestor cannot come from the house; if it did, the walk still ends.
  while (!seen.has(parent)) {
    seen.add(parent);
    const group: MessageView[] = children.get(parent) ?? [];
    const wanted = choices.get(parent);
    const message: MessageView | undefined =
      group.find((m) => m.id === wanted) ?? maxBy(group, (m) => newest.get(m.id) ?? m.id);
    if (message === undefined) break;
    const siblings = group.map((m) => m.id);
    steps.push({ message, siblings, index: siblings.indexOf(message.id) });
    parent = message.id;
  }
  return steps;
}

/** For each message the highest id at or below it. Parents come before children. */
function newestBelow(messages: readonly MessageView[]): Map<number, number> {
  const newest = new Map<number, number>();
  for (const { id, parent } of [...messages].reverse()) {
    const own = Math.max(id, newest.get(id) ?? id);
    newest.set(id, own);
    if (parent !== null) newest.set(parent, Math.max(own, newest.get(parent) ?? own));
  }
  return newest;
}

function maxBy<T>(items: readonly T[], rank: (item: T) => number): T | undefined {
  let best: T | undefined;
  for (const item of items) {
    if (best === undefined || rank(item) >= rank(best)) best = item;
  }
  return best;
}
