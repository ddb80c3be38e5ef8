/** Promises of every page, in every look: nothing that axe finds, nothing wider than its place. With `PICTURES`
 *  set, a picture of each goes there. */
import { expect, test } from '@playwright/test';
import { fits, isGood } from './good';
import { type Chosen, FIRST_STEPS, goTo, leaveStep, open, openAbout, openConversation, PAGES, pass, TO_THE_END } from './visit';

const LOOKS: { name: string; chosen: Chosen; zoom?: number }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark', chosen: { theme: 'dark' } },
  { name: 'contrast', chosen: { theme: 'contrast' } },
  { name: 'german', chosen: { theme: 'light', language: 'de' } },
  { name: 'right-to-left', chosen: { theme: 'light', language: 'mirrored' } },
  // A window at 200 % has half as many points each way.
  { name: 'zoomed', chosen: { theme: 'light' }, zoom: 2 },
  { name: 'zoomed-dark', chosen: { theme: 'dark' }, zoom: 2 },
  { name: 'huge', chosen: { theme: 'dark', size: 'huge' } },
];

/** Where long words, long sentences and large letters meet small windows. */
const NARROW: { name: string; chosen: Chosen; width: number; height: number }[] = [
  { name: 'zoomed-german', chosen: { language: 'de' }, width: 550, height: 400 },
  { name: 'zoomed-right-to-left', chosen: { language: 'mirrored' }, width: 550, height: 400 },
  { name: 'zoomed-huge-german', chosen: { language: 'de', size: 'huge' }, width: 550, height: 400 },
  // The width to which WCAG 1.4.10 asks pages to flow.
  { name: 'smallest-german', chosen: { language: 'de' }, width: 320, height: 480 },
];

for (const { name: look, chosen, width, height } of NARROW) {
  test(`every page fits in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height });
    await open(page, { ...chosen, isNew: true });
    for (const step of FIRST_STEPS) {
      if (step === 'share') await page.getByTestId('first-limits').click();
      await fits(page, look, `first-start-${step}`);
      await leaveStep(page, step);
    }
    await fits(page, look, 'new-chat');
    await openConversation(page);
    await page.getByTestId('who').last().click();
    await page.getByTestId('timeline').last().locator('summary').click();
    await page.getByTestId('mark').last().click();
    await fits(page, look, 'chat');
    await openAbout(page);
    await fits(page, look, 'chat-sheet');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Control+/');
    await fits(page, look, 'shortcuts');
    await page.keyboard.press('Escape');
    for (const name of PAGES) {
      await goTo(page, name);
      await fits(page, look, name);
    }
  });
}

for (const { name: look, chosen, zoom = 1 } of LOOKS) {
  test(`every page is good in ${look}`, async ({ page }) => {
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (line) => {
      const { url } = line.location();
      // Browsers ask for the icon of a tab; the program has no tabs.
      if (line.type() === 'error' && !url.endsWith('/favicon.ico')) faults.push(`${line.text()} (${url})`);
    });
    await page.setViewportSize({ width: 1100 / zoom, height: 800 / zoom });
    await open(page, chosen);
    await openConversation(page);
    await isGood(page, look, 'chat');
    await page.getByTestId('who').last().click();
    await expect(page.getByTestId('who-row')).toHaveCount(3);
    await isGood(page, look, 'who-helped');
    await page.getByTestId('timeline').last().locator('summary').click();
    await expect(page.getByTestId('timeline-row').first()).toBeVisible();
    await isGood(page, look, 'timeline');
    await page.getByTestId('mark').last().click();
    await expect(page.getByTestId('looks').locator('li')).toHaveCount(2);
    await isGood(page, look, 'looks');
    for (const name of PAGES) {
      await goTo(page, name);
      await isGood(page, look, name);
    }
    expect(faults, 'what the page complained of').toEqual([]);
  });
}

test('in German the checks speak German', async ({ page }) => {
  await open(page, { theme: 'light', language: 'de' });
  await goTo(page, 'checks');
  const found = page.getByTestId('finding');
  await expect(found.first()).toContainText('der Schlüssel liegt in');
  await expect(found.filter({ hasText: 'Firewall' }).first()).toContainText('hindert Geräte daran');
  await expect(found.filter({ hasText: 'does not answer' })).toHaveCount(0);
});

test('a model is downloaded, rests, goes on and is there, and the page is good all the while', async ({ page }) => {
  await open(page, { theme: 'light', byHand: true });
  await goTo(page, 'models');
  await page.getByTestId('find-models').click();
  await expect(page.getByTestId('found-row')).toHaveCount(2);
  await page.getByTestId('get-qwen3-4b').click();
  await pass(page, 1);
  await pass(page, 25);
  await expect(page.getByTestId('download')).toHaveAttribute('data-state', 'loading');
  await page.getByTestId('download-pause').click();
  await expect(page.getByTestId('download')).toHaveAttribute('data-state', 'paused');
  await isGood(page, 'light', 'models-download');
  await page.getByTestId('download-delete').click();
  await isGood(page, 'light', 'models-delete');
  await page.getByTestId('confirm-no').click();
  await page.getByTestId('download-resume').click();
  await pass(page, TO_THE_END);
  await expect(page.getByTestId('model-row')).toHaveCount(3);
  await expect(page.getByTestId('download')).toHaveCount(0);
});

test('a model is found at the hub, opened and downloaded, and what is not found is said', async ({ page }) => {
  await open(page, { theme: 'light', byHand: true });
  await goTo(page, 'models');
  const search = async (words: string) => {
    await page.getByTestId('hub-words').fill(words);
    await page.getByTestId('hub-search').click();
  };
  await search('offline');
  await expect(page.getByTestId('hub-problem')).toContainText('did not answer');
  await search('nothing like it');
  await expect(page.getByText('Nothing was found.')).toBeVisible();
  await search('qwen');
  await expect(page.getByTestId('hub-repositories').getByRole('listitem')).toHaveCount(2);
  await isGood(page, 'light', 'hub-repositories');
  await page.getByRole('button', { name: 'Show the models of unsloth/Qwen3.5-4B-GGUF' }).click();
  const models = page.getByTestId('hub-models').getByRole('listitem');
  await expect(models).toHaveCount(3);
  await expect(models.nth(2)).toContainText('84 GB in 2 files');
  await models.nth(0).getByRole('button').click();
  await pass(page, 1);
  await expect(models.nth(0)).toContainText('on its way');
  await expect(page.getByTestId('download')).toHaveCount(1);
  await isGood(page, 'light', 'hub-models');
  await page.getByTestId('hub-back').click();
  await page.getByRole('button', { name: 'Show the models of someone/Qwen-odd-GGUF' }).click();
  await expect(page.getByText('someone/Qwen-odd-GGUF has no model')).toBeVisible();
});

test('what is set on the page of sharing is what the house has then', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'sharing');
  await page.getByTestId('quiet-hours').click();
  await expect(page.getByTestId('quiet-from')).toHaveValue('22:00');
  await page.getByTestId('quiet-to').fill('06:30');
  await page.getByTestId('pause-hour').click();
  await expect(page.getByTestId('sharing-now')).toContainText('Paused until');
  await page.getByTestId('resume-sharing').click();
  await expect(page.getByTestId('sharing-now')).toContainText('On: nobody needs it right now');
  await goTo(page, 'chat');
  await goTo(page, 'sharing');
  await expect(page.getByTestId('quiet-to')).toHaveValue('06:30');
});
