/** Before each test: an empty page, empty storage, and what happy-dom leaves out. */
import { cleanup } from '@testing-library/svelte';
import { afterEach } from 'vitest';

afterEach(() => {
  cleanup();
  localStorage.clear();
});
