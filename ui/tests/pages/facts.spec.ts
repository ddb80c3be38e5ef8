/** Promises of the details of a computer: good in every width and look, its week in words too, and its kind chosen by
 *  keys. */
import { expect, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo } from './keys';
import { type Chosen, goTo, open, settle } from './visit';

const SIZES = [[420, 900], [1100, 1000], [1600, 900]] as const;
const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' } },
  { name: 'contrast-right-to-left', chosen: { theme: 'contrast', language: 'mirrored' } },
];

for (const { name: look, chosen } of LOOKS) {
  test(`the details of each computer are good in ${look}`, async ({ page }) => {
    for (const [width, height] of SIZES) {
      await page.setViewportSize({ width, height });
      await open(page, { ...chosen, byHand: true });
      await goTo(page, 'devices');
      const rows = page.getByTestId('device-row');
      for (const [at, name] of ['helps', 'has-one-day', 'guest'].entries()) {
        await rows.nth(at).getByTestId('device-more').click();
        await expect(page.getByTestId('device-detail')).toBeFocused();
        await isGood(page, look, `facts-${name}-${String(width)}`);
        await page.keyboard.press('Escape');
      }
      await page.getByTestId('this-device').getByTestId('device-more').click();
      await expect(page.getByTestId('this-detail')).toBeFocused();
      await isGood(page, look, `facts-this-${String(width)}`);
    }
  });
}

test('the week is said day by day, and what a computer brings beside it', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'devices');
  const rows = page.getByTestId('device-row');
  const dell = rows.nth(2);
  await rows.first().getByTestId('device-more').click();
  const detail = page.getByTestId('device-detail');
  await expect(detail.getByTestId('week').getByRole('listitem')).toHaveCount(7);
  await expect(detail.getByTestId('week').getByRole('listitem').last()).toContainText(/day: 4,800 words$/);
  await expect(detail.getByTestId('gain-of')).toContainText('15 words/s with it, 6.8 without.');
  await expect(detail).toContainText('61 °C');
  await page.keyboard.press('Escape');
  await expect(dell.getByText('Not used: you do not trust it yet.')).toBeVisible();
  await dell.getByTestId('device-more').click();
  await expect(detail.getByTestId('gain-of')).toContainText('With it: 9.2 words/s. Without it: 15.');
  await expect(detail.getByTestId('gain-of')).toContainText('Partly guessed');
  // It never helped, and of what it does not tell there is no line.
  await expect(detail.getByTestId('week')).toHaveCount(0);
  await expect(detail).not.toContainText('°C');
});

test('the owner says what kind of computer this is, by keys', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'devices');
  await tabTo(page, 'device-more');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('this-detail')).toBeFocused();
  await tabTo(page, 'device-kind');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await settle(page);
  await expect(page.getByTestId('device-kind')).toHaveValue('desktop');
  await expect(page.getByTestId('this-device').locator('[data-kind]')).toHaveAttribute('data-kind', 'desktop');
});
