// Builds the window's pages into `dist`, which the tray app carries inside itself; with `--mode household` the same
// pages with a household that they make up, for tests and benches in a browser. Runs the unit tests.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** The mode of the build that can be opened in a plain browser. */
const HOUSEHOLD = 'household';
/** Where it goes; `dist` is for what the program carries. */
const HOUSEHOLD_FOLDER = 'node_modules/.household';

/** Modules that exist for tests and development alone. */
const MADE_UP = /\/src\/(?:backend\/fake|strings\/mirrored)/;

/** Fails the build of what the program carries where anything made up is in it. */
const nothingMadeUp: Plugin = {
  name: 'nothing-made-up',
  apply: 'build',
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((part) => (part.type === 'chunk' ? part.moduleIds : []));
    const found = modules.filter((module) => MADE_UP.test(module));
    if (found.length > 0) this.error(`The program would carry what is made up: ${found.join(', ')}`);
  },
};

export default defineConfig(({ mode, command }) => {
  const forBrowsers = mode === HOUSEHOLD;
  return {
    plugins: [svelte(), ...(forBrowsers ? [] : [nothingMadeUp])],
    define: { 'import.meta.env.MADE_UP': JSON.stringify(command === 'serve' || forBrowsers) },
    // Under test Svelte must resolve to its browser half although Node runs it.
    resolve: process.env['VITEST'] ? { conditions: ['browser'] } : {},
    clearScreen: false,
    server: { port: 1420, strictPort: true, host: '127.0.0.1' },
    preview: { strictPort: true, host: '127.0.0.1' },
    build: {
      outDir: forBrowsers ? HOUSEHOLD_FOLDER : 'dist',
      // WebKitGTK 2.40, Safari 16.4 and WebView2 are the oldest engines that show this window.
      target: ['es2022', 'safari16.4', 'chrome111'],
      // The content policy forbids `data:`, so small assets stay files.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: true,
    },
    test: {
      environment: 'happy-dom',
      include: ['src/**/*.test.ts', 'tests/**/*.test.ts'],
      setupFiles: ['tests/setup.ts'],
      restoreMocks: true,
      // By itself it leaves a processor to whoever waits, which is one of two where the tests of a change are run.
      maxWorkers: '100%',
      // Only what hangs takes this long, also where a machine has much else to do.
      testTimeout: 240_000,
    },
  };
});
