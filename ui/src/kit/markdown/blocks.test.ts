/** Promises of `blocks.ts`: a growing text shows the same as the whole one, and old blocks stay as they are. */
import { Lexer } from 'marked';
import { expect, it } from 'vitest';
import { Blocks } from './blocks';

const TEXTS = [
  'One line.',
  'A\n\nB\n\nC',
  '1. first\n2. second\n   - inner\n\n3. third\n\nAfter.',
  '# Title\n\nText **bold\nstill** bold.\n\n```rust\nfn main() {\n\n}\n```\n\nEnd',
  '| a | b |\n| - | - |\n| 1 | 2 |\n\n> quote\n> goes on\n\n---\n\nlast',
  'Setext\n===\n\ntext\n---\nx',
  '- a\n\n2. b\n\n- c\n\n\n\n    code\n',
  'Windows\r\nline ends\r\n\r\nhere',
];

function shape(tokens: { type: string; raw: string }[]): string[] {
  return tokens.filter((t) => t.type !== 'space').map((t) => `${t.type}:${t.raw.trim()}`);
}

it.each(TEXTS)('shows a text that grew letter by letter as the whole: %j', (text) => {
  const blocks = new Blocks();
  for (let end = 0; end <= text.length; end += 1) blocks.of(text.slice(0, end), false);
  const grown = blocks.of(text, true);
  const whole = Lexer.lex(text.replace(/\r\n/g, '\n'));
  expect(shape(grown.map((block) => block.token))).toEqual(shape(whole));
  expect(grown.map((block) => block.key)).toEqual(grown.map((_, index) => index));
});

it('keeps finished blocks as they are, so that they are not drawn again', () => {
  const blocks = new Blocks();
  const before = blocks.of('one\n\ntwo\n\nthree\n\nfour', false);
  const after = blocks.of('one\n\ntwo\n\nthree\n\nfour goes on', false);
  expect(after[0]).toBe(before[0]);
  expect(after[1]).toBe(before[1]);
  expect(after.map((block) => block.finished)).toEqual([true, true, false, false]);
});

it('forgets what it knew when another text comes', () => {
  const blocks = new Blocks();
  blocks.of('one\n\ntwo\n\nthree\n\nfour', false);
  expect(blocks.of('other', false).map((block) => block.token.raw)).toEqual(['other']);
});

it('shows an unclosed fence as code', () => {
  const [block] = new Blocks().of('```py\nprint(1)', false);
  expect(block?.token.type).toBe('code');
});
