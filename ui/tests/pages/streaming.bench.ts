/** What a long reply costs the page while it streams: frames a second and memory, printed, and judged only where
 *  the reply itself was not what it should be. `npm run bench`; the targets are those of the design.
 *
 *  The pages are those that the program carries, built with the household that they make up. Memory is what the
 *  page's process has for itself: its private pages, scripts' heap, elements, styles, fonts and compiled code
 *  together. It is the largest of looks taken every second, for what counts is what a computer must have. Pages
 *  shared with other processes (the browser's own code) are not the page's doing. */
import { type Browser, expect, type Page, test } from '@playwright/test';
import { own, rendererOf, round } from './process';

const WORDS = 4000;
/** A hundred tokens a second, which few households reach. */
const TOKEN_MS = 10;
const FRAMES_TARGET = 50;
const MEGABYTES_TARGET = 150;
const LOOK_EVERY_MS = 1000;

test('a streaming reply of 4,000 words', async ({ page, browser }) => {
  test.setTimeout(15 * 60_000);
  await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
  await page.goto(`/?token-ms=${String(TOKEN_MS)}`);
  await page.getByTestId('new-chat').click();
  await page.getByTestId('prompt').fill(`a story of ${String(WORDS)} words`);
  const before = await memory(page, browser);
  await page.evaluate(() => {
    const seen: number[] = [];
    const see = (at: number): void => { seen.push(at); requestAnimationFrame(see); };
    requestAnimationFrame(see);
    Object.assign(window, { framesSeen: seen });
  });
  await page.getByTestId('send').click();
  const reply = page.getByTestId('reply').last();
  await expect(reply).toHaveAttribute('data-phase', 'writing', { timeout: 60_000 });
  const begun = await page.evaluate(() => performance.now());
  const pid = await rendererOf(browser);
  let most = 0;
  while ((await reply.getAttribute('data-phase')) === 'writing') {
    most = Math.max(most, own(pid));
    await page.waitForTimeout(LOOK_EVERY_MS);
  }
  await expect(reply).toHaveAttribute('data-phase', 'finished', { timeout: 10 * 60_000 });

  const frames = await page.evaluate((from) => {
    const seen = (window as unknown as { framesSeen: number[] }).framesSeen.filter((at) => at >= from);
    const gaps = seen.slice(1).map((at, index) => at - (seen[index] ?? at)).sort((a, b) => a - b);
    const span = (seen.at(-1) ?? 0) - (seen[0] ?? 0);
    return { rate: (1000 * gaps.length) / span, p99: gaps[Math.floor(gaps.length * 0.99)] ?? 0, longest: gaps.at(-1) ?? 0, span };
  }, begun);
  const after = await memory(page, browser);
  await page.requestGC();
  const kept = await memory(page, browser);
  // As a person reads it: without the route above and the figures below.
  const words = (await reply.getByTestId('reply-text').innerText()).match(/\S+/g)?.length ?? 0;

  process.stdout.write(`${JSON.stringify({ words, seconds: round(frames.span / 1000),
    framesPerSecond: round(frames.rate), framesTarget: FRAMES_TARGET, frameMsP99: round(frames.p99), frameMsLongest: round(frames.longest),
    megabytesMost: round(Math.max(most, after.processMegabytes)), megabytesTarget: MEGABYTES_TARGET,
    before, after, withoutGarbage: kept, browser: browser.version() }, null, 2)}\n`);
  expect(words).toBeGreaterThanOrEqual(WORDS);
});

/** Where memory is. */
interface Memory {
  /** What the page's process shares with nobody. */
  processMegabytes: number;
  /** Of it, objects of scripts. */
  heapMegabytes: number;
  /** Of it, what the scripts' heap has reserved, with garbage and free room. */
  heapReservedMegabytes: number;
  elements: number;
  listeners: number;
}

async function memory(page: Page, browser: Browser): Promise<Memory> {
  const inPage = await page.context().newCDPSession(page);
  await inPage.send('Performance.enable');
  const { metrics } = await inPage.send('Performance.getMetrics');
  await inPage.detach();
  const metric = (name: string) => metrics.find((one) => one.name === name)?.value ?? 0;
  return {
    processMegabytes: round(own(await rendererOf(browser))),
    heapMegabytes: round(metric('JSHeapUsedSize') / 1e6),
    heapReservedMegabytes: round(metric('JSHeapTotalSize') / 1e6),
    elements: metric('Nodes'),
    listeners: metric('JSEventListeners'),
  };
}
