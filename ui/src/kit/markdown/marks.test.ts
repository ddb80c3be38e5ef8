/** Promises of `marks.ts`: a mark stands where it happened, never breaks a word or the Markdown around it. */
import { marked as reader } from 'marked';
import { describe, expect, it } from 'vitest';
import type { Look, Looks } from '../route/looks';
import { drawingOf, drawn, onlyLook, type Mark, marksIn, pieces, withMarks, withoutMarks } from './marks';

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

it('finds a place in time in whatever a model writes', () => {
  for (const sign of ['*', '|', '| ', 'x', '> ', '\n', '- ']) {
    const text = `${sign.repeat(50_000)}x${sign}`;
    expect(withoutMarks(withMarks(text, [{ at: text.length - 1, text: '' }]))).toBe(text);
  }
});

describe('in scripts without spaces', () => {
  it('stands between letters, not at the end of the line', () => {
    expect(marked('漢字と仮名。終わり', 2)).toBe('漢字<0>と仮名。終わり');
  });

  it('never breaks a surrogate pair, or a letter from its vowel signs', () => {
    expect(marked('漢𠮷字', 2)).toBe('漢𠮷<0>字');
    expect(marked('ที่นี่', 1)).toBe('ที่<0>นี่');
  });
});

it('keeps pictures of several characters and letters with accents whole', () => {
  expect(marked('a 👩‍👩‍👧 b', 3)).toBe('a 👩‍👩‍👧<0> b');
  expect(marked('e\u0301te\u0301 x', 1)).toBe('e\u0301te\u0301<0> x');
});

const READ = [
  'One *two* **three four.** _five_ ~~six~~ and `seven eight`, then\nnine.  \nTen.',
  '# Head\n\nWords\n\n## Next **one**\n\nMore\n---\n\nrule\n\n---\n\nend',
  '1. one\n2. two **bold**\n   - inner\n   - [x] done\n   - [ ] to do\n\n> said *so*\n> twice\n\nend',
  'Code:\n\n```js\nlet a = 1;\n\n- b\n```\n\n- item after code\n\n~~~\nplain\n~~~\n\nend',
  '| Letter | Times |\n| :----- | ----: |\n| n **b** | 2     |\n| o      | 1     |\n\nend',
  'A | B\n--- | ---\nc | d\n\nSee [the manual](https://docs.example/a/b.html "a title") or https://x.example. Bye',
  '![a small fire](https://x.example/p.png) and 5\\* or a\\_b and mail me@x.example, ok? <b>x</b> &amp; y',
];

it.each(READ)('leaves what is read as it was, wherever the mark is: %j', (text) => {
  const read = (source: string) => withoutMarks(reader.parse(source, { gfm: true, async: false }))
    // An address is written with signs that stand for the private character.
    .replaceAll(encodeURI('\uf600'), '')
    // Where Markdown has no room for it, a mark is a paragraph of its own.
    .replaceAll('<p></p>\n', '');
  const plain = read(text);
  const different = Array.from({ length: text.length + 1 }, (_, at) => withMarks(text, [{ at, text: '' }]))
    .filter((source) => read(source) !== plain)
    .map((source) => source.replace('\uf600', '<0>'));
  expect(different).toEqual([]);
});

describe('looks', () => {
  const look = (number: number): Look => ({ number, hue: 'red', line: 'solid', names: '' });
  const [one, two] = [look(1), look(2)];
  const looks = (...changes: [number, Look][]): Looks => ({
    legend: [one, two], changes: changes.map(([at, next]) => ({ at, look: next })), partly: false,
  });
  const note = (at: number): Mark => ({ at, text: 'took over' });

  it('are not drawn unless they are wanted', () => {
    expect(drawingOf([note(3)], null)).toEqual({ first: null, marks: [note(3)] });
  });

  it('begin with the reply where that is known, and behind the note of the hand-over', () => {
    const { first, marks } = drawingOf([note(3)], looks([0, one], [3, two]));
    expect(first).toBe(one);
    expect(marks).toEqual([note(3), { at: 3, text: '', look: two }]);
    expect(drawingOf([], looks([3, two])).first).toBeNull();
  });

  it('hold until the next one, over notes and from part to part', () => {
    const drawing = drawingOf([note(1), note(8)], looks([0, one], [5, two]));
    const [a, b, c] = drawing.marks.map((_, index) => String.fromCharCode(0xf600 + index));
    const seen = (text: string, before: number) =>
      drawn(text, before, drawing).map((part) => ('words' in part ? `${part.words}${String(part.look?.number)}` : '|'));
    expect(seen(`x${String(a)}y${String(b)}z`, -1)).toEqual(['x1', '|', 'y1', '|', 'z2']);
    expect(seen('w', 0)).toEqual(['w1']);
    expect(seen(`w${String(c)}v`, 1)).toEqual(['w2', '|', 'v2']);
    expect(drawn('w', -1, drawingOf([note(1)], null))).toEqual([{ words: 'w', look: null }]);
  });

  it('are one where the same computers made all words of a block', () => {
    const drawing = drawingOf([note(2)], looks([0, one], [5, two]));
    const [a, b] = drawing.marks.map((_, index) => String.fromCharCode(0xf600 + index));
    expect(onlyLook('x', -1, drawing)).toBe(one);
    expect(onlyLook(`x${String(a)} y`, -1, drawing)).toBe(one);
    expect(onlyLook(`x ${String(b)}`, 0, drawing), 'behind the last word').toBe(one);
    expect(onlyLook(`x ${String(b)}y`, 0, drawing)).toBeNull();
    expect(onlyLook('y', 1, drawing)).toBe(two);
    expect(onlyLook(' ', 1, drawing), 'no words').toBeNull();
    expect(onlyLook('x', -1, drawingOf([], looks([5, two]))), 'nobody wrote it down').toBeNull();
  });

  it('go before notes where a reply has more marks than can be drawn', () => {
    const notes = Array.from({ length: 80 }, (_, at) => note(at));
    const { marks } = drawingOf(notes, looks([0, one], [70, two]));
    expect([marks.length, marks.at(-1)?.look]).toEqual([64, two]);
  });
});
