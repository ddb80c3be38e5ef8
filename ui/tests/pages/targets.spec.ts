/** Promises of what is pressed, and of long names: everything that takes a click is at least 24 points each way (WCAG
 *  2.5.8), and a name of 64 letters takes the place of nothing else. */
import { expect, type Page, test } from '@playwright/test';
import { fits } from './good';
import { FIRST_STEPS, goTo, leaveStep, open, openAbout, openConversation, PAGES } from './visit';

const TARGET_MIN = 24;
const LONG_NAME = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbea';

/** What is smaller, as it is written. Links inside a sentence may be: they are as high as its lines. */
async function tooSmall(page: Page): Promise<string[]> {
  return page.evaluate((least) => {
    const found: string[] = [];
    for (const at of document.querySelectorAll('button, summary, select, input, textarea, [role="switch"], [tabindex="0"]')) {
      if (at.matches('.link, .spoken, [hidden]') || !at.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) continue;
      // A choice is pressed anywhere on its name.
      const { width, height } = (at.closest('label') ?? at).getBoundingClientRect();
      if (width === 0 || (width >= least && height >= least)) continue;
      found.push(`${at.outerHTML.replace(/\s+/g, ' ').slice(0, 110)}: ${String(Math.round(width * 10) / 10)} × ${String(Math.round(height * 10) / 10)}`);
    }
    return [...new Set(found)];
  }, TARGET_MIN);
}

for (const width of [1100, 420]) {
  test(`everything that is pressed is large enough, ${String(width)} wide`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { isNew: true });
    for (const step of FIRST_STEPS) {
      expect.soft(await tooSmall(page), `first start, ${step}`).toEqual([]);
      await leaveStep(page, step);
    }
    await openConversation(page, 'Why leaves');
    await page.getByTestId('who').last().click();
    await page.getByTestId('timeline').last().locator('summary').click();
    await page.getByTestId('mark').last().click();
    expect.soft(await tooSmall(page), 'chat').toEqual([]);
    await openAbout(page);
    expect.soft(await tooSmall(page), 'about this chat').toEqual([]);
    await page.keyboard.press('Escape');
    await openConversation(page, 'A program');
    expect.soft(await tooSmall(page), 'code').toEqual([]);
    for (const name of PAGES) {
      await goTo(page, name);
      expect.soft(await tooSmall(page), name).toEqual([]);
    }
  });

  test(`long names of devices and models leave room for the rest, ${String(width)} wide`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    await open(page, { byHand: true });
    await page.evaluate((name) => {
      interface Named { name: string; title: string }
      const { household } = window as unknown as { household: { change(edit: (house: { devices: Named[]; models: Named[] }) => void): void } };
      household.change((house) => {
        for (const device of house.devices) device.name = name;
        for (const model of house.models) model.title = `${name} ${name}`;
      });
    }, LONG_NAME);
    await expect(page.locator('.welcome')).toContainText(LONG_NAME);
    await fits(page, String(width), 'long-names-new-chat');
    const cut = await page.locator('.welcome').evaluate((at) => [...at.children].some((child) => child.getBoundingClientRect().right > at.getBoundingClientRect().right + 1));
    expect(cut, 'the sentence of welcome is inside the page').toBe(false);
    await openConversation(page, 'Why leaves');
    const title = await page.locator('main h1').evaluate((at) => at.getBoundingClientRect().width);
    expect(title, 'room for the title of the chat').toBeGreaterThan(Math.min(140, width * 0.3));
    await fits(page, String(width), 'long-names-chat');
  });
}
