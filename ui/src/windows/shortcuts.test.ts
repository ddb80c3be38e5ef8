/** Promises of the window's keys. */
import { expect, it } from 'vitest';
import { actionOf } from './shortcuts';

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
