/** Promises of what others may have of the graphics cards: what lies there is told with whose it is, the limit is offered
 *  where a card has memory of its own, is off at first, and is set and lifted with keys alone. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo, walk } from './keys';
import { type Chosen, goTo, open } from './visit';

const LIMIT = 'distributed_inference.host.max_lent_gpu_memory_mb';
const LOOKS: { name: string; chosen: Chosen; width: number; said: string[] }[] = [
  {
    name: 'light', chosen: { theme: 'light' }, width: 1100,
    said: ['Intel Iris Xe Graphics: nothing right now.', 'NVIDIA GeForce RTX 4070: 3.2 GB for replies of this computer, 1.1 GB for others.'],
  },
  {
    name: 'german', chosen: { theme: 'light', language: 'de' }, width: 420,
    said: ['Intel Iris Xe Graphics: gerade nichts.', 'NVIDIA GeForce RTX 4070: 3,2 GB für Antworten dieses Computers, 1,1 GB für andere.'],
  },
];

interface Household { settings: { values: Record<string, unknown> }; sharing: { gpus: unknown[] } }

/** What the settings of the household say of the limit, in megabytes. */
async function kept(page: Page): Promise<unknown> {
  return page.evaluate((key) => {
    const { household } = window as unknown as { household: { house: Household } };
    return household.house.settings.values[key];
  }, LIMIT);
}

/** Beside the graphics chip of the processor there is a card with 12 GB. */
async function plugIn(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { household } = window as unknown as { household: { change(edit: (house: Household) => void): void } };
    const card = { number: 1, name: 'NVIDIA GeForce RTX 4070', memory_bytes: 12e9, shares_memory: false, own_bytes: 3.2e9, lent_bytes: 1.1e9 };
    household.change((house) => { house.sharing.gpus = [...house.sharing.gpus, card]; });
  });
}

for (const { name: look, chosen, width, said } of LOOKS) {
  test(`what lies on each card is told, and its limit is set and lifted, in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { ...chosen, byHand: true });
    await goTo(page, 'sharing');
    await expect(page.getByTestId('sharing-card')).toHaveText(said.slice(0, 1));
    // It has no memory of its own: the limit of the memory counts.
    await expect(page.getByTestId('limit-card')).toHaveCount(0);
    await plugIn(page);
    await expect(page.getByTestId('sharing-card')).toHaveText(said);
    const limit = page.getByTestId('limit-card');
    await expect(limit).toHaveAttribute('aria-checked', 'false');
    await limit.scrollIntoViewIfNeeded();
    await isGood(page, look, 'graphics-memory-free');
    await limit.click();
    const field = page.getByTestId('lend-card-memory');
    await expect(field).toHaveValue('6');
    expect(await kept(page)).toBe(6000);
    await field.scrollIntoViewIfNeeded();
    await isGood(page, look, 'graphics-memory-limited');
    for (const [typed, holds] of [['2', 2], ['99', 12], ['0', 0]] as const) {
      await field.fill(typed);
      await field.press('Enter');
      await expect(field).toHaveValue(String(holds));
      expect(await kept(page)).toBe(holds * 1000);
    }
    await limit.click();
    await expect(field).toHaveCount(0);
    expect(await kept(page)).toBeNull();
  });
}

test('the limit of graphics memory is set with keys alone', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'sharing');
  await plugIn(page);
  await tabTo(page, 'limit-card');
  await page.keyboard.press('Space');
  const field = page.getByTestId('lend-card-memory');
  await expect(field).toHaveValue('6');
  await tabTo(page, 'lend-card-memory');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expect(field).toHaveValue('5');
  expect(await kept(page)).toBe(5000);
  await walk(page, 'sharing with a graphics card');
});
