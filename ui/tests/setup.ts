/** Before each test: an empty page, empty storage, and what happy-dom leaves out. */
import { cleanup, configure } from '@testing-library/svelte';
import { afterEach, vi } from 'vitest';

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
