/** Promises of the Markdown view: nothing of a reply becomes HTML, a picture or a link that opens by itself. */
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { expect, it, vi } from 'vitest';
import { openable } from './links';
import Markdown from './Markdown.svelte';

function show(text: string, marks: { at: number; text: string }[] = [], complete = true) {
  const openLink = vi.fn<(url: string) => void>();
  const view = render(Markdown, { text, marks, complete, openLink });
  return { ...view, openLink };
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

it('puts the hand-over into the paragraph in which it happened', () => {
  const { container } = show('The fire listened well.', [{ at: 6, text: 'Mum’s laptop took over' }]);
  expect(container.querySelector('p')?.textContent).toBe('The fireMum’s laptop took over listened well.');
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
