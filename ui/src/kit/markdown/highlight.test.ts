/**
 * Promises of `highlight.ts`, the one place where HTML is made.
 *
 * @vitest-environment jsdom
 * (DOMPurify needs a faithful DOM; happy-dom's walks past nodes that are removed.)
 */
import { expect, it } from 'vitest';
import { clean, highlight } from './highlight';

it('colours known languages and escapes what it colours', async () => {
  const html = await highlight('let a = "<img src=x onerror=alert(1)>";', 'javascript');
  expect(html).toContain('<span class="hljs-keyword">let</span>');
  expect(html).toContain('&lt;img src=x');
  expect(html).not.toContain('<img');
});

it('leaves unknown languages and very long code plain', async () => {
  expect(await highlight('x', 'no-such-language')).toBeNull();
  expect(await highlight('x', '')).toBeNull();
  expect(await highlight('x'.repeat(20_001), 'javascript')).toBeNull();
});

it('lets nothing but spans with a class through', () => {
  expect(clean('<span class="a" id="b" onclick="x()">let</span>')).toBe('<span class="a">let</span>');
  expect(clean('<span>a</span><img src=x onerror=y><script>z</script><b>w</b>')).toBe('<span>a</span>w');
});
