/** Promises of an empty chat: what to begin with and the strip over the message field are good in every width and look,
 *  and are used by keys alone. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo } from './keys';
import { type Chosen, open, pass, TO_THE_END } from './visit';

const SIZES = [[420, 900], [1100, 800], [1600, 900]] as const;
const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' } },
  { name: 'contrast-right-to-left', chosen: { theme: 'contrast', language: 'mirrored' } },
];

/** Begins the download of the model that is suggested. */
async function pull(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { household } = window as unknown as { household: { pull(source: string): Promise<unknown> } };
    void household.pull('qwen3-4b');
  });
  await pass(page, 1);
  await pass(page, 25);
  await expect(page.getByTestId('strip')).toHaveAttribute('data-kind', 'coming');
}

/** The download goes wrong. */
async function fail(page: Page): Promise<void> {
  await page.evaluate(() => {
    interface One { state: string; problem: unknown }
    const { household } = window as unknown as { household: { change(edit: (house: { downloads: One[] }) => void): void } };
    household.change((house) => {
      for (const one of house.downloads) Object.assign(one, { state: 'failed', problem: { code: 'disk_full', sentence: '', wording: null } });
    });
  });
}

for (const { name: look, chosen } of LOOKS) for (const [width, height] of SIZES) {
  test(`an empty chat and its strip are good in ${look}, ${String(width)} wide`, async ({ page }) => {
    await page.setViewportSize({ width, height });
    await open(page, { ...chosen, byHand: true });
    const strip = page.getByTestId('strip');
    await expect(page.getByTestId('starter')).toHaveCount(4);
    await isGood(page, look, `empty-${String(width)}`);
    await page.getByTestId('starter').first().click();
    await expect(page.getByTestId('told')).toBeVisible();
    await pull(page);
    await isGood(page, look, `strip-coming-${String(width)}`);
    await page.getByTestId('strip-pause').click();
    await expect(strip).toHaveAttribute('data-kind', 'paused');
    await isGood(page, look, `strip-paused-${String(width)}`);
    await fail(page);
    await expect(strip).toHaveAttribute('data-kind', 'failed');
    await isGood(page, look, `strip-failed-${String(width)}`);
    await page.getByTestId('strip-resume').click();
    await pass(page, TO_THE_END);
    await expect(strip).toHaveAttribute('data-kind', 'ready');
    await isGood(page, look, `strip-ready-${String(width)}`);
  });
}

test('by keys alone a message is begun, and a model rests, goes on and is used, and the focus stays there', async ({ page }) => {
  await open(page, { byHand: true });
  await tabTo(page, 'starter');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('prompt')).toBeFocused();
  await page.keyboard.type('fractions');
  await expect(page.getByTestId('prompt')).toHaveValue('Help me with my homework: fractions');
  await tabTo(page, 'told');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('told')).toHaveCount(0);
  await expect(page.getByTestId('prompt')).toBeFocused();
  await pull(page);
  await tabTo(page, 'strip-pause');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('strip-resume')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('strip-pause')).toBeFocused();
  await pass(page, TO_THE_END);
  await expect(page.getByTestId('strip-use')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('strip')).toHaveCount(0);
  await expect(page.getByTestId('model')).toHaveValue('qwen3-4b');
  await expect(page.getByTestId('prompt')).toBeFocused();
});
