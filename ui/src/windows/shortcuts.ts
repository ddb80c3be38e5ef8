/** The window's keys, in one list: what they do and what the cheat sheet says of them. Pure. */
import { t } from '../strings';

export type Action = 'new-chat' | 'search' | 'prompt' | 'marks' | 'undo' | 'stop' | 'help' | 'quit';

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
  { action: 'prompt', key: 'l', modified: true },
  { action: 'marks', key: 'd', modified: true },
  { action: 'undo', key: 'z', modified: true },
  { action: 'stop', key: 'Escape', modified: false },
  { action: 'quit', key: 'q', modified: true },
  { action: 'help', key: '/', modified: true },
];

/** What the cheat sheet shows: a meaning and the keys to press together. */
export interface SheetRow {
  meaning: string;
  keys: string[];
}

/** The rows of the cheat sheet, in the language in use; the field's own keys first. */
export function sheetRows(mac: boolean): SheetRow[] {
  const modifier = mac ? t.keys.command : t.keys.ctrl;
  const meanings: Record<Action, string> = {
    'new-chat': t.keys.newChat,
    search: t.keys.search,
    prompt: t.keys.prompt,
    marks: t.keys.marks,
    undo: t.keys.undo,
    stop: t.keys.stop,
    quit: t.keys.quit,
    help: t.keys.help,
  };
  const printed = (key: string) => (key === 'Escape' ? t.keys.escape : key.toUpperCase());
  return [
    { meaning: t.keys.send, keys: [t.keys.enter] },
    { meaning: t.keys.newLine, keys: [t.keys.shift, t.keys.enter] },
    { meaning: t.keys.editLast, keys: [t.keys.up] },
    ...SHORTCUTS.map(({ action, key, modified }) => ({
      meaning: meanings[action],
      keys: modified ? [modifier, printed(key)] : [printed(key)],
    })),
  ];
}

type Key = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey' | 'isComposing'>;

/** What a key asks for, if anything. */
export function actionOf(event: Key, mac: boolean): Action | null {
  if (event.altKey || event.isComposing) return null;
  const modified = mac ? event.metaKey : event.ctrlKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const found = SHORTCUTS.find((shortcut) => shortcut.key === key && shortcut.modified === modified);
  // With Shift it is the opposite.
  return found === undefined || (found.action === 'undo' && event.shiftKey) ? null : found.action;
}

/** Whether the keys of a Mac are meant. */
export function isMac(userAgent: string): boolean {
  return userAgent.includes('Macintosh');
}
