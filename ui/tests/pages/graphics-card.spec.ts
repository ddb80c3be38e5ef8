/** Promises of the switch *Use the graphics card*: automatically, always or never, and the one card of several that the
 *  file names; good in every look, chosen with keys alone, and what the file says is shown and not lost. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo } from './keys';
import { type Chosen, goTo, open } from './visit';

const BACKEND = 'distributed_inference.backend';
const LOOKS: { name: string; chosen: Chosen; width: number; said: string[] }[] = [
  { name: 'light', chosen: { theme: 'light' }, width: 1100, said: ['Automatically', 'Always', 'Never'] },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' }, width: 420, said: ['Automatisch', 'Immer', 'Nie'] },
];

interface Household { settings: { values: Record<string, unknown> } }

/** What the settings of the household say of what computes. */
async function kept(page: Page): Promise<unknown> {
  return page.evaluate((key) => {
    const { household } = window as unknown as { household: { house: Household } };
    return household.house.settings.values[key];
  }, BACKEND);
}

/** The file of the settings names what computes. */
async function name(page: Page, backend: string): Promise<void> {
  await page.evaluate(([key, value]) => {
    const { household } = window as unknown as { household: { change(edit: (house: Household) => void): void } };
    household.change((house) => { house.settings.values[key] = value; });
  }, [BACKEND, backend] as const);
}

for (const { name: look, chosen, width, said } of LOOKS) {
  test(`the graphics card is used automatically, always or never, in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { ...chosen, byHand: true });
    await goTo(page, 'settings');
    const choice = page.getByTestId('use-card');
    await expect(choice).toHaveValue('auto');
    for (const [at, value] of ['auto', 'gpu', 'native'].entries()) {
      await choice.selectOption(value);
      await expect(choice).toHaveValue(value);
      await expect(choice.locator('option:checked')).toHaveText(said[at] ?? '');
      expect(await kept(page)).toBe(value);
      await isGood(page, look, `graphics-card-${value}`);
    }
  });

  test(`one card of several that the file names is shown until something else is chosen, in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { ...chosen, byHand: true });
    await goTo(page, 'settings');
    const choice = page.getByTestId('use-card');
    for (const card of ['gpu:0', 'gpu:1']) {
      await name(page, card);
      await expect(choice).toHaveValue(card);
      await expect(choice.locator('option:checked')).toContainText(card);
      await expect(choice.locator('option')).toHaveCount(4);
    }
    await isGood(page, look, 'graphics-card-named');
    await choice.selectOption('auto');
    expect(await kept(page)).toBe('auto');
    await expect(choice.locator('option')).toHaveCount(3);
  });
}

test('the graphics card is chosen with keys alone', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'settings');
  const choice = page.getByTestId('use-card');
  await tabTo(page, 'use-card');
  await page.keyboard.press('End');
  await expect(choice).toHaveValue('native');
  expect(await kept(page)).toBe('native');
  await page.keyboard.press('ArrowUp');
  await expect(choice).toHaveValue('gpu');
});
