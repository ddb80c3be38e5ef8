/** Promises of the window in German: what the house says of itself stands there in German, with its values. */
import { render, screen, within } from '@testing-library/svelte';
import { tick } from 'svelte';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { useLanguage } from '../strings';
import MainWindow from './MainWindow.svelte';
import { go, user } from './testing';
import { WindowState } from './window.svelte';

const root = document.documentElement;
let backend: FakeBackend;

beforeEach(async () => {
  await useLanguage('de', root);
  backend = new FakeBackend({ tokenMs: 0 });
  const state = new WindowState(backend);
  await state.start();
  render(MainWindow, { state });
  await tick();
});

afterEach(() => useLanguage('en', root));

it('says what is not well, above every page', async () => {
  backend.change((house) => {
    house.problems = [
      { sentence: 'Dad’s PC failed repeatedly.', trouble: { kind: 'device', device: 'Dad’s PC', trouble: { kind: 'left_out', minutes: 4 } } },
      { sentence: 'What only the program says.', trouble: null },
    ];
  });
  await tick();
  const said = screen.getByRole('alert').textContent;
  expect(said).toContain('Dad’s PC ist mehrmals ausgefallen und wird noch 4 Minuten nicht benutzt.');
  expect(said).not.toContain('failed repeatedly');
  expect(said).toContain('What only the program says.');
});

it('says what the checks found', async () => {
  await go('checks');
  const found = await screen.findAllByTestId('finding');
  const said = found.map((finding) => finding.textContent);
  expect(said[0]).toContain('Mia’s laptop (thisl4pt), der Schlüssel liegt in dem Schlüsselbund des Systems.');
  expect(said[2]).toContain('erlaube den UDP-Port 5353');
  expect(said[4]).toContain('Old Dell antwortet nicht.');
  expect(said.join(' ')).not.toMatch(/\b(?:the|and|does|listening|here)\b/);
});

it('says why the last reply did without a device, and why the port is closed', async () => {
  backend.change((house) => {
    const dad = house.devices.find((device) => device.name === 'Dad’s PC');
    if (dad) {
      dad.unused = 'left_out';
      dad.unused_because = 'The last reply did without it. It is too slow: the reply would take 25 s longer.';
      dad.left_out = { kind: 'too_slow', slower_ms: 24_680 };
    }
    house.port.on = false;
    house.port.problem = {
      sentence: 'The port 127.0.0.1:4587 cannot be opened.', trouble: { kind: 'port_taken', address: '127.0.0.1:4587', reason: { means: 'in_use', said: 'Address already in use (os error 98)' } } };
  });
  await go('devices');
  const dad = screen.getAllByTestId('device-row').find((row) => row.textContent.includes('Dad’s PC'));
  expect(dad?.textContent).toContain('Die letzte Antwort kam ohne es aus. Es ist zu langsam: Die Antwort würde 25 s länger dauern.');
  expect(dad?.textContent).not.toContain('too slow');
  await user.click(within(screen.getByTestId('this-device')).getByTestId('device-more'));
  const here = within(await screen.findByTestId('this-detail'));
  expect(here.getByText(/Der Anschluss 127\.0\.0\.1:4587 kann nicht geöffnet werden \(ein anderes Programm benutzt die Adresse; das System sagt: Address already in use/)).toBeTruthy();
  expect(here.getByText('dem Schlüsselbund des Systems')).toBeTruthy();
});

it('says where trust is chosen that a helper can read along, word for word', async () => {
  await go('privacy');
  expect(screen.getByText(/alles Wort für Wort mitlesen/)).toBeTruthy();
});

it('says that a fault stopped the program, and what is kept', async () => {
  backend.window.stopped('/data/inglenook/inglenook.log');
  await tick();
  const said = screen.getByTestId('stopped').textContent;
  expect(said).toContain('Inglenook ist wegen eines Fehlers stehen geblieben');
  expect(said).toContain('Deine Gespräche und Einstellungen sind gespeichert.');
  expect(screen.getByTestId('restart').textContent.trim()).toBe('Inglenook neu starten');
  expect(said).not.toMatch(/\b(?:the|and|because|Restart)\b/);
});
