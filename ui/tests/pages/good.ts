/** What every view of a page must be: nothing that axe finds, and nothing that is wider than its place. With
 *  `PICTURES` set, a picture of each view goes there. */
import { AxeBuilder } from '@axe-core/playwright';
import { expect, type Page } from '@playwright/test';
import { settle } from './visit';

const pictures = process.env['PICTURES'];

/** The whole of it; `look` and `name` say where a fault was. Without `colours` where the system's own are drawn: axe
 *  reads those of the style sheets. */
export async function isGood(page: Page, look: string, name: string, colours = true): Promise<void> {
  // Colours that still fade in are not those that are read.
  await settle(page);
  // In the page itself: a second page that gathers what was found in several frames, of which there are none, doubles
  // the time. What passed is not gathered either.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] });
  const found = await axe.disableRules(colours ? [] : ['color-contrast']).analyze();
  const said = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 160)).join(' | ')}`);
  expect.soft(said, `${look} ${name}`).toEqual([]);
  await fits(page, look, name);
}

/** Nothing has to be scrolled sideways but code and tables, and nothing but a title is cut. */
export async function fits(page: Page, look: string, name: string): Promise<void> {
  await settle(page);
  expect.soft(await tooWide(page), `${look} ${name} is wider than its place`).toEqual([]);
  if (pictures) await page.screenshot({ path: `${pictures}/${look}-${name}.png`, animations: 'disabled' });
}

/** Whatever holds more than it is wide. The document alone would not tell: its body hides what is too much, and
 *  the pages scroll in parts of their own. */
async function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const mayScroll = (at: Element) => at.matches('pre, input, select') || at.querySelector(':scope > table') !== null;
    const found: string[] = [];
    for (const at of document.querySelectorAll('html, body, body *')) {
      if (at.clientWidth === 0 || !at.checkVisibility({ visibilityProperty: true })) continue;
      // A point more or less is rounding.
      if (at.scrollWidth <= at.clientWidth + 1 || mayScroll(at)) continue;
      const { overflowX, textOverflow, clipPath } = getComputedStyle(at);
      // For readers alone, as `.spoken` is.
      if (clipPath === 'inset(50%)') continue;
      const isFrame = overflowX !== 'visible' || at.matches('html, body, button');
      if (isFrame && textOverflow !== 'ellipsis') {
        found.push(`${at.outerHTML.slice(0, 100)} is ${String(at.clientWidth)} wide and holds ${String(at.scrollWidth)}`);
      }
    }
    return found;
  });
}
