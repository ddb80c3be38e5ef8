/** Promises to people without a mouse: on every page everything is reached by Tab, in reading order, with a focus
 *  that can be seen and that leaves again; and what a page is for is done by keys alone. */
import { expect, type Page, test } from '@playwright/test';
import { tabTo, walk } from './keys';
import { type Chosen, goTo, open, openConversation, PAGES, pass, TO_THE_END, TO_WRITING, wayTo, type Where } from './visit';

/** A wide window, and a small one at 200 % with long words, where most is out of view and the side bar is closed. */
const WINDOWS: { name: string; width: number; height: number; chosen: Chosen }[] = [
  { name: 'wide', width: 1100, height: 800, chosen: {} },
  { name: 'small German', width: 550, height: 400, chosen: { language: 'de', size: 'huge' } },
  { name: 'from right to left', width: 1100, height: 800, chosen: { language: 'mirrored' } },
];

for (const { name, width, height, chosen } of WINDOWS) {
  test(`Tab goes through every page in reading order, is seen, and leaves it: ${name}`, async ({ page }) => {
    await page.setViewportSize({ width, height });
    await open(page, chosen);
    await walk(page, 'new chat');
    await openConversation(page);
    await walk(page, 'chat');
    for (const where of PAGES) {
      await goTo(page, where);
      await walk(page, where);
    }
  });
}

/** Goes to a page through the side bar by keys. */
async function keysTo(page: Page, name: Where): Promise<void> {
  for (const step of wayTo(name)) {
    await tabTo(page, step);
    await page.keyboard.press('Enter');
  }
  await expect(page.locator('main h1').first()).toBeVisible();
}

test('the way to the newest words by keys leaves the focus there', async ({ page }) => {
  await page.setViewportSize({ width: 550, height: 400 });
  await open(page, { size: 'huge' });
  await openConversation(page);
  const list = page.getByRole('log');
  await list.evaluate((at) => { at.scrollTop = 0; });
  const toEnd = page.getByRole('button', { name: 'To the latest words' });
  await toEnd.focus();
  await page.keyboard.press('Enter');
  await expect(toEnd).toHaveCount(0);
  await expect(list).toBeFocused();
});

test('devices by keys alone: trusting one, pairing another', async ({ page }) => {
  await open(page, {});
  await keysTo(page, 'devices');
  await tabTo(page, 'trust-select');
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('device-row').first()).toContainText('Not used');
  await tabTo(page, 'add-device');
  await page.keyboard.press('Enter');
  await tabTo(page, 'type-here');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('type-code')).toBeFocused();
  await page.keyboard.type('483920');
  // Who goes on typing answers nothing by it.
  await expect(page.getByTestId('join-done')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('help-question')).toBeVisible();
  await walk(page, 'pairing, the question');
  await tabTo(page, 'help-only-this');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('help-question')).toHaveCount(0);
  await expect(page.getByTestId('device-row')).toHaveCount(4);
  await expect(page.getByTestId('add-device')).toBeFocused();
});

test('models by keys alone: getting one, holding it up', async ({ page }) => {
  await open(page, { byHand: true });
  await keysTo(page, 'models');
  await tabTo(page, 'get-qwen3-4b');
  await page.keyboard.press('Enter');
  // It begins, and its first tenth comes.
  await pass(page, 1);
  await pass(page, 25);
  await expect(page.getByTestId('download')).toHaveAttribute('data-state', 'loading');
  await tabTo(page, 'download-pause');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('download')).toHaveAttribute('data-state', 'paused');
});

test('sharing by keys alone: switched off and on, a limit, quiet hours', async ({ page }) => {
  await open(page, {});
  await keysTo(page, 'sharing');
  const shared = page.getByTestId('page-share');
  await tabTo(page, 'page-share');
  await page.keyboard.press('Space');
  await expect(shared).toHaveAttribute('aria-checked', 'false');
  await page.keyboard.press('Enter');
  await expect(shared).toHaveAttribute('aria-checked', 'true');
  await tabTo(page, 'lend-streams');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('lend-streams')).toHaveValue('3');
  await tabTo(page, 'quiet-hours');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('quiet-from')).toBeVisible();
});

test('privacy by keys alone: who may help, and whole requests', async ({ page }) => {
  await open(page, {});
  await keysTo(page, 'privacy');
  await tabTo(page, 'borrow');
  const before = await page.getByTestId('borrow').inputValue();
  await page.keyboard.press('ArrowDown');
  await expect(page.getByTestId('borrow')).not.toHaveValue(before);
  await tabTo(page, 'whole');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('whole')).toHaveAttribute('aria-checked', 'true');
});

test('the port by keys alone: the key is shown, the port tested, a key of one program made', async ({ page }) => {
  await open(page, {});
  await keysTo(page, 'port');
  await tabTo(page, 'test-port');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('tested')).toBeVisible();
  await tabTo(page, 'show-key');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('port-key')).toContainText('nook-fak3');
  await tabTo(page, 'expose');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('expose')).toHaveAttribute('aria-checked', 'true');
  await tabTo(page, 'own-key-name');
  await page.keyboard.type('Notes');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('own-key')).toHaveCount(2);
});

test('the checks by keys alone: looked at again, and the focus stays', async ({ page }) => {
  await open(page, {});
  await keysTo(page, 'checks');
  await tabTo(page, 'look-again');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('look-again')).toHaveAttribute('aria-disabled', 'false');
  await expect(page.getByTestId('look-again')).toBeFocused();
  await expect(page.getByTestId('finding').first()).toBeVisible();
});

test('the settings by keys alone: colours', async ({ page }) => {
  await open(page, { theme: 'light' });
  await keysTo(page, 'settings');
  await tabTo(page, 'theme');
  await page.keyboard.press('ArrowDown');
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});

test('the settings by keys alone: what computes is chosen, and what the file says stays to be seen', async ({ page }) => {
  await open(page, { byHand: true });
  await keysTo(page, 'settings');
  await tabTo(page, 'use-card');
  const card = page.getByTestId('use-card');
  await expect(card).toHaveValue('auto');
  await page.keyboard.press('End');
  await expect(card).toHaveValue('native');
  // What was chosen is what the household has now, also after another page.
  await keysTo(page, 'models');
  await keysTo(page, 'settings');
  await expect(card).toHaveValue('native');
  await page.evaluate(() => {
    const { household } = window as unknown as { household: { change(edit: (house: { settings: { values: Record<string, unknown> } }) => void): void } };
    household.change((house) => { house.settings.values['distributed_inference.backend'] = 'gpu:1'; });
  });
  await expect(card.locator('option:checked')).toHaveText('As set in the file: gpu:1');
});

test('a key that leads to a field leads there before the next key comes', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'settings');
  // Keys of a script follow each other without a pause, faster than any hand.
  const fields = await page.evaluate(() => ['l', 'k', 'n'].map((key) => {
    window.dispatchEvent(new KeyboardEvent('keydown', { key, ctrlKey: true, cancelable: true }));
    return document.activeElement?.id;
  }));
  expect(fields).toEqual(['prompt', 'search-chats', 'prompt']);
});

test('a reply is made and its question edited by keys alone', async ({ page }) => {
  await open(page, {});
  await page.keyboard.press('Control+l');
  await page.keyboard.type('a story');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'finished');
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('edit-field')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('edit-field')).toHaveCount(0);
});

test('who computed which words is shown by keys alone, also while a reply is written', async ({ page }) => {
  await open(page, { byHand: true });
  await page.keyboard.press('Control+l');
  await page.keyboard.type('leaves, and hand over');
  await page.keyboard.press('Enter');
  const reply = page.getByTestId('reply').last();
  await pass(page, TO_WRITING);
  await expect(reply).toHaveAttribute('data-phase', 'writing');
  await page.keyboard.press('Control+d');
  await expect(reply.getByTestId('looks').locator('li')).toHaveCount(1);
  await pass(page, TO_THE_END);
  await expect(reply).toHaveAttribute('data-phase', 'finished');
  await expect(reply.getByTestId('looks').locator('li')).toHaveCount(2);
  await expect(reply.getByTestId('reply-text').getByTestId('look-number')).toHaveText('From here on: This computer and Mum’s laptop.2');
  const words = reply.getByTestId('reply-text').locator('[data-look]');
  const looks = await words.evaluateAll((spans) => spans.map((span) => {
    const { textDecorationColor, textDecorationStyle } = getComputedStyle(span);
    return `${(span as HTMLElement).dataset['look'] ?? ''} ${textDecorationStyle} ${textDecorationColor}`;
  }));
  const [first, last] = [looks[0] ?? '', looks.at(-1) ?? ''];
  expect(new Set(looks)).toEqual(new Set([first, last]));
  expect(first).toMatch(/^1 solid /);
  expect(last).toMatch(/^2 dashed /);
  expect(first.split('solid')[1]).not.toBe(last.split('dashed')[1]);
  await page.keyboard.press('Control+d');
  await expect(words).toHaveCount(0);
});
