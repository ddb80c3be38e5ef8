/** Promises of the download page (packaging/site): the file that fits comes first, what is not made is said, every file
 *  has its checksum, and a page without a release says so. It is served as it lies, by a server of its own. */
import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@playwright/test';
import { isGood } from './good';

const TREE = join(dirname(fileURLToPath(import.meta.url)), '../../..');
const FILES: Record<string, [string, string]> = {
  '/': ['packaging/site/index.html', 'text/html'],
  '/site.css': ['packaging/site/site.css', 'text/css'],
  '/download.js': ['packaging/site/download.js', 'text/javascript'],
  '/icon.png': ['icons/app/128x128.png', 'image/png'],
  '/chat.png': ['packaging/pictures/chat.png', 'image/png'],
};
const of = (platform: string, file: string) => ({ platform, file, bytes: 23_456_789, sha256: platform.length.toString(16).padStart(64, 'a') });
const LINUX = [
  of('linux-x86_64-deb', 'inglenook_0.2.0_amd64.deb'),
  of('linux-x86_64-rpm', 'inglenook-0.2.0-1.x86_64.rpm'),
  of('linux-x86_64-portable', 'inglenook-0.2.0-linux-x86_64.tar.gz'),
];

/** Serves the page, with this list of versions beside it if there is one. */
async function serve(list?: object): Promise<{ server: Server; address: string }> {
  const server = createServer((request, response) => {
    const file = FILES[request.url ?? ''];
    if (file) {
      void readFile(join(TREE, file[0])).then((bytes) => response.writeHead(200, { 'content-type': file[1] }).end(bytes));
    } else if (request.url === '/inglenook-versions.json' && list) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(list));
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return { server, address: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/` };
}

for (const [look, colorScheme, width] of [['site-light', 'light', 1100], ['site-dark', 'dark', 420]] as const) {
  test(`the file that fits comes first, in ${look}`, async ({ page }) => {
    const { server, address } = await serve({ version: '0.2.0', packages: LINUX });
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await page.goto(address);
    await expect(page.getByRole('status')).toHaveText('Version 0.2.0.');
    const first = page.locator('.buttons > *').first();
    await expect(first).toHaveAttribute('href', './inglenook_0.2.0_amd64.deb');
    await expect(first).toHaveText('LinuxDebian, Ubuntu, Mint, 23.5 MB');
    await expect(page.locator('.button.none')).toHaveText(['Windowsnot made yet', 'macOSnot made yet']);
    await isGood(page, look, 'closed');
    await page.getByText('All files, sizes and checksums').click();
    for (const one of LINUX) {
      await expect(page.getByRole('row').filter({ hasText: one.file })).toContainText(one.sha256);
    }
    await isGood(page, look, 'open');
    server.close();
  });
}

test('another system gets its own file, and a name in the list stays a name', async ({ browser }) => {
  const odd = of('windows-x86_64-nsis', '../../evil.exe?<b>');
  const zip = of('windows-x86_64-zip', 'inglenook-0.2.0-windows-x86_64.zip');
  const { server, address } = await serve({ version: '0.2.0', packages: [...LINUX, odd, zip] });
  const context = await browser.newContext({ userAgent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64)' });
  const page = await context.newPage();
  await page.addInitScript(() => { Object.defineProperty(navigator, 'userAgentData', { value: undefined }); });
  await page.goto(address);
  const first = page.locator('.buttons > *').first();
  await expect(first).toHaveClass('button first');
  await expect(first).toHaveAttribute('href', './..%2F..%2Fevil.exe%3F%3Cb%3E');
  await expect(page.locator('#rows b')).toHaveCount(0);
  await expect(page.locator('.buttons > *').filter({ hasText: 'Windows' })).toHaveCount(1);
  await page.getByText('All files, sizes and checksums').click();
  await expect(page.getByRole('row').filter({ hasText: zip.file })).toContainText('Windows, to unpack yourself');
  await context.close();
  server.close();
});

test('a page without a release says so', async ({ page }) => {
  const { server, address } = await serve();
  await page.goto(address);
  await expect(page.getByRole('status')).toContainText('No release has been made yet');
  await expect(page.locator('#files')).toBeHidden();
  await isGood(page, 'site-light', 'without-a-release');
  server.close();
});
