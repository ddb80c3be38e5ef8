/** Promises of the window's keys. */
import { expect, it } from 'vitest';
import { actionOf, keysOf, sheetRows } from './shortcuts';

function press(key: string, held: 'ctrl' | 'meta' | 'alt' | '' = ''): Parameters<typeof actionOf>[0] {
  return { key, ctrlKey: held === 'ctrl', metaKey: held === 'meta', altKey: held === 'alt', shiftKey: false, isComposing: false };
}

it('follows Ctrl, or the command key on a Mac', () => {
  expect(actionOf(press('n', 'ctrl'), false)).toBe('new-chat');
  expect(actionOf(press('N', 'ctrl'), false)).toBe('new-chat');
  expect(actionOf(press('n', 'meta'), true)).toBe('new-chat');
  expect(actionOf(press('n', 'ctrl'), true)).toBeNull();
  expect(actionOf(press('n'), false)).toBeNull();
  expect(actionOf(press('d', 'ctrl'), false)).toBe('marks');
});

it('leaves alone what belongs to an input method or to other keys', () => {
  expect(actionOf({ ...press('Escape'), isComposing: true }, false)).toBeNull();
  expect(actionOf(press('k', 'alt'), false)).toBeNull();
  expect(actionOf(press('Escape'), false)).toBe('stop');
});

it('leaves to the system what is pressed with Shift, too', () => {
  expect(actionOf(press('f', 'ctrl'), false)).toBe('find');
  expect(actionOf(press('p', 'meta'), true)).toBe('print');
  expect(actionOf({ ...press('P', 'ctrl'), shiftKey: true }, false)).toBeNull();
  expect(actionOf({ ...press('/', 'ctrl'), shiftKey: true }, false)).toBe('help');
});

it('says the same keys in the list and elsewhere', () => {
  expect(keysOf('find', false)).toEqual(['Ctrl', 'F']);
  expect(keysOf('print', true)).toEqual(['⌘', 'P']);
  expect(keysOf('stop', false)).toEqual(['Esc']);
  expect(sheetRows(false)).toContainEqual({ meaning: 'Print this chat', keys: ['Ctrl', 'P'] });
});
