/** Promises of short messages: good in every width and look, over nothing that is being written, and undone by keys. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { type Chosen, goTo, open, openConversation, settle } from './visit';

const SIZES = [[420, 900], [1100, 800], [1600, 900]] as const;
const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' } },
  { name: 'contrast-right-to-left', chosen: { theme: 'contrast', language: 'mirrored' } },
];

/** Shows the list of chats, where it hides behind a button. */
async function showList(page: Page): Promise<void> {
  const menu = page.locator('.menu');
  if (await menu.isVisible()) await menu.click();
  await expect(page.getByTestId('conversation').first()).toBeVisible();
  await settle(page);
}

/** Time stands for messages while a dialog stands before them: one that nobody sees. */
async function hold(page: Page): Promise<void> {
  await page.evaluate(() => {
    const dialog = document.createElement('dialog');
    dialog.style.display = 'none';
    dialog.setAttribute('open', '');
    dialog.id = 'hold';
    document.body.append(dialog);
  });
}

async function letGo(page: Page): Promise<void> {
  await page.evaluate(() => { document.getElementById('hold')?.remove(); });
}

/** Deletes the first so many chats of the list by its key. */
async function deleteChats(page: Page, count: number): Promise<void> {
  for (let done = 0; done < count; done += 1) {
    const rows = await page.getByTestId('conversation').count();
    await page.getByTestId('conversation').first().locator('.title').focus();
    await page.keyboard.press('Delete');
    await expect(page.getByTestId('conversation')).toHaveCount(rows - 1);
  }
}

for (const { name: look, chosen } of LOOKS) for (const [width, height] of SIZES) {
  test(`messages are good in ${look}, ${String(width)} wide, and stand over no message that is written`, async ({ page }) => {
    await page.setViewportSize({ width, height });
    await open(page, chosen);
    await showList(page);
    await hold(page);
    await deleteChats(page, 4);
    const toasts = page.getByTestId('toast');
    await expect(toasts).toHaveCount(3);
    // Time stands while the focus is there, too.
    await toasts.last().getByTestId('undo').focus();
    await letGo(page);
    if (width <= 720) await page.keyboard.press('Escape');
    await isGood(page, look, `toasts-${String(width)}`);
    const [box, last] = [await page.locator('.box').boundingBox(), await toasts.last().boundingBox()];
    expect((last?.y ?? 0) + (last?.height ?? 0), 'above the message field').toBeLessThanOrEqual(box?.y ?? 0);
    await hold(page);
    await goTo(page, 'models');
    await expect(toasts).toHaveCount(3);
    await isGood(page, look, `toasts-models-${String(width)}`);
  });
}

test('a chat that was deleted by its key comes back by another, where it stood, with the focus', async ({ page }) => {
  await open(page, {});
  await openConversation(page, 'Packing list');
  const titles = page.getByTestId('conversation').locator('.title');
  const before = await titles.allInnerTexts();
  const row = titles.filter({ hasText: 'Packing list' });
  await hold(page);
  await row.focus();
  await page.keyboard.press('Delete');
  await expect(row).toHaveCount(0);
  await expect(page.getByTestId('reply')).toHaveCount(0);
  await expect(titles.nth(1)).toBeFocused();
  await letGo(page);
  await page.keyboard.press('Control+z');
  await expect(row).toBeFocused();
  expect(await titles.allInnerTexts()).toEqual(before);
  await expect(page.getByTestId('toast')).toHaveCount(0);
  await expect(page.getByTestId('reply')).toBeVisible();
});

test('a message waits for whoever points at it, and ends when nobody does', async ({ page }) => {
  await page.clock.install();
  await open(page, {});
  await hold(page);
  await deleteChats(page, 1);
  const toast = page.getByTestId('toast');
  await toast.hover();
  await letGo(page);
  await page.clock.runFor(60_000);
  await expect(toast).toBeVisible();
  await page.mouse.move(600, 100);
  await page.clock.runFor(6_000);
  await expect(toast).toHaveCount(0);
});

test('a page that is loaded anew while a chat can come back does not bring it back', async ({ page }) => {
  await open(page, { byHand: true });
  // The page ends before the house has answered.
  await page.evaluate(() => {
    const { household } = window as unknown as { household: { deleteConversation(id: number): Promise<void> } };
    household.deleteConversation = () => new Promise(() => undefined);
  });
  await hold(page);
  await deleteChats(page, 1);
  expect(await page.evaluate(() => localStorage.getItem('inglenook.deleting'))).toContain('Why leaves change colour');
  await page.reload();
  await expect(page.getByTestId('prompt')).toBeVisible();
  await expect(page.getByTestId('conversation').first()).toBeVisible();
  await expect(page.getByTestId('conversation').filter({ hasText: 'Why leaves' })).toHaveCount(0);
  await expect.poll(() => page.evaluate(() => localStorage.getItem('inglenook.deleting'))).toBeNull();
});

test('the last chat of the list hands the focus on', async ({ page }) => {
  await open(page, {});
  await page.getByTestId('search').fill('soup carrots');
  await expect(page.getByTestId('conversation')).toHaveCount(1);
  await hold(page);
  await deleteChats(page, 1);
  expect(await page.evaluate(() => document.activeElement !== document.body)).toBe(true);
  await letGo(page);
  await page.keyboard.press('Control+z');
  await expect(page.getByTestId('conversation').locator('.title')).toBeFocused();
});
