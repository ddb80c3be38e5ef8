/** Promises of `marks.ts`: a mark stands where it happened, never breaks a word or the Markdown around it. */
import { expect, it } from 'vitest';
import { marksIn, pieces, withMarks, withoutMarks } from './marks';

function marked(text: string, ...at: number[]): string {
  return pieces(withMarks(text, at.map((place) => ({ at: place, text: '' }))))
    .map((piece) => (typeof piece === 'number' ? `<${String(piece)}>` : piece))
    .join('');
}

it('stands after the word in which it happened', () => {
  expect(marked('one two three', 5)).toBe('one two<0> three');
  expect(marked('one two three', 3)).toBe('one<0> two three');
  expect(marked('one two', 99)).toBe('one two<0>');
});

it('stands before a list item, heading or fence that has only begun', () => {
  expect(marked('a\n2. b', 3)).toBe('a<0>\n2. b');
  expect(marked('a\n- b', 3)).toBe('a<0>\n- b');
  expect(marked('a\n## b', 4)).toBe('a<0>\n## b');
  expect(marked('a\n```js\nb', 6)).toBe('a<0>\n```js\nb');
});

it('keeps several in order, even at one place', () => {
  expect(marked('one two', 1, 1, 5)).toBe('one<0><1> two<2>');
});

it('removes what a model writes of its private characters', () => {
  expect(marked('a\uf600b c', 4)).toBe('ab c<0>');
  expect(withoutMarks('a\uf601b')).toBe('ab');
  expect(marksIn('x\uf602y\uf600')).toEqual([2, 0]);
});
