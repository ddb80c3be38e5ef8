/** Promises about where the focus goes: a dialog keeps it, Escape closes, and it comes back to what opened it; what
 *  vanishes under it hands it on. */
import { expect, type Page, test } from '@playwright/test';
import { stopsOf, tabTo, walk } from './keys';
import { goTo, open, openConversation, pass, TO_WRITING } from './visit';

/** What opens over a page: how to get to what opens it, and the key that does. */
const OVERLAYS: { name: string; opens: string; key: string; prepare: (page: Page) => Promise<void>; opener: string }[] = [
  { name: 'the list of keys', opens: 'shortcuts', key: 'Control+/', opener: 'prompt', prepare: () => Promise.resolve() },
  { name: 'the sheet of a chat', opens: 'chat-sheet', key: 'Enter', opener: 'about', prepare: (page) => openConversation(page) },
  { name: 'the question before a device is forgotten', opens: 'confirm', key: 'Enter', opener: 'forget', prepare: (page) => openDevice(page) },
  { name: 'the question before the key is renewed', opens: 'confirm', key: 'Space', opener: 'renew-key', prepare: (page) => goTo(page, 'port') },
  { name: 'the question before a program’s key is removed', opens: 'confirm', key: 'Enter', opener: 'remove-own-key', prepare: (page) => goTo(page, 'port') },
];

/** The details of a paired device. */
async function openDevice(page: Page): Promise<void> {
  await goTo(page, 'devices');
  await page.getByTestId('device-row').first().getByTestId('device-more').click();
  await expect(page.getByTestId('device-detail')).toBeFocused();
}

for (const { name, opens, key, opener, prepare } of OVERLAYS) {
  test(`${name} keeps the focus, Escape closes it, and the focus is back`, async ({ page }) => {
    await open(page, {});
    await prepare(page);
    await tabTo(page, opener);
    await page.keyboard.press(key);
    const dialog = page.getByTestId(opens);
    await expect(dialog).toBeVisible();
    await walk(page, name);
    expect(await dialog.evaluate((at) => at === document.activeElement || at.contains(document.activeElement) || document.activeElement === document.body)).toBe(true);
    await page.keyboard.press('Escape');
    await expect(dialog).toHaveCount(0);
    await expect(page.getByTestId(opener).first()).toBeFocused();
  });
}

test('a chat is renamed by keys, and the focus stays at its title', async ({ page }) => {
  await open(page, {});
  const title = page.getByTestId('conversation').first().locator('.title');
  await title.focus();
  await page.keyboard.press('F2');
  await expect(page.getByTestId('conversation').first().getByRole('textbox')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(title).toBeFocused();
});

test('a link asks first, and the focus comes back to it', async ({ page }) => {
  await open(page, {});
  await openConversation(page, 'A program');
  const link = page.getByTestId('reply-text').getByRole('button', { name: 'the manual' });
  await link.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('confirm')).toContainText('docs.python.org');
  await page.keyboard.press('Escape');
  await expect(link).toBeFocused();
});

test('a model is kept after all, and the focus comes back', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'models');
  const remove = page.getByTestId('model-row').nth(1).getByRole('button');
  await remove.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('confirm')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(remove).toBeFocused();
});

test('the list of models opens and closes by keys and keeps the focus', async ({ page }) => {
  await open(page, {});
  await tabTo(page, 'model');
  await page.keyboard.press('Alt+ArrowDown');
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('model')).toBeFocused();
  const before = await page.getByTestId('model').inputValue();
  // The newest model, the usual one, is the last of the list.
  await page.keyboard.press('ArrowUp');
  await expect(page.getByTestId('model')).not.toHaveValue(before);
});

test('a code is shown and hidden by one key each', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'devices');
  await tabTo(page, 'add-device');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('show-code')).toBeFocused();
  await walk(page, 'pairing, who shows the code');
  await tabTo(page, 'show-code');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('pair-code')).toBeVisible();
  await expect(page.getByTestId('hide-code')).toBeFocused();
  await walk(page, 'pairing, a code');
  await tabTo(page, 'hide-code');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('show-code')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('pairing')).toHaveCount(0);
  await expect(page.getByTestId('add-device')).toBeFocused();
});

test('models are copied and moved by keys, and what takes the place of a control takes its focus', async ({ page }) => {
  // No download is over before it is held up.
  await open(page, { byHand: true });
  await goTo(page, 'models');
  await tabTo(page, 'copy-qwen3-8b');
  await page.keyboard.press('Enter');
  await pass(page, 1);
  await expect(page.getByTestId('copy-qwen3-8b')).toHaveCount(0);
  await expect(page.getByTestId('in-house')).toBeFocused();
  // Its part of the page goes with the last of its rows, and Tab goes on from there.
  await tabTo(page, 'get-smollm2-360m');
  await page.keyboard.press('Enter');
  await pass(page, 1);
  await expect(page.getByTestId('get-qwen3-1.7b')).toBeFocused();
  await tabTo(page, 'download-pause');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('download-resume').first()).toBeFocused();
  await tabTo(page, 'move-models');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('stop-moving')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('move-models')).toBeFocused();
});

test('sharing is paused and goes on by keys, and the focus stays there', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'sharing');
  await tabTo(page, 'pause-tomorrow');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('resume-sharing')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('pause-hour')).toBeFocused();
});

test('the first start is walked through by keys and ends at the message', async ({ page }) => {
  await open(page, { isNew: true });
  await walk(page, 'first start');
  await tabTo(page, 'first-name');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('first-model')).toBeVisible();
  await walk(page, 'first start, a model');
  await tabTo(page, 'first-skip');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('first-share')).toBeVisible();
  await expect(page.getByTestId('first-next')).toBeFocused();
  await walk(page, 'first start, sharing');
  await tabTo(page, 'first-limits');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('first-when')).toBeVisible();
  await walk(page, 'first start, sharing, when it pauses');
  await tabTo(page, 'first-next');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('first-devices')).toBeVisible();
  await expect(page.getByTestId('first-next')).toBeFocused();
  await walk(page, 'first start, another computer');
  await tabTo(page, 'first-next');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('first-start')).toHaveCount(0);
  await expect(page.getByTestId('prompt')).toBeFocused();
});

test('the first start is left for later, or for the page of devices, and the focus goes along', async ({ page }) => {
  await open(page, { isNew: true });
  await tabTo(page, 'first-not-now');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('prompt')).toBeFocused();
  const again = await page.context().newPage();
  await again.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'others'); });
  await again.goto('/');
  await tabTo(again, 'first-devices');
  await again.keyboard.press('Enter');
  await expect(again.getByTestId('show-code')).toBeFocused();
  await again.keyboard.press('Escape');
  await expect(again.getByTestId('add-device')).toBeFocused();
});

test('a file is attached and taken away by keys, and the focus is at the message', async ({ page }) => {
  await open(page, {});
  await page.getByTestId('attach').setInputFiles({ name: 'Leaves.txt', mimeType: 'text/plain', buffer: Buffer.from('Leaves fall.') });
  await expect(page.getByTestId('file')).toBeVisible();
  await walk(page, 'attached');
  await page.getByTestId('file').getByRole('button', { name: 'Remove Leaves.txt' }).focus();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('file')).toHaveCount(0);
  await expect(page.getByTestId('prompt')).toBeFocused();
});

test('whoever sends or stops by a button is back at the message', async ({ page }) => {
  await open(page, { byHand: true });
  await page.getByTestId('prompt').fill('leaves');
  await tabTo(page, 'send');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('prompt')).toBeFocused();
  await pass(page, TO_WRITING);
  await tabTo(page, 'stop');
  await page.keyboard.press('Space');
  await pass(page, 1);
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'cut');
  await expect(page.getByTestId('prompt')).toBeFocused();
});

test('Escape stops a reply', async ({ page }) => {
  await open(page, { byHand: true });
  await page.getByTestId('prompt').fill('leaves');
  await page.keyboard.press('Enter');
  await pass(page, TO_WRITING);
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'writing');
  await page.keyboard.press('Control+k');
  await expect(page.getByTestId('search')).toBeFocused();
  await page.keyboard.press('Escape');
  await pass(page, 1);
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'cut');
});

test('where the side bar covers the page, the page is out of reach until it closes', async ({ page }) => {
  await page.setViewportSize({ width: 720, height: 700 });
  await open(page, {});
  const menu = page.locator('.menu');
  await menu.focus();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('new-chat')).toBeVisible();
  await expect(page.locator('main')).toHaveAttribute('inert', '');
  const { names } = await stopsOf(page);
  expect(names).toContain('nav-settings');
  expect(names).not.toContain('prompt');
  await walk(page, 'side bar');
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('new-chat')).toBeHidden();
  await expect(page.locator('main')).not.toHaveAttribute('inert', '');
  await expect(menu).toBeFocused();
  // Opened by its key from the message, it gives the focus back to the message.
  await page.getByTestId('prompt').focus();
  await page.keyboard.press('Control+k');
  await expect(page.getByTestId('search')).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('prompt')).toBeFocused();
  // Whoever chooses a page there is not left on a control that is gone.
  await menu.focus();
  await page.keyboard.press('Enter');
  await tabTo(page, 'nav-settings');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('language')).toBeVisible();
  await expect(menu).toBeFocused();
  // And a click beside it closes it.
  await page.keyboard.press('Enter');
  await page.mouse.click(600, 400);
  await expect(page.getByTestId('new-chat')).toBeHidden();
});
