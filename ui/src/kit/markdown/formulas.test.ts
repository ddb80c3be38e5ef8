/** Promises of formulas and footnotes: found where models write them and nowhere else, and shown as MathML alone. */
import { render, screen } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import { tokensOf } from './extensions';
import { laidOut } from './formulas';
import Markdown from './Markdown.svelte';

interface Part { type: string; tex?: string; display?: boolean; tokens?: Part[]; items?: Part[] }

function formulasIn(text: string): [string | undefined, boolean | undefined][] {
  const all = (parts: Part[]): Part[] => parts.flatMap((part) => [part, ...all(part.tokens ?? []), ...all(part.items ?? [])]);
  return all(tokensOf(text) as Part[]).filter((part) => part.type === 'formula').map(({ tex, display }) => [tex, display]);
}

it.each([
  ['\\[ \\frac{3}{4} \\]', '\\frac{3}{4}', true],
  ['So:\n\n$$\na\n= b\n- c\n$$\n\nand on.', 'a\n= b\n- c', true],
  ['In a line:\n\\[ x_1 * y_1 \\]\nand on.', 'x_1 * y_1', true],
  ['half is \\(\\frac12\\) here', '\\frac12', false],
  ['with dollars $x_1 + x_2$ here', 'x_1 + x_2', false],
  ['in the middle $$a^2$$ of a line', 'a^2', true],
  ['- in a list: \\(a_b\\) and *so*', 'a_b', false],
  ['\\[ \\begin{pmatrix} a \\\\[2pt] b \\end{pmatrix} \\]', '\\begin{pmatrix} a \\\\[2pt] b \\end{pmatrix}', true],
])('finds the formula in %j', (text, tex, display) => {
  expect(formulasIn(text)).toEqual([[tex, display]]);
});

it('shows a formula in the cell of a table', () => {
  render(Markdown, { text: '| a |\n| - |\n| $x_1$ |', marks: [], complete: true, openLink: vi.fn() });
  expect(screen.getByRole('cell').textContent).toBe('x_1');
});

it.each([
  'It costs $5 and $10, or $7-$9.',
  'From US$5 to US$6.',
  'Code: `\\(x\\)` and `$x$`.',
  '```\n\\[ x \\]\n$$y$$\n```',
  'A $ alone, and $$ too.',
  'An open \\( and nothing more',
  'Two paragraphs \\[ a\n\nb \\] are no formula',
])('finds none in %j', (text) => {
  expect(formulasIn(text)).toEqual([]);
});

it('reads many signs without an end in a time that grows with their number alone', () => {
  // Were the end looked for from each of them, these would take minutes.
  for (const sign of ['\\( ', '\\[ ', '$ x', '$$ ', '\\\\[']) expect(formulasIn(sign.repeat(20_000)).length).toBeLessThan(20_000);
});

it('lays a formula out as MathML and keeps what it cannot lay out', async () => {
  const made = await laidOut('\\frac{3}{4}', true);
  expect(made).toContain('<mfrac>');
  expect(made).not.toMatch(/style=|href=|<img|<script/);
  for (const hostile of ['\\href{javascript:alert(1)}{x}', '\\def\\a{\\a\\a}\\a', '\\includegraphics{https://x.example/p.png}', '\\undefined{']) {
    const html = await laidOut(hostile, false);
    const made = document.createElement('div');
    made.innerHTML = html ?? '';
    expect(made.querySelector('[href], [src], [style], a, img')).toBeNull();
  }
  expect(await laidOut('\\frac{', false)).toBeNull();
});

it('shows a formula as it was written until it is laid out, without a backslash lost', async () => {
  render(Markdown, { text: 'Look: \\[ \\frac{3}{4} \\]', marks: [], complete: true, openLink: vi.fn() });
  expect(screen.getByTestId('formula').textContent).toBe('\\frac{3}{4}');
  await vi.waitFor(() => { expect(screen.getByTestId('formula').querySelector('mfrac')).not.toBeNull(); });
});
