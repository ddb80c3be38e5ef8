/** A window with a fake household, for tests: how it is opened, and what people do again and again. */
import { render, screen } from '@testing-library/svelte';
import userEvent from '@testing-library/user-event';
import { tick } from 'svelte';
import { vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import MainWindow from './MainWindow.svelte';
import { type PageName, placeOf } from './pages';
import { WindowState } from './window.svelte';

export const user = userEvent.setup();

export async function open(): Promise<{ backend: FakeBackend; state: WindowState }> {
  const backend = new FakeBackend({ tokenMs: 0 });
  const state = new WindowState(backend);
  await state.start();
  render(MainWindow, { state });
  await tick();
  return { backend, state };
}

/** To a place, or to a section of the settings: the one way to a page. */
export async function go(page: PageName): Promise<void> {
  await user.click(screen.getByTestId(`nav-${placeOf(page)}`));
  if (placeOf(page) === 'settings') await user.click(screen.getByTestId(`section-${page}`));
  // They are loaded when they are wanted.
  await vi.waitFor(() => { if (document.querySelector('main h1') === null) throw new Error('the page is not there yet'); });
}

/** Yes to the question that is asked. */
export async function agree(): Promise<void> {
  await user.click(await screen.findByTestId('confirm-yes'));
}

/** Types a code of another computer, in the dialog that adds a device. It goes on by itself after the last digit. */
export async function typeCode(code: string): Promise<void> {
  await user.click(screen.getByTestId('add-device'));
  await user.click(screen.getByTestId('type-here'));
  await user.type(screen.getByTestId('type-code'), code);
}

/** Types a number into a field and leaves it. */
export async function enter(testId: string, value: string): Promise<void> {
  const field = screen.getByTestId(testId);
  await user.clear(field);
  await user.type(field, `${value}{Enter}`);
}
