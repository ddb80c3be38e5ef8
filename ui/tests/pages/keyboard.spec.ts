/** Promises to people without a mouse: everything is reached by Tab with a focus that can be seen, and a
 *  reply is made, edited and left by keys alone. */
import { expect, test } from '@playwright/test';
import { open } from './visit';

/** More stops than the chat has. */
const TABS = 60;

test('Tab reaches everything and shows where it is', async ({ page }) => {
  await open(page, {});
  const stops = new Set<string>();
  for (let tab = 0; tab < TABS; tab += 1) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate(() => {
      const at = document.activeElement;
      if (!(at instanceof HTMLElement) || at === document.body) return null;
      const box = at.getBoundingClientRect();
      const style = getComputedStyle(at);
      // The prompt draws its focus around the whole composer.
      const isSeen = box.width > 0 && box.height > 0 && (style.outlineStyle !== 'none' || at.dataset['testid'] === 'prompt');
      return { name: at.dataset['testid'] ?? at.getAttribute('aria-label') ?? at.textContent.trim(), isSeen };
    });
    if (!stop) continue;
    expect(stop.isSeen, `${stop.name} has the focus and does not show it`).toBe(true);
    stops.add(stop.name);
  }
  for (const name of ['prompt', 'search', 'new-chat', 'nav-devices', 'nav-sharing', 'nav-settings', 'share-toggle']) {
    expect([...stops], 'reached by Tab').toContain(name);
  }
});

test('a reply is made and its question edited by keys alone', async ({ page }) => {
  await open(page, {});
  await page.keyboard.press('Control+l');
  await page.keyboard.type('a story');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'finished', { timeout: 60_000 });
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('edit-field')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('edit-field')).toHaveCount(0);
});

test('who computed which words is shown by keys alone, also while a reply is written', async ({ page }) => {
  await open(page, {});
  await page.keyboard.press('Control+l');
  await page.keyboard.type('leaves, and hand over');
  await page.keyboard.press('Enter');
  const reply = page.getByTestId('reply').last();
  await expect(reply).toHaveAttribute('data-phase', 'writing', { timeout: 60_000 });
  await page.keyboard.press('Control+d');
  await expect(reply.getByTestId('mark')).toHaveAttribute('aria-pressed', 'true');
  await expect(reply).toHaveAttribute('data-phase', 'finished', { timeout: 60_000 });
  await expect(reply.getByTestId('looks').locator('li')).toHaveCount(2);
  await expect(reply.getByTestId('reply-text').getByTestId('look-number')).toHaveText('From here on: This computer and Mum’s laptop.2');
  const words = reply.getByTestId('reply-text').locator('[data-look]');
  const looks = await words.evaluateAll((spans) => spans.map((span) => {
    const { color, textDecorationStyle } = getComputedStyle(span);
    return `${(span as HTMLElement).dataset['look'] ?? ''} ${textDecorationStyle} ${color}`;
  }));
  const [first, last] = [looks[0] ?? '', looks.at(-1) ?? ''];
  expect(new Set(looks)).toEqual(new Set([first, last]));
  expect(first).toMatch(/^1 solid /);
  expect(last).toMatch(/^2 dashed /);
  expect(first.split('solid')[1]).not.toBe(last.split('dashed')[1]);
  await page.keyboard.press('Control+d');
  await expect(words).toHaveCount(0);
});
