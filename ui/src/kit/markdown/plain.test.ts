/** Promises of a reply as plain words. That the page has the same ones, `chat/finding.test.ts` proves. */
import { expect, it } from 'vitest';
import { plain } from './plain';

it('has the words without the signs, and no words over the end of a block', () => {
  expect(plain('# One\n\n- **two** *three*\n- `four`\n\n```js\nfive\n```')).toBe('One\0two three\0four\0five');
  expect(plain('a $x$ b')).toBe('a \0 b');
});
