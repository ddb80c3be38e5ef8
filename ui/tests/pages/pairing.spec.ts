/** Promises of the dialog that pairs: each of its steps is good in every look and width, and of one size. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { type Chosen, goTo, open, pass, settle } from './visit';

const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' } },
  { name: 'contrast-right-to-left', chosen: { theme: 'contrast', language: 'mirrored' } },
];
/** The other computer has answered after so many tokens. */
const ANSWERED = 10;
const SIZES = [[420, 900], [1100, 800], [1600, 900]] as const;

interface Kitchen { name: string; their_terms: { answered: boolean; helps: boolean; asks: boolean } | null }
interface House { devices: Kitchen[]; pairing: unknown }

async function change(page: Page, what: 'code-gone' | 'confirmed'): Promise<void> {
  await page.evaluate((which) => {
    const { household } = window as unknown as { household: { change(edit: (house: House) => void): void } };
    household.change((house) => {
      if (which === 'code-gone') house.pairing = null;
      for (const one of house.devices) if (which === 'confirmed' && one.name === 'Kitchen PC') one.their_terms = { answered: true, helps: true, asks: true };
    });
  }, what);
}

for (const { name: look, chosen } of LOOKS) {
  for (const [width, height] of SIZES) {
    test(`every step of pairing is good in ${look}, ${String(width)} wide`, async ({ page }) => {
      await page.setViewportSize({ width, height });
      await open(page, { ...chosen, byHand: true });
      await goTo(page, 'devices');
      const sizes = new Set<string>();
      const isGoodStep = async (step: string): Promise<void> => {
        await isGood(page, look, `pairing-${step}-${String(width)}`);
        const box = await page.getByTestId('pairing').boundingBox();
        sizes.add(`${String(box?.width)} × ${String(box?.height)}`);
        const isCut = await page.getByTestId('pairing').evaluate((at) => at.scrollHeight > at.clientHeight + 1);
        expect.soft(isCut, `${step} is taller than its dialog`).toBe(false);
      };
      await page.getByTestId('add-device').click();
      await isGoodStep('who');
      await page.getByTestId('show-code').click();
      await expect(page.getByTestId('pair-code')).toBeVisible();
      await isGoodStep('show');
      await change(page, 'code-gone');
      await expect(page.getByTestId('code-gone')).toBeVisible();
      await isGoodStep('gone');
      await page.keyboard.press('Escape');
      await page.getByTestId('seen-device').filter({ hasText: 'Kitchen PC' }).getByRole('button').click();
      await expect(page.getByTestId('type-code')).toBeFocused();
      await page.keyboard.type('48392');
      await isGoodStep('type');
      await page.keyboard.type('1');
      await pass(page, ANSWERED);
      await expect(page.getByTestId('join-problem')).toBeVisible();
      await isGoodStep('wrong');
      await page.keyboard.type('483920');
      await pass(page, ANSWERED);
      await expect(page.getByTestId('help-question')).toBeVisible();
      await isGoodStep('paired');
      await page.getByTestId('help-each-other').click();
      await expect(page.getByTestId('confirm-there')).toBeVisible();
      await isGoodStep('confirm');
      await change(page, 'confirmed');
      await settle(page);
      await isGoodStep('confirmed');
      expect([...sizes], 'one size for every step').toHaveLength(1);
      await page.getByTestId('pair-done').click();
      await expect(page.getByTestId('pairing')).toHaveCount(0);
    });
  }
}

test('at 200 % and with large letters the steps scroll, and nothing is out of reach', async ({ page }) => {
  await page.setViewportSize({ width: 550, height: 400 });
  await open(page, { language: 'de', size: 'huge' });
  await goTo(page, 'devices');
  await page.getByTestId('add-device').click();
  await isGood(page, 'huge', 'pairing-who');
  await page.getByTestId('type-here').click();
  await expect(page.getByTestId('type-code')).toBeInViewport();
  await page.getByTestId('not-listed').click();
  await page.getByTestId('type-address').fill('10.0.0.9:1');
  await page.getByTestId('type-code').fill('483920');
  await expect(page.getByTestId('join-problem')).toBeVisible();
  await isGood(page, 'huge', 'pairing-no-answer');
  await page.getByTestId('join').scrollIntoViewIfNeeded();
  await expect(page.getByTestId('join')).toBeInViewport();
});
