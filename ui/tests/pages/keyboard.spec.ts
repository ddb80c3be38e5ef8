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
