/** Promises of what is not on a page at first: steps, sheets, questions, codes, failures and pauses are good in light
 *  and dark; less movement and the system's own colours are respected. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { askKeys, breaks, goTo, open, openAbout, openConversation, pass, settle, TO_THE_END, TO_WRITING } from './visit';

const THEMES = ['light', 'dark'] as const;
const PAUSES = ['owner', 'quiet_hours', 'battery', 'full_screen', 'busy'];

async function say(page: Page, text: string): Promise<void> {
  await page.getByTestId('prompt').fill(text);
  await page.getByTestId('send').click();
}

for (const theme of THEMES) {
  test(`every step of the first start is good in ${theme}, and chatting works beside it`, async ({ page }) => {
    // The download is still under way when its picture is taken.
    await open(page, { theme, isNew: true, byHand: true });
    await isGood(page, theme, 'first-start-name');
    const size = () => page.getByTestId('first-start').boundingBox();
    const first = await size();
    await page.getByTestId('first-next').click();
    await expect(page.getByTestId('first-model')).toBeVisible();
    await isGood(page, theme, 'first-start-model');
    expect(await size(), 'the card is where it was, and as large').toEqual(first);
    await page.getByTestId('first-next').click();
    await pass(page, 1);
    await expect(page.getByTestId('first-share')).toBeVisible();
    await pass(page, 25);
    await expect(page.getByTestId('strip')).toHaveText(/Qwen3 4B is coming: 10%, 54 seconds left\./);
    await page.getByTestId('first-limits').click();
    await isGood(page, theme, 'first-start-share');
    expect(await size(), 'also while something comes, and with more in it').toEqual(first);
    await page.getByTestId('first-next').click();
    await expect(page.getByTestId('first-devices')).toBeVisible();
    await isGood(page, theme, 'first-start-others');
    expect(await size(), 'and at the end').toEqual(first);
    await say(page, 'a story');
    await pass(page, TO_THE_END);
    await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'finished');
  });

  test(`keys that cannot be had are told of in ${theme}`, async ({ page }) => {
    await open(page, { theme, byHand: true });
    await goTo(page, 'settings');
    await page.getByTestId('ask-keys').selectOption('ctrl+alt+space');
    await askKeys(page, 'taken');
    await expect(page.getByTestId('ask-keys-taken')).toBeVisible();
    await isGood(page, theme, 'ask-keys-taken');
    await askKeys(page, 'impossible');
    await expect(page.getByTestId('ask-keys-impossible')).toBeVisible();
    await isGood(page, theme, 'ask-keys-impossible');
  });

  test(`sheets and questions are good in ${theme}`, async ({ page }) => {
    await open(page, { theme });
    await openConversation(page, 'A program');
    await openAbout(page);
    await page.getByTestId('instructions').fill('Answer in rhymes.');
    await isGood(page, theme, 'chat-sheet');
    await page.getByTestId('save-markdown').click();
    await expect(page.getByTestId('saved')).toBeVisible();
    await isGood(page, theme, 'chat-sheet-saved');
    await page.getByTestId('sheet-thinking').selectOption('on');
    await page.getByTestId('sheet-freedom').selectOption('0.3');
    await page.keyboard.press('Escape');
    await expect(page.getByTestId('told-freedom')).toBeVisible();
    await isGood(page, theme, 'chat-chosen');
    await page.keyboard.press('Control+/');
    await expect(page.getByTestId('shortcuts')).toBeVisible();
    await isGood(page, theme, 'shortcuts');
    await page.keyboard.press('Escape');
    await page.getByTestId('reply-text').getByRole('button', { name: 'the manual' }).click();
    await isGood(page, theme, 'link');
    await page.keyboard.press('Escape');
    await goTo(page, 'devices');
    await page.getByTestId('device-more').first().click();
    await isGood(page, theme, 'this-detail');
    await page.getByTestId('device-more').nth(1).click();
    await isGood(page, theme, 'device-detail');
    await page.getByTestId('forget').first().click();
    await isGood(page, theme, 'forget');
    await page.getByTestId('confirm-no').click();
    await page.keyboard.press('Escape');
  });

  test(`what went wrong and what is in the making is good in ${theme}`, async ({ page }) => {
    await open(page, { theme, byHand: true });
    await page.getByTestId('attach').setInputFiles([
      { name: 'Leaves.txt', mimeType: 'text/plain', buffer: Buffer.from('Leaves fall.\n'.repeat(40)) },
      { name: 'A list of everything that we pack for the mountains.md', mimeType: 'text/markdown', buffer: Buffer.from('- socks') },
    ]);
    await expect(page.getByTestId('file')).toHaveCount(2);
    await isGood(page, theme, 'attached');
    await say(page, 'fail, please');
    await pass(page, TO_WRITING);
    await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'writing');
    await isGood(page, theme, 'writing');
    await pass(page, TO_THE_END);
    await expect(page.getByTestId('cut')).toBeVisible();
    await page.getByTestId('person').locator('summary').first().click();
    await isGood(page, theme, 'cut');
    await page.getByTestId('edit').click();
    await isGood(page, theme, 'editing');
    await page.keyboard.press('Escape');
    await say(page, 'refuse this');
    await pass(page, 1);
    await expect(page.getByRole('log').getByRole('alert')).toBeVisible();
    await isGood(page, theme, 'refused');
    await openConversation(page, 'Packing list');
    await isGood(page, theme, 'cut-before');
  });
}

for (const chosen of [{ theme: 'light' }, { theme: 'dark', language: 'de' }, { theme: 'light', language: 'mirrored', size: 'huge' }] as const) {
  const look = Object.values(chosen).join('-');
  test(`a fault that stopped the program is told well (${look})`, async ({ page }) => {
    await open(page, { ...chosen, byHand: true });
    await breaks(page);
    await expect(page.getByTestId('stopped')).toBeVisible();
    await isGood(page, look, 'stopped');
    await page.setViewportSize({ width: 360, height: 480 });
    await isGood(page, look, 'stopped-narrow');
    await page.getByTestId('restart').scrollIntoViewIfNeeded();
    await expect(page.getByTestId('restart')).toBeInViewport();
  });
}

for (const paused of PAUSES) {
  test(`sharing that is paused (${paused}) says why, and is good`, async ({ page }) => {
    await open(page, { theme: 'light', paused });
    const line = await page.getByTestId('sharing-status').innerText();
    expect(line).not.toContain('idle');
    await goTo(page, 'sharing');
    await expect(page.getByTestId('sharing-now')).toContainText(line);
    await isGood(page, 'light', `paused-${paused}`);
  });
}

test('whoever asks for less movement sees none', async ({ page }) => {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await open(page, {});
  const moving = () => page.evaluate(() => document.getAnimations().length);
  await say(page, 'queue leaves');
  await expect(page.getByTestId('wait')).toBeVisible();
  expect(await moving(), 'while a reply is waited for').toBe(0);
  await page.getByTestId('share-toggle').click();
  expect(await moving(), 'after a switch').toBe(0);
  await page.setViewportSize({ width: 600, height: 700 });
  await page.locator('.menu').click();
  expect(await moving(), 'after the side bar').toBe(0);
});

test('movement is there for everyone else', async ({ page }) => {
  await open(page, {});
  await say(page, 'queue leaves');
  await expect(page.getByTestId('wait')).toBeVisible();
  expect(await page.evaluate(() => document.getAnimations().length)).toBeGreaterThan(0);
});

test('in the system’s own colours everything that colour tells is still told', async ({ page }) => {
  await page.emulateMedia({ forcedColors: 'active' });
  await open(page, {});
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'contrast');
  await openConversation(page);
  const ground = (at: Element, part: string | null = null) => getComputedStyle(at, part).backgroundColor;
  const knob = (on: Element) => [getComputedStyle(on).backgroundColor, getComputedStyle(on, '::after').backgroundColor];
  const pieces = await page.getByTestId('route-ribbon').last().locator('.bar span:not(.kept)').evaluateAll((all) => all.map((at) => getComputedStyle(at).backgroundColor));
  const paper = await page.locator('body').evaluate(ground);
  expect(new Set([...pieces, paper]).size, 'devices of the ribbon are told apart').toBe(pieces.length + 1);
  const [on, off] = [page.getByTestId('share-toggle'), page.getByTestId('only-here')];
  await settle(page);
  const shown = await on.evaluate(knob);
  expect(shown[0], 'the knob of a switch is seen').not.toBe(shown[1]);
  await on.click();
  await settle(page);
  const hidden = await on.evaluate(knob);
  expect(hidden[0], 'also when it is off').not.toBe(hidden[1]);
  expect(hidden, 'on and off differ').not.toEqual(shown);
  await off.click();
  expect(await off.evaluate((at) => getComputedStyle(at, '::before').content), 'a pressed chip has a mark').toContain('✓');
  await page.getByTestId('prompt').focus();
  expect(await page.locator('.box').evaluate((at) => getComputedStyle(at).outlineStyle), 'the focus of the message').toBe('solid');
  for (const name of ['devices', 'sharing', 'port', 'settings'] as const) {
    await goTo(page, name);
    await isGood(page, 'forced-colours', name, false);
  }
});
