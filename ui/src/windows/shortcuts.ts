/** The window's keys, in one list: what they do and what the cheat sheet says of them. Pure. */
import { t } from '../strings';

export type Action = 'new-chat' | 'search' | 'find' | 'print' | 'prompt' | 'marks' | 'undo' | 'stop' | 'help' | 'quit';

interface Shortcut {
  action: Action;
  /** `KeyboardEvent.key`. */
  key: string;
  /** With Ctrl, or ⌘ on a Mac. */
  modified: boolean;
}

const SHORTCUTS: readonly Shortcut[] = [
  { action: 'new-chat', key: 'n', modified: true },
  { action: 'search', key: 'k', modified: true },
  { action: 'find', key: 'f', modified: true },
  { action: 'print', key: 'p', modified: true },
  { action: 'prompt', key: 'l', modified: true },
  { action: 'marks', key: 'd', modified: true },
  { action: 'undo', key: 'z', modified: true },
  { action: 'stop', key: 'Escape', modified: false },
  { action: 'quit', key: 'q', modified: true },
  { action: 'help', key: '/', modified: true },
];

/** What is not meant where Shift is held, too. */
const PLAIN: readonly Action[] = ['undo', 'find', 'print'];

/** What the cheat sheet shows: a meaning and the keys to press together. */
export interface SheetRow {
  meaning: string;
  keys: string[];
}

/** The rows of the cheat sheet, in the language in use; the field's own keys first. */
export function sheetRows(mac: boolean): SheetRow[] {
  const meanings: Record<Action, string> = {
    'new-chat': t.keys.newChat,
    search: t.keys.search,
    find: t.keys.find,
    print: t.keys.print,
    prompt: t.keys.prompt,
    marks: t.keys.marks,
    undo: t.keys.undo,
    stop: t.keys.stop,
    quit: t.keys.quit,
    help: t.keys.help,
  };
  return [
    { meaning: t.keys.send, keys: [t.keys.enter] },
    { meaning: t.keys.newLine, keys: [t.keys.shift, t.keys.enter] },
    { meaning: t.keys.editLast, keys: [t.keys.up] },
    ...SHORTCUTS.map((shortcut) => ({ meaning: meanings[shortcut.action], keys: printed(shortcut, mac) })),
  ];
}

/** The keys of an action, as they are printed on them. */
export function keysOf(action: Action, mac: boolean): string[] {
  return SHORTCUTS.filter((shortcut) => shortcut.action === action).flatMap((shortcut) => printed(shortcut, mac));
}

function printed({ key, modified }: Shortcut, mac: boolean): string[] {
  const name = key === 'Escape' ? t.keys.escape : key.toUpperCase();
  return modified ? [mac ? t.keys.command : t.keys.ctrl, name] : [name];
}

type Key = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey' | 'isComposing'>;

/** What a key asks for, if anything. */
export function actionOf(event: Key, mac: boolean): Action | null {
  if (event.altKey || event.isComposing) return null;
  const modified = mac ? event.metaKey : event.ctrlKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const found = SHORTCUTS.find((shortcut) => shortcut.key === key && shortcut.modified === modified);
  // With Shift they mean something else: the opposite, or what the system does with them.
  const isOther = event.shiftKey && found !== undefined && PLAIN.includes(found.action);
  return found === undefined || isOther ? null : found.action;
}

/** Whether the keys of a Mac are meant. */
export function isMac(userAgent: string): boolean {
  return userAgent.includes('Macintosh');
}
