/** Before each test: an empty page and empty storage. After each file: no message whose time still runs. */
import { cleanup, configure } from '@testing-library/svelte';
import { afterAll, afterEach, vi } from 'vitest';
import { toasts } from '../src/kit/toasts.svelte';

/** Only what never comes is waited for so long; a busy machine may take a good part of it. */
const PATIENCE_MS = 120_000;

configure({ asyncUtilTimeout: PATIENCE_MS });
const { waitFor } = vi;
vi.waitFor = (callback, options) =>
  waitFor(callback, typeof options === 'number' ? options : { timeout: PATIENCE_MS, ...options });

afterEach(() => {
  cleanup();
  localStorage.clear();
});

// Its clock would go on when there is no page any more.
afterAll(() => toasts.finish());
