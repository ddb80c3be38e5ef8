/** What a long reply costs the page while it streams: frames a second and memory, printed, not judged.
 *  `npm run bench`; the targets are those of the design. */
import { readFileSync } from 'node:fs';
import { expect, test } from '@playwright/test';

const WORDS = 4000;
/** A hundred tokens a second, which few households reach. */
const TOKEN_MS = 10;
const FRAMES_TARGET = 50;
const MEGABYTES_TARGET = 150;

test('a streaming reply of 4,000 words', async ({ page, browser }) => {
  test.setTimeout(15 * 60_000);
  await page.addInitScript(() => { localStorage.setItem('inglenook.first-start', 'done'); });
  await page.goto(`/?token-ms=${String(TOKEN_MS)}`);
  await page.getByTestId('new-chat').click();
  await page.getByTestId('prompt').fill(`a story of ${String(WORDS)} words`);
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
  await expect(reply).toHaveAttribute('data-phase', 'finished', { timeout: 10 * 60_000 });

  const frames = await page.evaluate((from) => {
    const seen = (window as unknown as { framesSeen: number[] }).framesSeen.filter((at) => at >= from);
    const gaps = seen.slice(1).map((at, index) => at - (seen[index] ?? at)).sort((a, b) => a - b);
    const span = (seen.at(-1) ?? 0) - (seen[0] ?? 0);
    return { rate: (1000 * gaps.length) / span, p99: gaps[Math.floor(gaps.length * 0.99)] ?? 0, longest: gaps.at(-1) ?? 0, span };
  }, begun);
  const inPage = await page.context().newCDPSession(page);
  await inPage.send('Performance.enable');
  const { metrics } = await inPage.send('Performance.getMetrics');
  const heap = (metrics.find((one) => one.name === 'JSHeapUsedSize')?.value ?? 0) / 1e6;
  const whole = await browser.newBrowserCDPSession();
  const { processInfo } = await whole.send('SystemInfo.getProcessInfo');
  const renderers = processInfo.filter((one) => one.type === 'renderer').map((one) => own(one.id));
  const words = (await reply.innerText()).split(/\s+/).length;

  process.stdout.write(`${JSON.stringify({ words, seconds: round(frames.span / 1000), framesPerSecond: round(frames.rate),
    framesTarget: FRAMES_TARGET, frameMsP99: round(frames.p99), frameMsLongest: round(frames.longest),
    heapMegabytes: round(heap), rendererOwnMegabytes: renderers.map(round), megabytesTarget: MEGABYTES_TARGET,
    browser: browser.version() }, null, 2)}\n`);
});

/** Memory that a process shares with nobody, in MB; 0 where the system does not say. */
function own(pid: number): number {
  try {
    const kilobytes = [...readFileSync(`/proc/${String(pid)}/smaps_rollup`, 'utf8').matchAll(/^Private_\w+:\s+(\d+)/gm)];
    return kilobytes.reduce((sum, found) => sum + Number(found[1]), 0) / 1000;
  } catch {
    return 0;
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
