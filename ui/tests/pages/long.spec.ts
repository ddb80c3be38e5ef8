/** Promises of a chat of many messages: few of them are mounted, wherever the reader is; and nothing that a person
 *  does with a page shows it. Of numbers of messages, not of time. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { settle } from './visit';

const MESSAGES = 1000;
/** More than are in view, with as much above and below again. */
const MOUNTED_MAX = 60;
/** Frames without a change after which a page counts as still. */
const STILL_FRAMES = 60;

async function open(page: Page, messages = MESSAGES): Promise<void> {
  await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
  await page.goto(`/?by-hand&long=${String(messages)}`);
  await page.getByTestId('conversation').last().locator('.title').click();
  await expect(said(page, `Answer ${String(messages / 2)}.`)).toBeInViewport();
}

/** The paragraph that says exactly this. */
function said(page: Page, text: string) {
  return page.getByTestId('reply-text').getByText(text, { exact: true });
}

function mounted(page: Page): Promise<number> {
  return page.locator('[data-testid="reply"], [data-testid="person"]').count();
}

function log(page: Page) {
  return page.getByRole('log');
}

test('few messages are mounted at the end, in the middle and at the beginning', async ({ page }) => {
  await open(page);
  expect(await mounted(page)).toBeLessThan(MOUNTED_MAX);
  await log(page).evaluate((at) => { at.scrollTop = at.scrollHeight / 2; });
  await expect(page.getByTestId('reply').nth(2)).toBeAttached();
  await expect(async () => { expect(await inView(page)).toBeGreaterThan(0); }).toPass();
  expect(await mounted(page)).toBeLessThan(MOUNTED_MAX);
  await log(page).focus();
  await page.keyboard.press('Home');
  await expect(said(page, 'Answer 1.')).toBeInViewport();
  expect(await mounted(page)).toBeLessThan(MOUNTED_MAX);
  await page.keyboard.press('End');
  await expect(said(page, 'Answer 500.')).toBeInViewport();
});

/** How many messages are in view. */
function inView(page: Page): Promise<number> {
  return page.locator('article').evaluateAll((all) =>
    all.filter((one) => { const { top, bottom } = one.getBoundingClientRect(); return bottom > 0 && top < innerHeight; }).length);
}

test('a key in the message field draws no message anew', async ({ page }) => {
  await open(page);
  await settle(page);
  await page.getByTestId('prompt').click();
  await page.evaluate((frames) => {
    const seen = { changes: 0 };
    const watch = new MutationObserver((changes) => { seen.changes += changes.length; });
    watch.observe(document.querySelector('[role="log"]') ?? document.body, { childList: true, subtree: true, characterData: true, attributes: true });
    Object.assign(window, { seen });
    // Messages are mounted and measured for a while after a chat was opened, on a busy machine for longer.
    return new Promise<void>((resolve) => {
      let [before, still] = [0, 0];
      const look = (): void => {
        still = seen.changes === before ? still + 1 : 0;
        before = seen.changes;
        if (still < frames) { requestAnimationFrame(look); return; }
        seen.changes = 0;
        resolve();
      };
      look();
    });
  }, STILL_FRAMES);
  await page.keyboard.type('several words');
  await expect(page.getByTestId('prompt')).toHaveValue('several words');
  expect(await page.evaluate(() => (window as unknown as { seen: { changes: number } }).seen.changes)).toBe(0);
});

for (const engine of ['that keeps its place', 'like WebKit, that does not'] as const) {
  test(`what is read stays in its place while messages come above it, in a browser ${engine}`, async ({ page }) => {
    await page.addInitScript((has) => {
      const supports = CSS.supports.bind(CSS) as (name: string, value: string) => boolean;
      CSS.supports = (name: string, value?: string) => (name === 'overflow-anchor' ? has : supports(name, value ?? ''));
    }, engine === 'that keeps its place');
    await goesUp(page);
  });
}

async function goesUp(page: Page): Promise<void> {
  await open(page);
  // Up over messages that nobody has seen: their real heights come while they are scrolled to.
  for (let turn = 0; turn < 40; turn += 1) {
    await log(page).evaluate((at) => { at.scrollBy(0, -600); });
    await expect.poll(() => firstInView(page), `turn ${String(turn)}`).not.toBeNull();
    const seen = await firstInView(page);
    // Whatever is mounted above meanwhile.
    await drawn(page);
    const later = await placeOf(page, seen?.text ?? '');
    expect(Math.abs((later ?? Infinity) - (seen?.top ?? 0)), `turn ${String(turn)}`).toBeLessThan(2);
  }
  expect((await firstInView(page))?.text, 'it went up').not.toMatch(/49\d|500/);
}

/** Waits until the page was drawn, with all that came of it. */
function drawn(page: Page): Promise<void> {
  return page.evaluate(() => new Promise<void>((done) => {
    let left = 4;
    const next = (): void => { if (left-- === 0) done(); else requestAnimationFrame(next); };
    next();
  }));
}

/** How far down each question and answer stands, and whether it goes on below the edge of the list, as it is painted:
 *  between two frames a reply may have grown, and the list has not settled yet. Whoever observes later is told later, so the
 *  page's own observers have settled it. */
function painted(page: Page): Promise<{ text: string; top: number; isInView: boolean }[]> {
  return page.evaluate(() => new Promise((done) => {
    const told = new ResizeObserver(() => {
      told.disconnect();
      const edge = document.querySelector('[role="log"]')?.getBoundingClientRect().top ?? 0;
      done([...document.querySelectorAll('[data-testid="reply-text"], [data-testid="person"] .me')].flatMap((at) => {
        const { bottom, top } = at.getBoundingClientRect();
        const text = /(Answer|Question) \d+/.exec(at.textContent)?.[0];
        return text === undefined ? [] : [{ text, top, isInView: bottom > edge }];
      }));
    });
    told.observe(document.body);
  }));
}

/** The first words in view. */
async function firstInView(page: Page) {
  return (await painted(page)).find(({ isInView }) => isInView) ?? null;
}

async function placeOf(page: Page, wanted: string): Promise<number | null> {
  return (await painted(page)).find(({ text }) => text === wanted)?.top ?? null;
}

test('by keys the way goes back through message after message, and by the button to the end', async ({ page }) => {
  await open(page, 100);
  await page.getByTestId('prompt').focus();
  const passed = new Set<string>();
  for (let turn = 0; turn < 400; turn += 1) {
    await page.keyboard.press('Shift+Tab');
    const number = await page.evaluate(() => /Answer (\d+)/.exec(document.activeElement?.closest('[data-testid="reply"]')?.textContent ?? '')?.[1] ?? null);
    if (number !== null) passed.add(number);
    // What the focus comes near to is mounted with the next picture.
    await drawn(page);
    if (number === '30') break;
  }
  // The last answer but one and so on: none was left out.
  expect([...passed].map(Number)).toEqual(Array.from({ length: 21 }, (_, at) => 50 - at));
  await page.getByRole('button', { name: 'To the latest words' }).click();
  await expect(said(page, 'Answer 50.')).toBeInViewport();
  await expect(log(page)).toBeFocused();
});

test('those who hear the page go on to earlier messages by a button', async ({ page }) => {
  await open(page, 100);
  const button = page.getByTestId('show-chunk').last();
  const name = /Show: Messages (\d+) to (\d+) of 100/.exec(await button.innerText());
  const last = Number(name?.[2]);
  await button.evaluate((at: HTMLButtonElement) => { at.click(); });
  await expect(said(page, `Answer ${String(last / 2)}.`)).toBeAttached();
  await expect(page.locator('.chunk:focus')).toContainText(`Answer ${String(last / 2)}.`);
  await isGood(page, 'light', 'long');
});

test('a search of the browser finds words that are not mounted', async ({ page }) => {
  await open(page);
  const hidden = page.locator('[hidden="until-found"]', { hasText: 'Question 250:' });
  await expect(hidden).toHaveCount(1);
  await hidden.evaluate((at) => { at.dispatchEvent(new Event('beforematch', { bubbles: true })); });
  await expect(page.getByTestId('person').filter({ hasText: 'Question 250:' })).toBeAttached();
});

test('a new question is answered at the end, and what somebody has opened stays open', async ({ page }) => {
  await open(page);
  await page.getByTestId('who').last().click();
  await log(page).focus();
  await page.keyboard.press('Home');
  await expect(said(page, 'Answer 1.')).toBeInViewport();
  await page.getByTestId('who').first().click();
  await page.keyboard.press('Escape');
  await log(page).focus();
  await page.keyboard.press('End');
  await expect(said(page, 'Answer 500.')).toBeInViewport();
  await expect(page.getByTestId('who-helped').first()).toContainText('Dad’s PC');
  await expect(page.getByTestId('who').first()).toHaveAttribute('aria-expanded', 'true');
  await page.getByTestId('prompt').fill('a story');
  await page.getByTestId('send').click();
  await page.evaluate(() => (window as unknown as { household: { pass(tokens: number): Promise<void> } }).household.pass(2000));
  await expect(page.getByTestId('reply').last()).toHaveAttribute('data-phase', 'finished');
  await expect(page.getByTestId('reply').last()).toBeInViewport();
  expect(await mounted(page)).toBeLessThan(MOUNTED_MAX);
});
