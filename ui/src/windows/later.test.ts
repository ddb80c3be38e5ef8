/** Promises of parts that are loaded later: once each, and asked again where that did not work. */
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { createRawSnippet } from 'svelte';
import { expect, it, vi } from 'vitest';
import Later from '../kit/Later.svelte';
import { part } from '../kit/part';

it('shows a part once it is there, and says where it cannot be loaded', async () => {
  const load = vi.fn<() => Promise<{ default: string }>>()
    .mockRejectedValueOnce(new Error('gone')).mockResolvedValueOnce({ default: 'a part' });
  const children = createRawSnippet<[unknown]>((given) => ({ render: () => `<p>Here is ${String(given())}.</p>` }));
  const wanted = part(load);
  render(Later, { load: wanted, children });
  expect((await screen.findByRole('alert')).textContent).toContain('could not be loaded');
  await userEvent.setup().click(screen.getByTestId('part-again'));
  expect(await screen.findByText('Here is a part.')).toBeTruthy();
  expect(screen.queryByRole('alert')).toBeNull();
  expect(await wanted()).toBe('a part');
  expect(load).toHaveBeenCalledTimes(2);
});
