// The pages as they are built for the program, with a household that they make up, in a real Chromium:
// `npm run pages`, `npm run bench`, `npm run pictures`, or `cargo xtask test --only pages`.
import { defineConfig } from '@playwright/test';

/** Not 1420: whoever works on the pages has `npm run dev` there. */
const PORT = Number(process.env['PAGES_PORT'] ?? 1421);

export default defineConfig({
  testDir: 'tests/pages',
  outputDir: 'node_modules/.playwright',
  workers: 2,
  forbidOnly: true,
  reporter: 'list',
  // Only what hangs takes this long, also where a machine has much else to do.
  timeout: 1_800_000,
  expect: { timeout: 300_000 },
  use: {
    baseURL: `http://127.0.0.1:${String(PORT)}/`,
    viewport: { width: 1100, height: 800 },
    // The browser of the system: nothing is downloaded.
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
    },
  },
  projects: [
    { name: 'pages', testMatch: '*.spec.ts' },
    // One after another: pictures and frames are those of a page that has the machine to itself.
    { name: 'bench', testMatch: '*.bench.ts', workers: 1 },
    { name: 'pictures', testMatch: '*.pictures.ts', workers: 1 },
  ],
  webServer: {
    command: `npm run household && npx vite preview --mode household --port ${String(PORT)}`,
    url: `http://127.0.0.1:${String(PORT)}/`,
    timeout: 240_000,
    reuseExistingServer: false,
  },
});
