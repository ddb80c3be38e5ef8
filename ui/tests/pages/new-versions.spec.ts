/** Promises of what Settings say of new versions: nothing to do, one that can be installed, one that its owner installs, a
 *  look that failed; good in every look, and used with keys alone. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo } from './keys';
import { type Chosen, goTo, open } from './visit';

const LOOKS: { name: string; chosen: Chosen; width: number; there: string }[] = [
  { name: 'light', chosen: { theme: 'light' }, width: 1100, there: 'Version 0.2.0 is there. This is 0.1.0.' },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' }, width: 420, there: 'Fassung 0.2.0 ist da. Dies ist 0.1.0.' },
];
const NEWER = {
  version: '0.2.0',
  file: 'inglenook_0.2.0_amd64.deb',
  bytes: 73_400_000,
  notes: { en: 'Replies begin sooner on old laptops.\nThe tray says who is helped.', de: 'Antworten beginnen auf alten Laptops früher.\nDer Infobereich sagt, wem geholfen wird.' },
};

interface Household { updates: Record<string, unknown> }

/** The program behind the page has found out something. */
async function found(page: Page, updates: Record<string, unknown>): Promise<void> {
  await page.evaluate((news) => {
    const { household } = window as unknown as { household: { change(edit: (house: Household) => void): void } };
    household.change((house) => { house.updates = { ...house.updates, is_looking: false, ...news }; });
  }, updates);
}

for (const { name: look, chosen, width, there } of LOOKS) {
  test(`every state of new versions is good, in ${look}`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { ...chosen, byHand: true });
    await goTo(page, 'settings');
    await page.getByTestId('new-versions').scrollIntoViewIfNeeded();
    await isGood(page, look, 'version-newest');
    await found(page, { newer: NEWER });
    await expect(page.getByTestId('version-state')).toHaveText(there);
    await isGood(page, look, 'version-there');
    await found(page, { newer: { ...NEWER, device: 'Arbeitszimmer-PC' } });
    await expect(page.getByTestId('version-from')).toContainText('Arbeitszimmer-PC');
    await isGood(page, look, 'version-from-house');
    await found(page, { newer: NEWER, way: 'apt' });
    await expect(page.getByTestId('version-way')).toContainText('sudo apt install ./inglenook_0.2.0_amd64.deb');
    await isGood(page, look, 'version-by-hand');
    await found(page, { way: 'itself', trouble: { kind: 'not_installed', reason: 'There is no room left on the disk.' } });
    await isGood(page, look, 'version-failed');
    await found(page, { trouble: null, is_installing: true });
    await expect(page.getByTestId('install-update')).toHaveCount(0);
    await isGood(page, look, 'version-installing');
    await found(page, { can_look: false, is_installing: false, newer: null, looked: null });
    await expect(page.getByTestId('when-new-version')).toHaveCount(0);
    await isGood(page, look, 'version-nowhere');
  });
}

test('a new version is looked for and installed with keys alone', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'settings');
  await tabTo(page, 'look-for-update');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('version-state')).toHaveText('Looking for a new version…');
  await found(page, { newer: NEWER });
  await tabTo(page, 'install-update');
  await page.keyboard.press('Space');
  await expect(page.getByTestId('version-state')).toContainText('starts anew by itself');
});
