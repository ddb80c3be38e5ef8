/** Takes the pictures of README and `ui/README.md`: `npm run pictures` writes them to `packaging/pictures`. Each page
 *  is taken in a window that is as tall as all of it; the pages of one look are put together on one sheet. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, type Locator, type Page, test } from '@playwright/test';
import { type Chosen, goTo, open, openAbout, openConversation, PAGES, settle } from './visit';

const FOLDER = new URL('../../../packaging/pictures/', import.meta.url).pathname;
const LOOKS: { name: string; chosen: Chosen }[] = [
  { name: 'light', chosen: { theme: 'light' } },
  { name: 'dark', chosen: { theme: 'dark' } },
  { name: 'contrast', chosen: { theme: 'contrast' } },
  { name: 'german', chosen: { theme: 'light', language: 'de' } },
  { name: 'right-to-left', chosen: { theme: 'light', language: 'mirrored' } },
];
/** The side bar and a page at its full width. */
const WIDTH = 1024;
const HEIGHT_MIN = 680;
/** A page on a sheet is that wide: small, but its words can be read. */
const COLUMN = 720;
const GAP = 16;
/** Of 100. Below, letters get shadows; above, nothing is seen but bytes. */
const QUALITY = 66;
/** A larger one is not kept: it stands in the history for ever. */
const PICTURE_BYTES_MAX = 440_000;

/** A page as a picture in PNG. */
type Shot = Buffer;

for (const { name, chosen } of LOOKS) {
  test(`the pages in ${name}`, async ({ page }) => {
    await page.setViewportSize({ width: WIDTH, height: HEIGHT_MIN });
    await open(page, chosen);
    await openConversation(page);
    await page.getByTestId('who').last().click();
    await page.getByTestId('mark').last().click();
    const shots = [await tall(page)];
    for (const where of PAGES) {
      await goTo(page, where);
      if (where === 'sharing') await page.getByTestId('quiet-hours').click();
      if (where === 'checks') await expect(page.getByTestId('finding').first()).toBeVisible();
      shots.push(await tall(page));
    }
    await sheet(page, `pages-${name}.webp`, columns(shots));
  });
}

test('first start, sheets and questions, in light and dark', async ({ page, browser }) => {
  const sides: Shot[][] = [];
  for (const theme of ['light', 'dark'] as const) {
    const side: Shot[] = [];
    // With a memory of its own, so that each side begins anew.
    const fresh = await browser.newPage({ viewport: { width: COLUMN, height: 760 } });
    await open(fresh, { theme, isNew: true });
    for (const step of ['first-name', 'first-model', 'first-share', 'first-devices']) {
      await expect(fresh.getByTestId(step)).toBeVisible();
      // The made-up house shares already; a person who starts does not.
      if (step === 'first-share') await fresh.getByTestId(step).click();
      side.push(await around(fresh, fresh.getByTestId('first-start')));
      // Nothing is downloaded for a picture.
      await fresh.getByTestId(step === 'first-model' ? 'first-skip' : 'first-next').click();
    }
    await fresh.close();
    side.push(...(await overlays(page, theme)));
    sides.push(side);
  }
  await sheet(page, 'pages-first-start.webp', sides);
});

test('the pictures of README', async ({ page }) => {
  await page.setViewportSize({ width: 1100, height: 760 });
  await open(page, { theme: 'light' });
  await openConversation(page);
  await page.getByTestId('who').last().click();
  await page.getByTestId('mark').last().click();
  await page.getByTestId('who-helped').scrollIntoViewIfNeeded();
  await settle(page);
  keep('chat.png', await page.screenshot({ animations: 'disabled' }));
  await goTo(page, 'devices');
  keep('devices.png', await page.screenshot({ animations: 'disabled' }));
});

/** The window as tall as the page that it shows. */
async function tall(page: Page): Promise<Shot> {
  await page.setViewportSize({ width: WIDTH, height: HEIGHT_MIN });
  await settle(page);
  const more = await page.evaluate(() => {
    const scroller = document.querySelector('main .talk, main .scroll');
    return scroller === null ? 0 : scroller.scrollHeight - scroller.clientHeight;
  });
  await page.setViewportSize({ width: WIDTH, height: HEIGHT_MIN + more });
  await settle(page);
  return page.screenshot({ animations: 'disabled' });
}

/** What lies over a page, each by itself. */
async function overlays(page: Page, theme: 'light' | 'dark'): Promise<Shot[]> {
  const fresh = await page.context().newPage();
  await fresh.setViewportSize({ width: COLUMN, height: 900 });
  await open(fresh, { theme });
  await openConversation(fresh, 'A program');
  const shots: Shot[] = [];
  await openAbout(fresh);
  shots.push(await around(fresh, fresh.getByTestId('chat-sheet')));
  await fresh.keyboard.press('Escape');
  await fresh.keyboard.press('Control+/');
  shots.push(await around(fresh, fresh.getByTestId('shortcuts')));
  await fresh.keyboard.press('Escape');
  await fresh.getByTestId('reply-text').getByRole('button', { name: 'the manual' }).click();
  shots.push(await around(fresh, fresh.getByTestId('confirm')));
  await fresh.keyboard.press('Escape');
  await goTo(fresh, 'devices');
  await fresh.getByTestId('add-device').click();
  await fresh.getByTestId('show-code').click();
  await expect(fresh.getByTestId('pair-code')).toBeVisible();
  shots.push(await around(fresh, fresh.getByTestId('pairing')));
  await fresh.keyboard.press('Escape');
  await fresh.setViewportSize({ width: COLUMN, height: 640 });
  await openConversation(fresh, 'Packing list');
  await fresh.getByTestId('attach').setInputFiles({ name: 'Leaves.txt', mimeType: 'text/plain', buffer: Buffer.from('Leaves fall.\n'.repeat(100)) });
  await expect(fresh.getByTestId('file')).toBeVisible();
  await settle(fresh);
  shots.push(await fresh.screenshot({ animations: 'disabled' }));
  await fresh.locator('.menu').click();
  await settle(fresh);
  shots.push(await fresh.screenshot({ animations: 'disabled' }));
  await fresh.close();
  return shots;
}

/** A part of a page with a little of what is around it, over the whole width. */
async function around(page: Page, part: Locator): Promise<Shot> {
  await part.scrollIntoViewIfNeeded();
  await settle(page);
  const box = await part.boundingBox();
  const { width, height } = page.viewportSize() ?? { width: COLUMN, height: HEIGHT_MIN };
  if (box === null) return page.screenshot();
  const top = Math.max(0, box.y - GAP);
  const bottom = Math.min(height, box.y + box.height + GAP);
  return page.screenshot({ animations: 'disabled', clip: { x: 0, y: top, width, height: bottom - top } });
}

/** Pictures in two columns, each where there is more room. */
function columns(shots: readonly Shot[]): Shot[][] {
  const sides: { tall: number; shots: Shot[] }[] = [{ tall: 0, shots: [] }, { tall: 0, shots: [] }];
  for (const shot of shots) {
    const side = sides.reduce((least, one) => (one.tall < least.tall ? one : least));
    side.shots.push(shot);
    // Width and height stand in the head of a PNG.
    side.tall += shot.readUInt32BE(20) / shot.readUInt32BE(16);
  }
  return sides.map((side) => side.shots);
}

/** Puts pictures together and writes them as one. */
async function sheet(page: Page, file: string, sides: readonly (readonly Shot[])[]): Promise<void> {
  const board = await page.context().newPage();
  await board.setViewportSize({ width: sides.length * (COLUMN + GAP) + GAP, height: HEIGHT_MIN });
  const column = (shots: readonly Shot[]) => `<div>${shots.map((shot) => `<img src="data:image/png;base64,${shot.toString('base64')}">`).join('')}</div>`;
  await board.setContent(`<style>
    body { margin: 0; padding: ${String(GAP)}px; display: flex; gap: ${String(GAP)}px; align-items: start; background: #d8d3cd; }
    div { display: grid; gap: ${String(GAP)}px; }
    img { display: block; inline-size: ${String(COLUMN)}px; }
  </style>${sides.map(column).join('')}`);
  await board.evaluate(() => Promise.all([...document.images].map((image) => image.decode())));
  const size = await board.evaluate(() => ({ width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight }));
  const session = await board.context().newCDPSession(board);
  const { data } = await session.send('Page.captureScreenshot', {
    format: 'webp', quality: QUALITY, captureBeyondViewport: true, clip: { x: 0, y: 0, ...size, scale: 1 },
  });
  keep(file, Buffer.from(data, 'base64'));
  await board.close();
}

function keep(file: string, picture: Buffer): void {
  expect(picture.length, `bytes of ${file}`).toBeLessThan(PICTURE_BYTES_MAX);
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, file), picture);
  process.stdout.write(`${file}: ${String(Math.round(picture.length / 1000))} kB\n`);
}
