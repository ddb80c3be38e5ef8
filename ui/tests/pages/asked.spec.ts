/** Promises of the list of what other computers asked: it stands under sharing with who, when and how much, unfolds, and is
 *  forgotten when that is wanted, with a pointer and with keys alone. */
import { expect, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo, walk } from './keys';
import { type Chosen, goTo, open } from './visit';

const LOOKS: { name: string; chosen: Chosen; width: number; knocked: string }[] = [
  { name: 'light', chosen: { theme: 'light' }, width: 1100, knocked: 'Refused 1,204 times: it is not paired with this computer.' },
  { name: 'dark', chosen: { theme: 'dark', size: 'huge' }, width: 900, knocked: 'Refused 1,204 times: it is not paired with this computer.' },
  { name: 'german', chosen: { theme: 'light', language: 'de' }, width: 420, knocked: '1.204 Mal abgelehnt: nicht mit diesem Computer gekoppelt.' },
  { name: 'mirrored', chosen: { theme: 'light', language: 'mirrored' }, width: 1100, knocked: '' },
];

for (const { name: look, chosen, width, knocked } of LOOKS) {
  test(`what others asked is listed, and forgotten when that is wanted, in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { ...chosen, byHand: true });
    await goTo(page, 'sharing');
    const lines = page.getByTestId('asked');
    await expect(lines).toHaveCount(5);
    await page.getByTestId('asked-more').click();
    await expect(lines).toHaveCount(7);
    await expect(lines.nth(5)).toContainText(knocked);
    await lines.nth(3).scrollIntoViewIfNeeded();
    await isGood(page, look, 'asked');
    await page.getByTestId('asked-clear').click();
    await isGood(page, look, 'asked-clear');
    await page.getByTestId('confirm-yes').click();
    await expect(lines).toHaveCount(1);
  });
}

test('the list is unfolded and forgotten with keys alone', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'sharing');
  const lines = page.getByTestId('asked');
  await expect(lines).toHaveCount(5);
  await walk(page, 'sharing with what others asked');
  await tabTo(page, 'asked-more');
  await page.keyboard.press('Enter');
  await expect(lines).toHaveCount(7);
  await tabTo(page, 'asked-clear');
  await page.keyboard.press('Space');
  await tabTo(page, 'confirm-yes');
  await page.keyboard.press('Enter');
  await expect(lines).toHaveCount(1);
});
