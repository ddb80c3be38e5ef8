/** The window's keys, in one list: what they do and what the cheat sheet says of them. Pure. */
import { t } from '../strings';

export type Action = 'new-chat' | 'search' | 'prompt' | 'stop' | 'help' | 'quit';

interface Shortcut {
  action: Action;
  /** `KeyboardEvent.key`. */
  key: string;
  /** With Ctrl, or ⌘ on a Mac. */
  modified: boolean;
  meaning: string;
  /** How the key is printed. */
  label: string;
}

export const SHORTCUTS: readonly Shortcut[] = [
  { action: 'new-chat', key: 'n', modified: true, meaning: t.keys.newChat, label: 'N' },
  { action: 'search', key: 'k', modified: true, meaning: t.keys.search, label: 'K' },
  { action: 'prompt', key: 'l', modified: true, meaning: t.keys.prompt, label: 'L' },
  { action: 'stop', key: 'Escape', modified: false, meaning: t.keys.stop, label: t.keys.escape },
  { action: 'quit', key: 'q', modified: true, meaning: t.keys.quit, label: 'Q' },
  { action: 'help', key: '/', modified: true, meaning: t.keys.help, label: '/' },
];

type Key = Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'isComposing'>;

/** What a key asks for, if anything. */
export function actionOf(event: Key, mac: boolean): Action | null {
  if (event.altKey || event.isComposing) return null;
  const modified = mac ? event.metaKey : event.ctrlKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const found = SHORTCUTS.find((shortcut) => shortcut.key === key && shortcut.modified === modified);
  return found?.action ?? null;
}

/** Whether the keys of a Mac are meant. */
export function isMac(userAgent: string): boolean {
  return userAgent.includes('Macintosh');
}
