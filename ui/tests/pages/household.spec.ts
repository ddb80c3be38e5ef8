/** Promises of the page of the household: good with few and many computers, in every width and look, with the details
 *  open too; nothing that is pressed lies under them. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { tabTo } from './keys';
import { type Chosen, goTo, open, settle } from './visit';

const SIZES = [[420, 900], [1100, 800], [1600, 900]] as const;
const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark-german', chosen: { theme: 'dark', language: 'de' } },
  { name: 'contrast-right-to-left', chosen: { theme: 'contrast', language: 'mirrored' } },
];

interface Device { id: string; name: string; paired: boolean; connected: boolean; unused: string | null; unused_because: string | null }

/** The household has so many computers, this one among them, and a reply is made. */
async function makeIt(page: Page, computers: number): Promise<void> {
  await page.evaluate((count) => {
    const { household } = window as unknown as { household: { change(edit: (house: { devices: Device[]; sharing: { answering: boolean } }) => void): void } };
    household.change((house) => {
      const [dad] = house.devices;
      if (!dad) return;
      const names = ['Großmutters Rechner', 'كمبيوتر العائلة', 'Attic server', 'DESKTOP-7F3K2QX', 'Study', 'Workshop', 'Guest tablet'];
      const more = names.map((name, at) => ({ ...dad, id: `more${String(at)}`, name, ...(at < 4 ? {} : { connected: false, unused: 'away', unused_because: 'It does not answer.' }) }));
      house.devices = [...house.devices, ...more].slice(0, count - 1);
      house.sharing.answering = count > 1;
    });
  }, computers);
}

for (const { name: look, chosen } of LOOKS) {
  for (const [width, height] of SIZES) {
    test(`one, two, five and twelve computers are good in ${look}, ${String(width)} wide`, async ({ page }) => {
      await page.setViewportSize({ width, height });
      await open(page, { ...chosen, byHand: true });
      await goTo(page, 'devices');
      // Of five one is only seen, and past seven the others are folded.
      for (const { computers, rows } of [{ computers: 12, rows: 7 }, { computers: 5, rows: 3 }, { computers: 2, rows: 1 }, { computers: 1, rows: 0 }]) {
        await makeIt(page, computers);
        await expect(page.getByTestId('device-row')).toHaveCount(rows);
        await expect(page.getByTestId('picture')).toBeVisible({ visible: width > 420 });
        await isGood(page, look, `household-${String(computers)}-${String(width)}`);
      }
      await page.getByTestId('this-device').getByTestId('device-more').click();
      await expect(page.getByTestId('this-detail')).toBeFocused();
      await isGood(page, look, `household-detail-${String(width)}`);
    });
  }
}

test('with the details open nothing that is pressed lies under them, and Escape closes them', async ({ page }) => {
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    await open(page, {});
    await goTo(page, 'devices');
    await page.getByTestId('device-row').first().getByTestId('device-more').click();
    await expect(page.getByTestId('device-detail')).toBeFocused();
    await settle(page);
    const covered = await page.evaluate(() => {
      const pane = document.querySelector('[data-testid="device-detail"]')?.getBoundingClientRect();
      const pressed = [...document.querySelectorAll<HTMLElement>('main :is(button, select, input)')];
      return pressed.filter((at) => {
        if (pane === undefined || at.tabIndex < 0 || at.closest('[inert], [data-testid="device-detail"]') || !at.checkVisibility()) return false;
        const box = at.getBoundingClientRect();
        return box.right > pane.left + 1 && box.left < pane.right - 1;
      }).map((at) => at.outerHTML.slice(0, 90));
    });
    expect(covered, String(width)).toEqual([]);
    await page.keyboard.press('Escape');
    await expect(page.getByTestId('device-detail')).toHaveCount(0);
    await expect(page.getByTestId('device-row').first().getByTestId('device-more')).toBeFocused();
  }
});

test('the details are opened and left by keys', async ({ page }) => {
  await open(page, {});
  await goTo(page, 'devices');
  await tabTo(page, 'device-more');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('this-detail')).toBeFocused();
  await tabTo(page, 'rename-device');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('this-detail'), 'Escape ends the naming first').toBeVisible();
  await tabTo(page, 'pane-close');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('device-more').first()).toBeFocused();
});

test('whoever asks for less movement sees no dots, and the way of the reply all the same', async ({ page }) => {
  await page.emulateMedia({ reducedMotion: 'reduce' });
  await open(page, { byHand: true });
  await goTo(page, 'devices');
  await makeIt(page, 5);
  await expect(page.locator('.line.route').first()).toBeVisible();
  expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
});

test('a long name has two lines in the picture, and is whole in the tooltip and in its row', async ({ page }) => {
  const name = 'The very old computer that stands in the cellar beside the wine';
  for (const language of ['en', 'mirrored'] as const) {
    await open(page, { language, byHand: true });
    await goTo(page, 'devices');
    await makeIt(page, 12);
    await page.evaluate((long) => {
      const { household } = window as unknown as { household: { change(edit: (house: { devices: Device[] }) => void): void } };
      household.change((house) => { for (const device of house.devices) device.name = long; });
    }, name);
    const labels = page.getByTestId('picture').locator('.label');
    await expect(labels).toHaveCount(12);
    const drawn = await labels.evaluateAll((all) => all.map((label) => {
      const text = label.querySelector('b');
      const lines = text === null ? 0 : text.clientHeight / Number.parseFloat(getComputedStyle(text).lineHeight);
      return { lines: Math.round(lines), title: label.getAttribute('title') ?? '' };
    }));
    expect(drawn.filter(({ title }) => title.startsWith(`${name}: `)).map(({ lines }) => lines)).toEqual(Array.from({ length: 11 }, () => 2));
    await expect(page.getByTestId('device-row').first().locator('h2')).toHaveText(name);
  }
});

test('what of the gain is measured is said behind a button, by keys', async ({ page }) => {
  await open(page, { byHand: true });
  await goTo(page, 'devices');
  await expect(page.getByTestId('gain-line')).toContainText('This laptop alone: up to Qwen3 4B, 5.3 words/s.');
  await expect(page.getByText('Together is measured')).toHaveCount(0);
  await tabTo(page, 'gain-how');
  await page.keyboard.press('Enter');
  await expect(page.getByText('Together is measured, on the last reply of Qwen2.5 7B; alone is predicted.')).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(page.getByText('Together is measured')).toHaveCount(0);
});
