/** Promises of the Markdown view: nothing of a reply becomes HTML, a picture or a link that opens by itself. */
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';
import type { Look, Looks } from '../route/looks';
import { openable } from './links';
import Markdown from './Markdown.svelte';

function show(text: string, marks: { at: number; text: string }[] = [], complete = true, looks: Looks | null = null) {
  const openLink = vi.fn<(url: string) => void>();
  const view = render(Markdown, { text, marks, looks, complete, openLink });
  return { ...view, openLink };
}

const HERE: Look = { number: 1, hue: 'var(--d0)', line: 'solid', names: 'This computer' };
const DAD: Look = { number: 2, hue: 'var(--d1)', line: 'dashed', names: 'Dad’s PC' };

function handedOver(at: number): Looks {
  return { legend: [HERE, DAD], changes: [{ at: 0, look: HERE }, { at, look: DAD }], partly: false };
}

function wordsOf(container: Element, look: Look): string {
  return [...container.querySelectorAll(`[data-look="${String(look.number)}"]`)].map((one) => one.textContent).join(' ');
}

it.each([
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  'text <b onclick="alert(1)">bold</b> <iframe src="https://x.example"></iframe>',
  '![tracker](https://evil.example/pixel.png)',
  '[click](javascript:alert(1)) <a href="https://x.example">x</a>',
  '&lt;img src=x onerror=alert(1)&gt;',
  '| <img src=x> |\n| - |\n| <script>1</script> |',
])('makes no element of what a model writes: %j', (text) => {
  const { container } = show(text);
  expect(container.querySelector('script, img, iframe, a, b, [onclick], [onerror], [src], [href]')).toBeNull();
});

it('shows a picture as its words', () => {
  show('![a small fire](https://evil.example/pixel.png)');
  expect(screen.getByText('[picture: a small fire]')).toBeTruthy();
});

it('gives an https link to whoever asks the person, and leaves every other one as text', async () => {
  const { openLink } = show('[manual](https://docs.example/a) and [trick](javascript:alert) and [file](file:///etc)');
  await userEvent.click(screen.getByRole('button', { name: 'manual' }));
  expect(openLink).toHaveBeenCalledExactlyOnceWith('https://docs.example/a');
  expect(screen.getAllByRole('button')).toHaveLength(1);
});

it('knows which links may be opened', () => {
  expect(openable('https://example.org/x')).toBe('https://example.org/x');
  for (const refused of ['http://example.org', 'mailto:a@b.example', 'https://bank.example@evil.example', 'x', '']) {
    expect(openable(refused)).toBeNull();
  }
});

it('puts the hand-over behind the block in which it happened, and cuts no sentence and no list', () => {
  const { container } = show('The fire listened well.\n\nIt slept.', [{ at: 6, text: 'took over' }]);
  expect([...container.querySelectorAll('p')].map((block) => block.textContent.trim())).toEqual(['The fire listened well.', 'took over', 'It slept.']);
  const list = show('1. one\n2. two and more\n3. three', [{ at: 12, text: 'carried on' }]).container;
  expect(list.querySelector('ol')?.textContent).not.toContain('carried on');
  expect(list.querySelector('ol')?.nextElementSibling?.textContent).toBe('carried on');
  expect(list.querySelectorAll('ol')).toHaveLength(1);
});

it('puts a hand-over inside code below it, and leaves the code as it was', () => {
  const { container } = show('```py\nprint(1)\nprint(2)\n```', [{ at: 15, text: 'took over' }]);
  expect(container.querySelector('code')?.textContent).toBe('print(1)\nprint(2)');
  expect(screen.getByText('took over')).toBeTruthy();
});

it('keeps the page’s headings above those of a reply', () => {
  const { container } = show('# One\n\n###### Six');
  expect(container.querySelector('h3')?.textContent).toBe('One');
  expect(container.querySelector('h6')?.textContent).toBe('Six');
});

it('reads character references as a browser would, but not in code', () => {
  const { container } = show('a &amp; b &#8364; &unknown; `&amp;`');
  expect(container.querySelector('p')?.textContent).toBe('a & b € &unknown; &amp;');
});

it('draws words in the look of whoever computed them, over blocks, and says at the change who goes on', () => {
  const { container } = show('One **two three** four.\n\n- five\n- six', [], true, handedOver(9));
  expect(wordsOf(container, HERE)).toBe('One  two');
  expect(wordsOf(container, DAD)).toBe(' three  four. five six');
  expect(screen.getByTestId('look-number').textContent).toBe('From here on: Dad’s PC.2');
  expect(container.querySelector('strong')?.textContent).toContain('two');
});

it('keeps code as it was, in one colour for each device', () => {
  const code = '```py\nprint(1)\nprint(2)\n```';
  const { container } = show(code, [{ at: 14, text: 'took over' }], true, handedOver(14));
  const numbers = container.querySelectorAll('code [data-testid="look-number"]');
  expect(numbers).toHaveLength(1);
  for (const one of numbers) one.remove();
  expect(container.querySelector('code')?.textContent).toBe('print(1)\nprint(2)');
  expect([wordsOf(container, HERE), wordsOf(container, DAD)]).toEqual(['print(1)', '\nprint(2)']);
  expect(screen.getByText('took over')).toBeTruthy();
});

it('puts no colour on words of which nobody wrote down who computed them', () => {
  const looks = { ...handedOver(4), changes: [{ at: 4, look: DAD }], partly: true };
  const { container } = show('old new words', [], true, looks);
  expect(wordsOf(container, DAD)).toBe(' words');
  expect(container.textContent).toContain('old new');
});

const EVERYTHING = '# One\n\nTwo *three* `four five`:\n\n```js\nlet six = 7;\n```\n\n| a | b |\n| - | - |\n| c | d |\n\n' +
  '1. [eight nine](https://x.example/a) ![ten](x.png)\n2. https://y.example\n\n> end';

it('colours more with every step of the change, and loses no word of it', () => {
  const letters = (text: string) => text.replace(/\s/g, '');
  const lengths = Array.from({ length: Math.floor(EVERYTHING.length / 5) }, (_, step) => 1 + 5 * step).map((at) => {
    const { container, unmount } = show(EVERYTHING, [], true, handedOver(at));
    const [before, after] = [letters(wordsOf(container, HERE)), letters(wordsOf(container, DAD))];
    // The words of a picture are no words of the reply.
    expect(before + after, String(at)).toBe('OneTwothreefourfive:letsix=7;abcdeightninehttps://y.exampleend');
    expect(screen.queryAllByTestId('look-number'), String(at)).toHaveLength(1);
    unmount();
    return before.length;
  });
  expect(lengths).toEqual([...lengths].sort((a, b) => a - b));
});

it.each([
  ['quotations', '>'.repeat(2_000) + ' deep'],
  ['a list', Array.from({ length: 200 }, (_, level) => `${'  '.repeat(level)}- deep`).join('\n')],
  ['emphasis', '*a **b '.repeat(2_000) + 'deep'],
])('R4: shows %s that lie 200 and more deep in each other, and what stands around', (_, nested) => {
  const { container } = show(`before\n\n${nested}\n\nafter`);
  expect(container.textContent).toContain('deep');
  expect([...container.querySelectorAll('.markdown > p')].map((one) => one.textContent)).toEqual(
    expect.arrayContaining(['before', 'after']),
  );
});

it('R4: goes on while deep quotations grow piece by piece', async () => {
  const whole = `${'>'.repeat(2_000)} deep`;
  const view = show('', [], false);
  for (let end = 40; end < whole.length + 40; end += 40) {
    await view.rerender({ text: whole.slice(0, end) });
  }
  expect(view.container.textContent).toContain('deep');
});

it('keeps the address of a link that is not opened, and the text of a footnote', () => {
  const { container } = show('See [the page](http://home.example/a) and http://b.example here.[^1]\n\n[^1]: https://c.example');
  expect(container.textContent).toContain('the page\u00a0(http://home.example/a) and http://b.example here.1');
  expect(container.querySelectorAll('sup')).toHaveLength(2);
  expect(container.textContent).toContain('https://c.example');
});

it('gives each footnote a paragraph of its own', () => {
  const { container } = show('Both.[^1][^b]\n[^1]: The *first*,\nwhich goes on.\n[^b]: The second.\n\nThe end.');
  expect([...container.querySelectorAll('p')].map((one) => one.textContent.replace(/\s+/g, ' '))).toEqual([
    'Both.1b', '1: The first, which goes on.', 'b: The second.', 'The end.',
  ]);
  expect(container.querySelector('em')?.textContent).toBe('first');
});

it('reads the names that HTML has for characters, and keeps what is no name', () => {
  const { container } = show('&frac12; &hearts; &Eacute; &nosuch; &lt;b&gt;');
  expect(container.textContent.trim()).toBe('½ ♥ É &nosuch; <b>');
});

it('lays out each paragraph in the direction of its own words', () => {
  const { container } = show('مرحبا بالعالم\n\nHere is English.\n\n- one\n- two');
  expect([...container.querySelectorAll('p, ul')].map((one) => one.getAttribute('dir'))).toEqual(['auto', 'auto', 'auto']);
});
