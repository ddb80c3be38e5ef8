/** Promises of an open chat: its menu, finding words in it, and its pages on paper. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { open, openConversation, openSideBar } from './visit';

const MESSAGES = 1000;
/** More than are in view, with as much above and below again. */
const MOUNTED_MAX = 60;

async function openLong(page: Page, messages = MESSAGES): Promise<void> {
  await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
  await page.goto(`/?by-hand&long=${String(messages)}`);
  await page.getByTestId('conversation').last().locator('.title').click();
  await expect(page.getByTestId('reply').last()).toBeInViewport();
}

/** The words that are marked as the place where the way is. */
function markedNow(page: Page): Promise<string[]> {
  return page.evaluate(() => [...(CSS.highlights.get('found-now') ?? [])].map((range) => (range as Range).toString()));
}

for (const [name, chosen, width] of [['light', {}, 1100], ['dark', { theme: 'dark' }, 420], ['german', { language: 'de', size: 'huge' }, 550], ['mirrored', { language: 'mirrored' }, 1100]] as const) {
  test(`the menu and the search are good: ${name}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 760 });
    await open(page, chosen);
    await openConversation(page);
    await page.getByTestId('chat-menu').click();
    await expect(page.getByRole('menu')).toBeVisible();
    await isGood(page, name, 'chat-menu');
    const sizes = await page.getByRole('menuitem').evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(24);
    await page.getByTestId('menu-find').click();
    await expect(page.getByTestId('find-field')).toBeFocused();
    await page.keyboard.type('leaf');
    await isGood(page, name, 'chat-find');
    await page.keyboard.press('Escape');
    await expect(page.getByTestId('chat-menu')).toBeFocused();
  });
}

for (const [name, chosen, width] of [['light', {}, 1100], ['dark', { theme: 'dark' }, 420], ['german', { language: 'de', size: 'huge' }, 550], ['mirrored', { language: 'mirrored' }, 1100]] as const) {
  test(`a reply whose words are changed is good: ${name}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 760 });
    await open(page, chosen);
    await openConversation(page);
    await page.getByTestId('reply-menu').last().click();
    await page.getByTestId('reword').click();
    await expect(page.getByTestId('reword-field')).toBeFocused();
    await isGood(page, name, 'rewording');
    await page.getByTestId('reword-field').fill('Only words of mine.');
    await page.keyboard.press('Control+Enter');
    await expect(page.getByTestId('facts')).toHaveCount(1);
    await isGood(page, name, 'reworded');
  });
}

for (const [name, chosen, width] of [['light', {}, 1100], ['contrast', { theme: 'contrast' }, 420], ['german', { language: 'de', size: 'huge' }, 550], ['mirrored', { language: 'mirrored' }, 1100]] as const) {
  test(`a long wait is good, and so are the chats that were put away: ${name}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 760 });
    await open(page, chosen);
    await openConversation(page);
    await page.getByTestId('chat-menu').click();
    await page.getByTestId('menu-archive').click();
    await expect(page.getByTestId('archive')).toHaveCount(1);
    if (width > 720) {
      await page.getByTestId('archive').click();
      await expect(page.getByTestId('bring-back')).toHaveCount(1);
    }
    await page.getByTestId('prompt').fill('Read slowly');
    await page.keyboard.press('Enter');
    await expect(page.getByTestId('wait').locator('svg')).toBeVisible();
    await isGood(page, name, 'wait');
    await page.getByTestId('stop').click();
    await expect(page.getByTestId('wait')).toHaveCount(0);
  });
}

for (const [name, chosen, width] of [['light', {}, 1100], ['dark', { theme: 'dark' }, 420], ['contrast', { theme: 'contrast' }, 1100], ['german', { language: 'de', size: 'huge' }, 760], ['mirrored', { language: 'mirrored' }, 1100]] as const) {
  test(`a chat goes into a folder, and the folder is good: ${name}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 760 });
    await open(page, chosen);
    for (const [title, folder] of [['Soup', 'Our kitchen, and everything that is cooked and baked in it'], ['Why leaves', 'School']] as const) {
      await openConversation(page, title);
      await page.getByTestId('chat-menu').click();
      await page.getByTestId('menu-folder').click();
      await page.getByTestId('folder-name').fill(folder);
      if (folder === 'School') await isGood(page, name, 'folder-sheet');
      await page.keyboard.press('Enter');
      await expect(page.getByTestId('folder-sheet')).toHaveCount(0);
    }
    await openSideBar(page);
    await expect(page.getByTestId('folder')).toHaveCount(2);
    await page.getByTestId('folder-turn').first().focus();
    await isGood(page, name, 'folders');
    await page.keyboard.press('F2');
    await isGood(page, name, 'folder-renamed');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Enter');
    await expect(page.getByTestId('folder').first().getByTestId('conversation')).toHaveCount(0);
  });
}

test('words are found that are not mounted, and come into view, marked', async ({ page }) => {
  await openLong(page);
  await page.keyboard.press('Control+f');
  await expect(page.getByTestId('find-field')).toBeFocused();
  await page.keyboard.type('QUESTION 12:');
  await expect(page.getByTestId('find-count')).toHaveText('1 of 1');
  await expect(page.getByTestId('person').filter({ hasText: 'Question 12:' })).toBeInViewport();
  expect(await markedNow(page)).toEqual(['Question 12:']);
  await page.getByTestId('find-field').fill('crayons');
  await expect(page.getByTestId('find-count')).toHaveText(/ of 125$/);
  for (let turn = 0; turn < 5; turn += 1) {
    await page.keyboard.press('Shift+Enter');
    expect(await markedNow(page)).toEqual(['crayons']);
    await expect.poll(() => page.evaluate(() => {
      const log = document.querySelector('[role="log"]')?.getBoundingClientRect();
      const [range] = CSS.highlights.get('found-now') ?? [];
      const at = (range as Range | undefined)?.getBoundingClientRect();
      return at !== undefined && log !== undefined && at.height > 0 && at.top >= log.top && at.bottom <= log.bottom;
    }), `turn ${String(turn)}`).toBe(true);
  }
  expect(await page.locator('[data-testid="reply"], [data-testid="person"]').count()).toBeLessThan(MOUNTED_MAX);
  await page.keyboard.press('Escape');
  expect(await page.evaluate(() => CSS.highlights.size)).toBe(0);
});

test('where a webview cannot mark, the way leads there all the same', async ({ page }) => {
  await page.addInitScript(() => { delete (CSS as { highlights?: unknown }).highlights; delete (Object.getPrototypeOf(CSS) as { highlights?: unknown }).highlights; });
  await openLong(page, 200);
  expect(await page.evaluate(() => 'highlights' in CSS)).toBe(false);
  await page.keyboard.press('Control+f');
  await page.getByTestId('find-field').fill('question 3:');
  await expect(page.getByTestId('find-count')).toHaveText('1 of 1');
  await expect(page.getByTestId('person').filter({ hasText: 'Question 3:' })).toBeInViewport();
});

test('on paper is the chat alone, all of it, black on white also from dark', async ({ page }) => {
  await page.addInitScript(() => {
    localStorage.setItem('inglenook.theme', 'dark');
    Object.assign(window, { print: () => { document.documentElement.dataset['asked'] = 'yes'; } });
  });
  await openLong(page, 200);
  await page.keyboard.press('Control+p');
  await expect(page.locator('html')).toHaveAttribute('data-asked', 'yes');
  await page.emulateMedia({ media: 'print' });
  await expect(page.getByTestId('printed')).toHaveCount(200);
  await expect(page.getByTestId('printed').first()).toContainText('Question 1:');
  await expect(page.locator('.paper h1')).toBeVisible();
  const seen = await page.evaluate(() => ({
    buttons: [...document.querySelectorAll('button:not(.link), input, textarea, select, aside')].filter((at) => at.checkVisibility()).length,
    ground: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector('.paper section') ?? document.body).color,
  }));
  expect(seen).toEqual({ buttons: 0, ground: 'rgb(255, 255, 255)', ink: 'rgb(0, 0, 0)' });
  const pdf = await page.pdf({ format: 'A4', ...(process.env['PICTURES'] ? { path: `${process.env['PICTURES']}/chat.pdf` } : {}) });
  const pages = pdf.toString('latin1').match(/\/Type\s*\/Page\b/g)?.length ?? 0;
  expect(pages, 'more than what is in view').toBeGreaterThan(10);
  await page.emulateMedia({ media: 'screen' });
  await page.keyboard.press('Shift');
  await expect(page.locator('.paper')).toHaveCount(0);
});

test('whoever prints by the browser itself gets the chat, too', async ({ page }) => {
  await open(page, {});
  await openConversation(page, 'Why leaves');
  const pdf = await page.pdf({ format: 'A4' });
  expect(pdf.length).toBeGreaterThan(0);
  await page.evaluate(() => { window.dispatchEvent(new Event('beforeprint')); });
  await expect(page.getByTestId('printed')).toHaveCount(2);
  await page.evaluate(() => { window.dispatchEvent(new Event('afterprint')); });
  await expect(page.getByTestId('printed')).toHaveCount(0);
});
