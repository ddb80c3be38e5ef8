/** What a chat of many messages costs: opening it, a key, sending, a reply that streams in, and a large paste;
 *  printed beside its targets, and judged only where the page did not do what was asked. `npm run bench`.
 *
 *  CPU is what the page's whole process took, drawing included; memory as in `streaming.bench.ts`. */
import { type Browser, expect, type Page, test } from '@playwright/test';
import { own, pagesCpuSeconds, rendererOf, round } from './process';

const MESSAGES = [100, 1000];
const WORDS = 1500;
const TOKEN_MS = 10;
const KEYS = 30;
const PASTED_MEGABYTES = 2;
const TARGETS = { openCpuMs: 500, keyCpuMs: 16, framesPerSecond: 50, megabytesMost: 200, pasteMs: 1000 };

for (const messages of MESSAGES) {
  test(`a chat of ${String(messages)} messages`, async ({ page, browser }) => {
    test.setTimeout(15 * 60_000);
    await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
    await page.goto(`/?token-ms=${String(TOKEN_MS)}&long=${String(messages)}`);
    await expect(page.getByTestId('conversation').last()).toBeVisible();
    await idle(page);
    const opened = await cost(page, browser, async () => {
      await page.getByTestId('conversation').last().locator('.title').click();
      await expect(page.getByTestId('reply').last()).toBeVisible();
    });
    const afterOpening = own(await rendererOf(browser));
    await page.getByTestId('prompt').click();
    const typed = await cost(page, browser, async () => {
      for (let key = 0; key < KEYS; key += 1) await page.keyboard.press('x');
    });
    await page.getByTestId('prompt').fill(`a story of ${String(WORDS)} words`);
    await idle(page);
    await watchFrames(page);
    const reply = page.locator('[data-testid="reply"][aria-busy="true"]');
    const sent = await cost(page, browser, async () => {
      await page.getByTestId('send').click();
      await expect(reply).toHaveCount(1);
    }, false);
    await expect(reply).toHaveAttribute('data-phase', 'writing');
    const streaming = await frames(page, browser, async () => (await reply.count()) > 0);
    const mounted = await page.locator('[data-testid="reply"], [data-testid="person"]').count();
    process.stdout.write(`${JSON.stringify({ messages, mounted, openMs: opened.ms, openCpuMs: opened.cpuMs,
      keyMs: round(typed.ms / KEYS), keyCpuMs: round(typed.cpuMs / KEYS), sendMs: sent.ms, sendCpuMs: sent.cpuMs,
      ...streaming, megabytesOpen: round(afterOpening), targets: TARGETS, browser: browser.version() }, null, 2)}\n`);
  });
}

test(`${String(PASTED_MEGABYTES)} MB pasted into the message`, async ({ page, browser }) => {
  test.setTimeout(15 * 60_000);
  await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
  await page.goto('/');
  await page.getByTestId('prompt').click();
  await idle(page);
  const pasted = await cost(page, browser, async () => {
    await page.evaluate((megabytes) => {
      const text = 'Leaves fall, and the fire is warm. '.repeat(megabytes * 30_000);
      const data = new DataTransfer();
      data.setData('text/plain', text);
      const field = document.activeElement as HTMLTextAreaElement;
      const taken = !field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
      // A made-up event pastes nothing by itself; this is what the browser does where nobody takes it.
      if (!taken) document.execCommand('insertText', false, text);
    }, PASTED_MEGABYTES);
  });
  const typed = await cost(page, browser, async () => { await page.keyboard.press('x'); });
  process.stdout.write(`${JSON.stringify({ pasted: PASTED_MEGABYTES, pasteMs: pasted.ms, pasteCpuMs: pasted.cpuMs, keyMs: typed.ms, keyCpuMs: typed.cpuMs, targets: TARGETS }, null, 2)}\n`);
});

/** Wall clock and CPU of the page's process until the page has drawn what `work` changed, and rests unless told not to. */
async function cost(page: Page, browser: Browser, work: () => Promise<void>, rests = true): Promise<{ ms: number; cpuMs: number }> {
  const before = await pagesCpuSeconds(browser);
  const begun = Date.now();
  await work();
  if (rests) await idle(page);
  const ms = Date.now() - begun;
  return { ms, cpuMs: round((await pagesCpuSeconds(browser) - before) * 1000) };
}

/** Waits until the page has drawn, and has had nothing to do for a moment. */
async function idle(page: Page): Promise<void> {
  await page.evaluate(() => new Promise<void>((done) => {
    let quiet = 0;
    let last = performance.now();
    const look = (now: number): void => {
      quiet = now - last < 40 ? quiet + 1 : 0;
      last = now;
      if (quiet >= 8) done();
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }));
}

async function watchFrames(page: Page): Promise<void> {
  await page.evaluate(() => {
    const seen: number[] = [];
    const see = (at: number): void => { seen.push(at); requestAnimationFrame(see); };
    requestAnimationFrame(see);
    Object.assign(window, { framesSeen: seen });
  });
}

async function frames(page: Page, browser: Browser, goesOn: () => Promise<boolean>) {
  const begun = await page.evaluate(() => performance.now());
  let most = 0;
  while (await goesOn()) {
    most = Math.max(most, own(await rendererOf(browser)));
    await page.waitForTimeout(1000);
  }
  const { rate, p99 } = await page.evaluate((from) => {
    const seen = (window as unknown as { framesSeen: number[] }).framesSeen.filter((at) => at >= from);
    const gaps = seen.slice(1).map((at, index) => at - (seen[index] ?? at)).sort((a, b) => a - b);
    return { rate: (1000 * gaps.length) / ((seen.at(-1) ?? 0) - (seen[0] ?? 0)), p99: gaps[Math.floor(gaps.length * 0.99)] ?? 0 };
  }, begun);
  return { framesPerSecond: round(rate), frameMsP99: round(p99), megabytesMost: round(most) };
}
