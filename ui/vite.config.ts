// Builds the window's pages into `dist`, which the tray app carries inside itself; runs the unit tests.
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  // Under test Svelte must resolve to its browser half although Node runs it.
  resolve: process.env['VITEST'] ? { conditions: ['browser'] } : {},
  clearScreen: false,
  server: { port: 1420, strictPort: true, host: '127.0.0.1' },
  build: {
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
    // Only what hangs takes this long, also where a machine has much else to do.
    testTimeout: 30_000,
  },
});
