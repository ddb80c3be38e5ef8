/** Promises of a reply as plain words. That the page has the same ones, `chat/finding.test.ts` proves. */
import { Lexer, type Tokens } from 'marked';
import { expect, it } from 'vitest';
import { plain, tabSeparated } from './plain';
import { tokensOf } from './extensions';

it('has the words without the signs, and no words over the end of a block', () => {
  expect(plain('# One\n\n- **two** *three*\n- `four`\n\n```js\nfive\n```')).toBe('One\0two three\0four\0five');
  expect(plain('a $x$ b')).toBe('a \0 b');
});

it('makes lines with tabs of a table', () => {
  const [table] = tokensOf('| Name | **Sum** |\n| - | - |\n| a \\| b | $x^2$ |\n| `c`\td<br>e | [f](https://example.org) &amp; \uf600g |');
  expect(tabSeparated(table as Tokens.Table)).toBe('Name\tSum\na | b\tx^2\nc d e\tf & g');
  const [empty] = Lexer.lex('| a | b |\n| - | - |\n| | x |');
  expect(tabSeparated(empty as Tokens.Table)).toBe('a\tb\n\tx');
});
