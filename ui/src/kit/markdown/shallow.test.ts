/** Promises of `shallow`: no text nests deeper than a page can show, and what people write stays as it is. */
import { Lexer, type Token } from 'marked';
import { expect, it } from 'vitest';
import { shallow } from './shallow';

function depth(tokens: readonly Token[] | undefined): number {
  const inside = (tokens ?? []).map((token) => {
    const parts = token as { tokens?: Token[]; items?: { tokens: Token[] }[] };
    return 1 + Math.max(depth(parts.tokens), ...(parts.items ?? []).map((item) => depth(item.tokens)));
  });
  return Math.max(0, ...inside);
}

const steps = (levels: number, spaces: number) =>
  Array.from({ length: levels }, (_, level) => `${' '.repeat(spaces * level)}- word ${String(level)}`).join('\n');

it.each([
  ['quotations', '>'.repeat(20_000) + ' word'],
  ['quotations with spaces', '> '.repeat(2_000) + 'word'],
  ['lists in one line', '- '.repeat(2_000) + 'word'],
  ['numbers in one line', '1. '.repeat(2_000) + 'word'],
  ['all of them', '> - 1. '.repeat(1_000) + 'word'],
  ['a list that goes deeper line by line', steps(500, 2)],
  ['the same in fours', steps(500, 4)],
])('keeps %s shallow, and every word', (_, text) => {
  const result = shallow(text);
  expect(depth(Lexer.lex(result, { gfm: true }))).toBeLessThan(60);
  expect(result.match(/word/g)).toHaveLength(text.match(/word/g)?.length ?? 0);
});

it.each([
  'Plain words.\n\n- a\n  - b\n    - c\n\n> > quoted\n\n1. one\n   1. two',
  `\`\`\`text\n${' '.repeat(90)}far right\n${'>'.repeat(50)}\n\`\`\``,
  `- in a list:\n  ~~~\n${'> '.repeat(50)}\n  ~~~\n- on`,
])('changes nothing that people write: %j', (text) => {
  expect(shallow(text)).toBe(text);
});

it('goes on behind code that has ended', () => {
  const deep = '>'.repeat(50);
  expect(shallow(`\`\`\`\n${deep}\n\`\`\`\n${deep}`)).toBe(`\`\`\`\n${deep}\n\`\`\`\n${'>'.repeat(10)}\\${'>'.repeat(40)}`);
});
