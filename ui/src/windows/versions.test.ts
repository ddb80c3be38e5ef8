/** Promises of what the window says of new versions, against the fake household. */
import { screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { beforeEach, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import type { UpdatesView } from '../generated/UpdatesView';
import { go, open, user } from './testing';

const NEWER = { version: '0.2.0', file: 'inglenook-0.2.0.deb', bytes: 73.4e6, notes: { en: 'Faster on old laptops.', de: 'Schneller.' }, device: null };
let backend: FakeBackend;

beforeEach(async () => {
  ({ backend } = await open());
});

/** The program behind the window has found out something. */
async function found(updates: Partial<UpdatesView>): Promise<void> {
  backend.change((house) => { house.updates = { ...house.updates, is_looking: false, ...updates }; });
  await tick();
}

it('a person looks, is told what is new, and installs it', async () => {
  await go('settings');
  await screen.findByTestId('version-state');
  expect(screen.getByTestId('version-state').textContent).toBe('This is version 0.1.0, the newest one. Looked 2 hours ago.');
  expect(screen.queryByTestId('install-update')).toBeNull();
  await user.click(screen.getByTestId('look-for-update'));
  expect(screen.getByTestId('version-state').textContent).toBe('Looking for a new version…');
  await found({ newer: NEWER });
  expect(screen.getByTestId('version-state').textContent).toBe('Version 0.2.0 is there. This is 0.1.0.');
  expect(screen.getByTestId('version-notes').textContent).toBe('Faster on old laptops.');
  expect(screen.getByTestId('install-update').textContent).toContain('73 MB');
  expect(screen.queryByTestId('version-from')).toBeNull();
  await found({ newer: { ...NEWER, device: 'Study PC' } });
  expect(screen.getByTestId('version-from').textContent).toBe('Study PC has it already, so it comes from there.');
  await user.click(screen.getByTestId('install-update'));
  expect(backend.house.updates.is_installing).toBe(true);
  expect(screen.getByTestId('version-state').textContent).toContain('starts anew by itself');
  expect(screen.queryByTestId('install-update')).toBeNull();
  await found({ is_installing: false, trouble: { kind: 'not_installed', reason: 'The disk is full.' } });
  expect(screen.getByTestId('version-trouble').textContent).toBe('The new version was not installed, and this one stays: The disk is full.');
  expect(screen.getByTestId('install-update')).toBeTruthy();
});

it('the side bar tells of it, unless its owner wants not to be told', async () => {
  expect(screen.queryByTestId('mark-version')).toBeNull();
  await found({ newer: NEWER });
  expect(screen.getByTestId('mark-version').textContent).toBe('(version 0.2.0 is there)');
  await go('settings');
  await screen.findByTestId('version-state');
  await user.selectOptions(screen.getByTestId('when-new-version'), 'off');
  expect(backend.house.settings.values['updates.new_versions']).toBe('off');
  expect(screen.queryByTestId('mark-version')).toBeNull();
});

it('where a package manager installs programs, it says how, and offers no button and no choice that it cannot keep', async () => {
  await go('settings');
  await screen.findByTestId('version-state');
  const words = (): (string | null)[] => [...screen.getByTestId('when-new-version').querySelectorAll('option')].map((option) => option.textContent);
  expect(words()).toHaveLength(3);
  await found({ newer: NEWER, way: 'apt' });
  expect(screen.getByTestId('version-way').textContent).toContain('sudo apt install ./inglenook-0.2.0.deb');
  expect(screen.queryByTestId('install-update')).toBeNull();
  expect(words()).toEqual(['Look only when I ask', 'Tell me']);
  // What the file says all the same is shown.
  backend.change((house) => { house.settings.values['updates.new_versions'] = 'install'; });
  await vi.waitFor(() => { expect(words()).toHaveLength(3); });
});

it('a program that knows nobody to ask says so, and asks nothing', async () => {
  await go('settings');
  await screen.findByTestId('version-state');
  await found({ can_look: false, looked: null });
  expect(screen.getByTestId('version-state').textContent).toContain('It knows no place to ask for newer ones');
  for (const gone of ['look-for-update', 'when-new-version', 'install-update']) expect(screen.queryByTestId(gone)).toBeNull();
});

it('a look that failed is told with its reason', async () => {
  await go('settings');
  await screen.findByTestId('version-state');
  await found({ trouble: { kind: 'not_looked', reason: 'No network.' } });
  expect(screen.getByTestId('version-trouble').textContent).toBe('The last look for a new version did not work: No network.');
});
