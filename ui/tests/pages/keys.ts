/** A person with a keyboard alone: which stops a page has, how Tab goes through them, and how to get to one. */
import { expect, type Page } from '@playwright/test';
import { settle } from './visit';

/** More stops than any page has, fields of several parts counted. */
const TABS_MAX = 200;

interface Stop {
  /** Its place among the stops; -1 for a part that scrolls and has nothing else to stop at, which browsers add. */
  at: number;
  name: string;
  /** What is wrong with how it shows that it has the focus; empty where nothing is. */
  fault: string;
}

/** The controls that Tab must reach, in reading order; each is numbered in the page. What is wrong with the
 *  order itself is said, too. */
export async function stopsOf(page: Page): Promise<{ names: string[]; faults: string[] }> {
  // What still slides is not where it will be read.
  await settle(page);
  return page.evaluate(() => {
    const scope = document.querySelector('dialog[open]') ?? document;
    for (const old of document.querySelectorAll('[data-stop]')) old.removeAttribute('data-stop');
    const found = [...scope.querySelectorAll<HTMLElement>('a[href], button, input, select, textarea, summary, [tabindex]')].filter((at) => {
      const isOff = at.matches(':disabled, [inert] *') || at.tabIndex < 0 || !at.checkVisibility({ visibilityProperty: true });
      // Of radio buttons with one name, Tab stops at the chosen one.
      const others = at instanceof HTMLInputElement && at.type === 'radio' ? [...document.getElementsByName(at.name)] as HTMLInputElement[] : [];
      return !isOff && (others.length === 0 || at === (others.find((other) => other.checked) ?? others[0]));
    });
    found.forEach((at, index) => { at.dataset['stop'] = String(index); });
    const name = (at: HTMLElement) => at.dataset['testid'] ?? at.getAttribute('aria-label') ?? at.textContent.trim().slice(0, 40);
    const faults: string[] = [];
    const isRightToLeft = document.documentElement.dir === 'rtl';
    const group = (at: Element) => at.closest('section, form, fieldset, nav, li, header, footer, dialog, aside, main');
    found.forEach((at, index) => {
      const last = found[index - 1];
      if (at.tabIndex > 0) faults.push(`${name(at)} jumps the queue`);
      if (!last || group(last) !== group(at)) return;
      const [before, now] = [last.getBoundingClientRect(), at.getBoundingClientRect()];
      const goesUp = now.bottom <= before.top + 1;
      const isBeside = now.top < before.bottom - 4 && before.top < now.bottom - 4;
      const goesBack = isBeside && (isRightToLeft ? now.left >= before.right : now.right <= before.left);
      if (goesUp || goesBack) faults.push(`${name(at)} comes after ${name(last)} and stands before it`);
    });
    return { names: found.map(name), faults };
  });
}

/** Walks through a page by Tab from its first stop until the focus leaves it, and proves that every stop was
 *  reached, once, in order, seen and not covered. */
export async function walk(page: Page, where: string): Promise<void> {
  const { names, faults } = await stopsOf(page);
  expect.soft(faults, `${where}: reading order`).toEqual([]);
  const unseen: string[] = [];
  const next = async (): Promise<Stop | null> => {
    const stop = await tab(page);
    if (stop !== null && stop.fault !== '') unseen.push(`${stop.name}: ${stop.fault}`);
    return stop;
  };
  let stop = await next();
  for (let tabs = 0; stop?.at !== 0; tabs += 1) {
    expect(tabs, `${where}: Tab never comes to “${names[0] ?? ''}”`).toBeLessThan(TABS_MAX);
    stop = await next();
  }
  const reached: string[] = [];
  let before = -1;
  for (let tabs = 0; stop !== null && !(stop.at === 0 && reached.length > 1); tabs += 1) {
    expect(tabs, `${where}: “${stop.name}” does not let the focus go`).toBeLessThan(TABS_MAX);
    // A field of several parts, such as a time, keeps the focus for some Tabs.
    if (stop.at >= 0 && stop.at !== before) reached.push(names[stop.at] ?? '?');
    if (stop.at >= 0) before = stop.at;
    stop = await next();
  }
  expect.soft(reached, `${where}: the stops of Tab`).toEqual(names);
  expect.soft([...new Set(unseen)], `${where}: the focus that is not seen`).toEqual([]);
}

/** Tab until a control has the focus. */
export async function tabTo(page: Page, testId: string): Promise<void> {
  const wanted = page.getByTestId(testId).first();
  await expect(wanted).toBeVisible();
  for (let tabs = 0; tabs < TABS_MAX; tabs += 1) {
    if (await wanted.evaluate((at) => at === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab never comes to ${testId}`);
}

/** One Tab; null where nothing of the page has the focus then. */
async function tab(page: Page): Promise<Stop | null> {
  await page.keyboard.press('Tab');
  return page.evaluate(async () => {
    // What the focus scrolls is told to the page with the next frame, and drawn with the one after; no hand is faster.
    for (let frames = 0; frames < 2; frames += 1) await new Promise((drawn) => { requestAnimationFrame(drawn); });
    const at = document.activeElement;
    if (!(at instanceof HTMLElement) || at === document.body) return null;
    const dialog = document.querySelector('dialog[open]');
    const box = at.getBoundingClientRect();
    // The prompt draws its focus around the whole composer.
    const ring = getComputedStyle(at.dataset['testid'] === 'prompt' ? at.closest('.box') ?? at : at);
    const [left, right] = [Math.max(0, box.left), Math.min(innerWidth, box.right)];
    const [top, bottom] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
    const hit = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
    // Parts of a field are in a tree of its own, and a select is covered by its arrow.
    const isHit = hit !== null && (at.contains(hit) || hit.contains(at));
    const fault = dialog !== null && !dialog.contains(at) ? 'is outside the dialog'
      : ring.outlineStyle === 'none' || parseFloat(ring.outlineWidth) === 0 ? 'shows nothing'
      : right - left < Math.min(8, box.width) || bottom - top < Math.min(8, box.height) ? 'is out of view'
        : !isHit ? `lies under ${hit?.outerHTML.slice(0, 80) ?? 'nothing'}` : '';
    const name = at.dataset['testid'] ?? at.getAttribute('aria-label') ?? at.textContent.trim().slice(0, 40);
    return { at: Number(at.dataset['stop'] ?? -1), name, fault };
  });
}
