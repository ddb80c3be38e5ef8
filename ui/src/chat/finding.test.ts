/** Promises of the search in a chat: what it takes for equal, and that the page has the same places as the texts. */
import { render } from '@testing-library/svelte';
import { expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { CODE, FRACTIONS, LEAVES, STORY } from '../backend/fake/replies';
import Markdown from '../kit/markdown/Markdown.svelte';
import { plain } from '../kit/markdown/plain';
import { folded, foldedAt, placesOf, rangesOf, Texts } from './finding';
import { OpenChat } from './open-chat.svelte';

it.each([
  ['Café', 'cafe'],
  ['CRÈME brûlée', 'creme brulee'],
  ['Straße', 'strasse'],
  ['ΣΊΣΥΦΟΣ', 'σισυφοσ'],
  ['one\ntwo\u00a0three', 'one two three'],
  ['日本語', '日本語'],
])('compares %j as %j', (text, compared) => {
  expect(folded(text)).toBe(compared);
  expect(foldedAt(text).text).toBe(compared);
});

it('knows where a compared character stood', () => {
  const { text, at } = foldedAt('x ß e\u0301é!');
  expect(text).toBe('x ss ee!');
  expect(at).toEqual([0, 1, 2, 2, 3, 4, 6, 7]);
});

it('finds places that do not overlap, and none of nothing', () => {
  expect(placesOf('aaaa', 'aa')).toEqual([0, 2]);
  expect(placesOf('aaaa', '')).toEqual([]);
});

const ODD = `# A **bold** title

Soft
break, a [link **here**](https://example.org), \`code &amp; more\`, 1 &lt; 2 and \\*stars\\*.  
New line<br>and another.

> quoted *words*
> - [x] done
> - [ ] not done

| a | *b* |
| - | --- |
| cell one | cell two |

<b>literal</b> words[^1] and ![a picture](x.png), $x+y$ after.

[^1]: A note.

***

- list

  with two paragraphs
`;

it.each([LEAVES, CODE, STORY, FRACTIONS, ODD])('finds on the page what it finds in the text, and nothing else', (text) => {
  const { container } = render(Markdown, { text, marks: [], complete: true, openLink: () => undefined });
  const words = plain(text).match(/\p{L}+|[^\s\0]/gu) ?? [];
  expect(words.length).toBeGreaterThan(20);
  const wanted = [...new Set([...words, 'soft break', 'link here', 'one cell', 'copy code', 'x+y', 'line and', 'title soft', 'a picture'])];
  for (const one of wanted) {
    const ranges = rangesOf(container, one);
    expect(ranges.length, one).toBe(placesOf(folded(plain(text)), folded(one)).length);
    for (const range of ranges) expect(folded(range.toString()), one).toBe(folded(one));
  }
});

it('finds all places of a long chat in order, without a page', async () => {
  const backend = new FakeBackend({ tokenMs: 0, long: 1000 });
  const [oldest] = (await backend.conversations(null)).slice(-1);
  const chat = new OpenChat(backend, oldest?.id ?? null, () => undefined);
  await chat.load();
  const texts = new Texts();
  expect(texts.find(chat, 'question 250:').map(({ step, nth }) => [step, nth])).toEqual([[498, 0]]);
  const crayons = texts.find(chat, 'GREEN CRAYONS');
  expect(crayons.length).toBe(125);
  expect(crayons.map(({ step }) => step)).toEqual([...crayons.map(({ step }) => step)].sort((a, b) => a - b));
  expect(texts.find(chat, 'ANSWER')).toHaveLength(500);
  expect(texts.find(chat, ' ')).toEqual([]);
});
