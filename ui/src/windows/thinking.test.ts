/** Promises of thinking aloud in the window: it stands folded beside the answer, and people open it as they like. */
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import axe from 'axe-core';
import { tick } from 'svelte';
import { expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import MainWindow from './MainWindow.svelte';
import { WindowState } from './window.svelte';

it('is open while it goes on, folded once the answer begins, and opens again by hand', async () => {
  const user = userEvent.setup();
  // By hand: on a busy machine the thought would be over before it was looked at.
  const backend = new FakeBackend({ byHand: true, past: false });
  const state = new WindowState(backend);
  await state.start();
  render(MainWindow, { state });
  await tick();
  await user.type(screen.getByTestId('prompt'), 'think of a story{Enter}');
  // The question, what comes before the first token, and three tokens of the thought.
  await backend.pass(12);
  const thought = await screen.findByTestId<HTMLDetailsElement>('thought');
  expect(thought.open).toBe(true);
  expect(thought.querySelector('summary')?.textContent).toBe('Thinking…');
  await backend.pass(1000);
  await vi.waitFor(() => { expect(thought.open).toBe(false); });
  expect(thought.querySelector('summary')?.textContent).toMatch(/^Thought for \d/);
  await vi.waitFor(() => { expect(screen.getByTestId('reply').getAttribute('data-phase')).toBe('finished'); });
  expect(screen.getByTestId('reply-text').textContent).not.toContain('short and warm');
  const summary = thought.querySelector('summary');
  if (summary === null) throw new Error('no summary');
  await user.click(summary);
  await vi.waitFor(() => { expect(thought.open).toBe(true); });
  const rules = { 'color-contrast': { enabled: false }, region: { enabled: false } };
  const { violations } = await axe.run(screen.getByTestId('reply'), { rules });
  expect(violations.map((fault) => fault.id)).toEqual([]);
});
