/** Promises of the pages beside the chat, as people use them, against the fake household; and that every page has names and roles. */
import { fireEvent, screen, within } from '@testing-library/svelte';
import axe from 'axe-core';
import { tick } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { MUM } from '../backend/fake/household';
import { placeOf, sections, sideBarPlaces } from './pages';
import { agree, enter, go, open, user } from './testing';
import { WindowState } from './window.svelte';

const PAGES = [...sideBarPlaces().map(({ page }) => page), ...sections().map(({ page }) => page).filter((page) => page !== 'settings')];
let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  ({ backend, state } = await open());
});

it.each(PAGES)('%s has names and roles', async (page) => {
  await go(page);
  const places = within(screen.getByRole('navigation', { name: 'Places' })).getAllByRole('button');
  expect(places.map((place) => place.dataset['testid'])).toEqual(['nav-chat', 'nav-devices', 'nav-models', 'nav-settings']);
  const current = [...document.querySelectorAll<HTMLElement>('[aria-current]')].map((at) => at.dataset['testid']);
  expect(current).toEqual(placeOf(page) === 'settings' ? ['nav-settings', `section-${page}`] : [`nav-${page}`]);
  if (page === 'checks') await screen.findAllByTestId('finding');
  const rules = { 'color-contrast': { enabled: false }, region: { enabled: false } };
  const { violations } = await axe.run(document.body, { rules });
  expect(violations.map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html).join(' ')}`)).toEqual([]);
  expect(screen.getAllByRole('heading', { level: 1 })).toHaveLength(1);
});

it.each(PAGES)('%s says in words what is not well', async (page) => {
  backend.change((house) => {
    const trouble = { kind: 'port_taken' as const, address: '127.0.0.1:4587', reason: { means: null, said: 'in use' } };
    house.port = { ...house.port, on: false, problem: { sentence: 'It cannot be opened.', trouble } };
    house.problems = [house.port.problem ?? { sentence: '', trouble }, { sentence: 'The disk is full.', trouble: null }];
  });
  await go(page);
  await tick();
  expect(document.body.textContent).not.toContain('[object');
  if (page === 'port') {
    expect(screen.getByTestId('port-problem').textContent).toContain('The port 127.0.0.1:4587 cannot be opened (in use).');
  }
});

describe('the way to a section', () => {
  it('is the same from outside: the section shows, and whoever reads goes on at its title', async () => {
    backend.window.goTo('sharing');
    await tick();
    expect(screen.getByTestId('section-sharing').getAttribute('aria-current')).toBe('page');
    expect(document.activeElement).toBe(screen.getByRole('heading', { level: 1, name: 'Sharing' }));
    expect(backend.shown).toBe('sharing');
    backend.window.goTo('chat');
    await tick();
    expect(document.activeElement).toBe(screen.getByTestId('prompt'));
  });

  it('begins at the first section, and keeps the focus of whoever goes on', async () => {
    await go('checks');
    expect(document.activeElement).toBe(screen.getByTestId('section-checks'));
    await user.click(screen.getByTestId('nav-settings'));
    expect(screen.getByTestId('section-settings').getAttribute('aria-current')).toBe('page');
  });

  it('is marked while something is not well', async () => {
    await go('settings');
    expect(screen.queryByTestId('mark-settings')).toBeNull();
    expect(screen.queryByTestId('mark-checks')).toBeNull();
    backend.change((house) => { house.problems = [{ sentence: 'The disk is full.', trouble: null }]; });
    await tick();
    expect(screen.getByRole('button', { name: 'Settings (Needs attention)' })).toBeTruthy();
    expect(screen.getByRole('button', { name: 'Checks (Needs attention)' })).toBeTruthy();
  });
});

it('says beside the places who helps now, and how far the downloads are', async () => {
  expect(screen.queryByTestId('news-devices')).toBeNull();
  expect(screen.queryByTestId('news-models')).toBeNull();
  const file = { key: 'k', name: 'Qwen3', origin: 'here', copied: false, file: 'q.gguf', bytes_per_second: null, seconds_left: null, problem: null };
  backend.change((house) => {
    house.sharing.answering = true;
    house.downloads = [{ ...file, state: 'loading', have_bytes: 30, file_bytes: 100 }, { ...file, key: 'p', state: 'paused', have_bytes: 1, file_bytes: 100 }];
  });
  expect((await screen.findByTestId('news-devices')).textContent).toBe('2 helping');
  expect(screen.getByTestId('news-models').textContent.trim()).toMatch(/^Downloading:\s*30%$/);
  backend.change((house) => {
    house.sharing.answering = false;
    house.downloads = [{ ...file, state: 'loading', have_bytes: 30, file_bytes: null }];
  });
  await tick();
  expect(screen.queryByTestId('news-devices')).toBeNull();
  expect(screen.queryByTestId('news-models')).toBeNull();
});

describe('sharing', () => {
  it('sets limits, and shows what the house says', async () => {
    await go('sharing');
    await enter('lend-memory', '6');
    await enter('lend-streams', '99');
    expect(backend.house.settings).toMatchObject({ lend_memory_bytes: 6e9, values: { 'distributed_inference.host.max_lent_memory_mb': 6000, 'distributed_inference.host.max_concurrent_streams': 64 } });
    await user.selectOptions(screen.getByTestId('lend'), 'own');
    expect(backend.house.settings.values['gate.lend']).toBe('own');
  });

  it('never shows more memory for others than the field can hold', async () => {
    backend.change((house) => { house.settings.lend_memory_bytes = 20e9; });
    await go('sharing');
    const field = screen.getByTestId<HTMLInputElement>('lend-memory');
    expect([field.value, field.max]).toEqual(['8', '8']);
  });

  it('lists what others asked of this computer, the latest first, and forgets it when that is wanted', async () => {
    await go('sharing');
    const lines = () => screen.queryAllByTestId('asked').map((line) => line.textContent.replace(/\s+/g, ' ').trim());
    await screen.findAllByTestId('asked');
    expect(lines()).toHaveLength(5);
    expect(lines()[1]).toContain('4 minutes ago Asked to compute layers 4 to 13 of Qwen2.5 7B. Got 312 tokens in 22 s.');
    await user.click(screen.getByTestId('asked-more'));
    expect(lines()).toHaveLength(7);
    expect(lines()[5]).toBe('A computer at 192.168.1.77 1 hour ago Wanted to connect. Refused 1,204 times: it is not paired with this computer.');
    expect(lines()[6]).toContain('A computer at 192.168.1.20, which says that it is Old Dell');
    await user.click(screen.getByTestId('asked-clear'));
    await user.click(screen.getByTestId('confirm-no'));
    expect(lines()).toHaveLength(7);
    await user.click(screen.getByTestId('asked-clear'));
    await user.click(screen.getByTestId('confirm-yes'));
    await tick();
    expect(lines()).toHaveLength(1);
    expect(lines()[0]).toContain('Under way: 118 tokens');
  });

  it('says whom this computer helps, and how much it did this week', async () => {
    await go('sharing');
    expect(screen.getByTestId('sharing-guests').textContent).toBe('Nobody right now.');
    expect(screen.getByTestId('sharing-week').textContent).toContain('about 1,700 words');
    backend.change((house) => {
      house.sharing.guests = [
        { device_id: 'a', device: 'Mum’s laptop', streams: 1 },
        { device_id: 'b', device: 'Old Dell', streams: 2 },
      ];
      house.sharing.lent_days = [];
    });
    await tick();
    expect(screen.getByTestId('sharing-guests').textContent).toBe('Right now: Mum’s laptop and Old Dell (2 replies).');
    expect(screen.getByTestId('sharing-week').textContent).toContain('helped nobody');
  });

  it('springs back when the house refuses', async () => {
    await go('sharing');
    vi.spyOn(backend, 'changeSetting').mockRejectedValue(new Error('The disk is full.'));
    await enter('lend-streams', '3');
    expect((await screen.findByRole('alert')).textContent).toBe('Not changed: The disk is full.');
    await vi.waitFor(() => { expect(screen.getByTestId<HTMLInputElement>('lend-streams').value).toBe('2'); });
  });

  it('leaves a field alone while somebody types in it', async () => {
    await go('sharing');
    await user.clear(screen.getByTestId('lend-streams'));
    await user.type(screen.getByTestId('lend-streams'), '1');
    backend.change((house) => { house.settings.values['distributed_inference.host.max_concurrent_streams'] = 7; });
    await tick();
    expect(screen.getByTestId<HTMLInputElement>('lend-streams').value).toBe('1');
    await user.keyboard('{Escape}');
    expect(screen.getByTestId<HTMLInputElement>('lend-streams').value).toBe('7');
  });
});

describe('port', () => {
  beforeEach(() => go('port'));

  it('hides the key until it is asked for, and makes a new one after it was agreed to', async () => {
    expect(screen.getByTestId('port-key').textContent).toContain('hidden');
    await user.click(screen.getByTestId('show-key'));
    await vi.waitFor(() => { expect(screen.getByTestId('port-key').textContent).toMatch(/^nook-fak3/); });
    await user.click(screen.getByTestId('renew-key'));
    await agree();
    await vi.waitFor(() => { expect(screen.getByTestId('port-key').textContent).toMatch(/^nook-n3w/); });
    expect(screen.getAllByText(/The old one does not work any more/).length).toBeGreaterThan(0);
  });

  it('shows settings without the key and copies them with it', async () => {
    await user.selectOptions(screen.getByTestId('program'), 'aider');
    expect(screen.getByTestId('program-settings').textContent).toContain('YOUR-KEY');
    await user.click(screen.getByTestId('copy-settings'));
    await vi.waitFor(async () => { expect(await navigator.clipboard.readText()).toContain('nook-fak3'); });
  });

  it('is opened to the network by a switch that says what that means', async () => {
    const knob = screen.getByTestId('expose');
    const hint = document.getElementById(knob.getAttribute('aria-describedby') ?? '');
    expect(hint?.textContent).toMatch(/next start.*have a key.*unencrypted/);
    expect(screen.queryByTestId('exposed-at')).toBeNull();
    await user.click(knob);
    expect(backend.house.settings.expose_to_lan).toBe(true);
    expect(screen.getByTestId('exposed-at').textContent).toContain('instead of 127.0.0.1');
    vi.spyOn(backend, 'changeSetting').mockRejectedValue(new Error('The disk is full.'));
    await user.click(knob);
    expect((await screen.findByRole('alert')).textContent).toContain('The disk is full.');
    expect(knob.getAttribute('aria-checked')).toBe('true');
  });

  it('says whether it answers', async () => {
    await user.click(screen.getByTestId('test-port'));
    expect((await screen.findByTestId('tested')).textContent).toBe('The port answers.');
    vi.spyOn(backend, 'testPort').mockResolvedValue(401);
    await user.click(screen.getByTestId('test-port'));
    await vi.waitFor(() => { expect(screen.getByTestId('tested').textContent).toBe('The port answers with 401.'); });
  });
});

describe('settings', () => {
  it('switches notices off and safe graphics on, and the checks say how it is drawn now', async () => {
    await go('settings');
    expect(screen.getByTestId('notifications').getAttribute('aria-checked')).toBe('true');
    await user.click(screen.getByTestId('notifications'));
    await user.click(screen.getByTestId('safe-graphics'));
    expect(backend.house.settings.values).toMatchObject({ 'window.notifications': false, 'window.safe_graphics': true });
    await go('checks');
    expect(screen.getByTestId('drawing').textContent).toBe('with the graphics card');
  });

  it('change colours, size of text and pooling at once', async () => {
    await go('settings');
    await user.selectOptions(screen.getByTestId('theme'), 'dark');
    expect(document.documentElement.dataset['theme']).toBe('dark');
    await user.selectOptions(screen.getByTestId('size'), 'large');
    expect(document.documentElement.style.fontSize).toBe('118%');
    await user.selectOptions(screen.getByTestId('pooling'), 'always');
    expect(backend.house.settings.values['distributed_inference.pooling']).toBe('always');
  });

  it('keep the language and load the page anew', () => {
    const reload = vi.fn();
    state.speak('de', reload);
    expect(reload).toHaveBeenCalledOnce();
    expect(new WindowState(backend).look.language).toBe('de');
  });

  it('ask before another language ends a chat that is not kept', async () => {
    const reload = vi.fn();
    await go('chat');
    await user.click(screen.getByTestId('temporary'));
    await user.type(screen.getByTestId('prompt'), 'a story{Enter}');
    await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
    state.speak('de', reload);
    await user.click(await screen.findByTestId('confirm-no'));
    expect(reload).not.toHaveBeenCalled();
    expect(state.look.language).toBeNull();
    state.speak('de', reload);
    await agree();
    expect(reload).toHaveBeenCalledOnce();
    expect(state.look.language).toBe('de');
  });
});

it('devices show the safety number with how to compare it, and what is in their memory', async () => {
  await go('devices');
  await user.click(screen.getByRole('button', { name: 'More about Dad’s PC' }));
  const dad = screen.getByTestId('device-detail');
  expect(dad.textContent).toContain('Qwen2.5 7B: parts 1–16');
  expect(dad.textContent).toContain('16 of 20 parts');
  expect(within(dad).getByTestId('safety-number').textContent).toMatch(/^(\d{5} ){7}\d{5}$/);
  expect(dad.textContent).toContain('the same on both screens');
  await user.click(screen.getByRole('button', { name: 'More about Mum’s laptop' }));
  expect(screen.getByTestId('device-detail').textContent).toContain('not loaded yet');
});

describe('the household', () => {
  const picture = () => within(screen.getByTestId('picture'));
  const nodeOf = (title: string) => {
    const node = picture().getAllByTestId('node').find((one) => one.title === title);
    if (node === undefined) throw new Error(`nobody is called “${title}” in the picture`);
    return node;
  };

  it('says what it brings, together against alone, and whether that is measured', async () => {
    await go('devices');
    await vi.waitFor(() => { expect(screen.getByTestId('gain').textContent).toBe('Together, 2.7 times as fast'); });
    expect(screen.getByTestId('gain-line').textContent).toMatch(/Together: models up to Qwen3 8B, about 14 words\/s\.\s+This laptop alone: up to Qwen3 4B, 5\.3 words\/s\./);
    expect(document.body.textContent).not.toContain('Together is measured');
    await user.click(screen.getByRole('button', { name: 'How this is known' }));
    expect(document.body.textContent).toContain('Together is measured, on the last reply of Qwen2.5 7B; alone is predicted.');
    backend.change((house) => { house.sharing.answering = true; });
    await vi.waitFor(() => { expect(screen.getByTestId('gain').textContent).toBe('Together, 2.9 times as fast'); });
    expect(document.body.textContent).toContain('Both are predicted, for the last reply of Qwen2.5 7B.');
    backend.change((house) => { house.devices = []; });
    await vi.waitFor(() => { expect(screen.getByTestId('gain').textContent).toBe('Only this computer so far'); });
  });

  it('has dots on the way of a reply only while one is made, and says who helps', async () => {
    await go('devices');
    await vi.waitFor(() => { expect(picture().getAllByTestId('line')).toHaveLength(6); });
    expect(picture().queryByTestId('dot')).toBeNull();
    expect(screen.queryByTestId('now')).toBeNull();
    backend.change((house) => { house.sharing.answering = true; });
    await vi.waitFor(() => { expect(picture().getAllByTestId('dot').length).toBeGreaterThan(0); });
    expect(screen.getByTestId('now').textContent).toBe('Dad’s PC and Mum’s laptop help with a reply now.');
    backend.change((house) => { house.sharing.answering = false; });
    await vi.waitFor(() => { expect(picture().queryByTestId('dot')).toBeNull(); });
  });

  it('opens the details of whoever is chosen in the picture or in the list, and gives the focus back', async () => {
    await go('devices');
    await user.click(nodeOf('Old Dell: not trusted yet'));
    expect(screen.getByTestId('device-detail').textContent).toContain('Old Dell');
    const more = screen.getByRole('button', { name: 'More about Mia’s laptop' });
    await user.click(more);
    expect(screen.getByTestId('this-detail').textContent).toContain('about 1,700 words');
    expect(document.activeElement).toBe(screen.getByTestId('this-detail'));
    await user.keyboard('{Escape}');
    expect(screen.queryByTestId('this-detail')).toBeNull();
    expect(document.activeElement).toBe(more);
    await user.click(nodeOf('Kitchen PC: shows a code now'));
    expect(document.activeElement).toBe(screen.getByTestId('type-code'));
  });

  it('is a table: memory where it is known, what was helped with this week, and a dash where there was nothing', async () => {
    await go('devices');
    const table = within(screen.getByRole('table', { name: 'The computers of the household' }));
    expect(table.getAllByRole('columnheader').map((head) => head.textContent)).toEqual(['Computer', 'Memory', 'Link, power', 'This week', 'Trust', 'Details']);
    const rows = [screen.getByTestId('this-device'), ...screen.getAllByTestId('device-row')];
    const said = (id: string) => rows.map((row) => within(row).queryAllByTestId(id).map((one) => one.textContent.trim()).join('; '));
    expect(said('memory')).toEqual(['Lends up to 4 of 8.2 GB', 'Can lend 6.9 GB', 'Can lend 6.4 of 16 GB', '']);
    expect(said('week-words')).toEqual(['This week: 1,700 words', 'This week: 38,000 words', 'This week: 6,200 words', '–']);
    expect(rows.map((row) => within(row).getAllByRole('cell').length)).toEqual([5, 5, 5, 5]);
  });

  it('has rings where computers say what is loaded, and none elsewhere', async () => {
    await go('devices');
    expect(picture().getAllByTestId('node').filter((node) => node.querySelector('[data-testid="ring"]') !== null).map((node) => node.title)).toEqual([
      'Dad’s PC: carries 20 of 28 parts, 16 of 20 parts loaded', 'Mum’s laptop: carries 6 of 28 parts, 0 of 6 parts loaded',
    ]);
  });

  it('folds more than seven others', async () => {
    backend.change((house) => {
      const [dad] = house.devices;
      if (dad) house.devices.push(...Array.from({ length: 9 }, (_, at) => ({ ...dad, id: `more${String(at)}`, name: `Helper ${String(at)}` })));
    });
    await go('devices');
    expect(screen.getAllByTestId('device-row')).toHaveLength(7);
    await user.click(screen.getByTestId('more-members'));
    expect(screen.getAllByTestId('device-row')).toHaveLength(12);
  });
});

it('a device that sleeps and allows it is woken from its details, which then says how long that took', async () => {
  backend.change((house) => {
    const asleep = { connected: false, wakeable: true, unused: 'away', unused_because: 'It does not answer.' };
    Object.assign(house.devices.find((d) => d.id === MUM) ?? {}, asleep);
  });
  await go('devices');
  const detail = () => screen.getByTestId('device-detail').textContent;
  await user.click(screen.getByRole('button', { name: 'More about Dad’s PC' }));
  expect(screen.queryByTestId('wake'), 'who is there is not woken').toBeNull();
  await user.click(screen.getByRole('button', { name: 'More about Mum’s laptop' }));
  expect(screen.getAllByTestId('wake').map((button) => button.textContent)).toEqual(['Wake Mum’s laptop']);
  await user.click(screen.getByTestId('wake'));
  await vi.waitFor(() => { expect(detail()).toContain('connected'); });
  expect(screen.queryByTestId('wake')).toBeNull();
  backend.change((house) => { Object.assign(house.devices.find((d) => d.id === MUM) ?? {}, { connected: false }); });
  await vi.waitFor(() => { expect(detail()).toContain('The last time, that took 22 s.'); });
});

it('whether models think before they answer is chosen in the settings', async () => {
  await go('settings');
  const choice = screen.getByTestId('thinking');
  expect((choice as HTMLSelectElement).value).toBe('usual');
  await user.selectOptions(choice, 'off');
  expect(backend.house.settings.values['chat.thinking']).toBe('off');
});

it('whether others may wake this computer, and it them by itself, is switched under sharing', async () => {
  await go('sharing');
  await user.click(screen.getByTestId('let-others-wake'));
  expect(backend.house.settings.values['network.let_others_wake']).toBe(true);
  await user.click(screen.getByTestId('wake-helpers'));
  expect(backend.house.settings.values['network.wake_helpers']).toBe(true);
});

it('the checks show the last replies, with who was lost and who took over', async () => {
  await go('checks');
  const rows = await screen.findAllByTestId('past-reply');
  expect(rows).toHaveLength(5);
  expect(rows[0]?.textContent).toContain('This computer, Dad’s PC and Mum’s laptop');
  expect(rows[0]?.textContent).toContain('Mum’s laptop took over from Dad’s PC after 96 tokens');
  await user.click(screen.getByTestId('past-more'));
  expect(screen.getAllByTestId('past-reply')).toHaveLength(7);
  vi.spyOn(backend, 'pipeline').mockResolvedValue({ pooling: 'when_faster', last: null, measured: [], placement: null, past: [], gains: [] });
  await user.click(screen.getByTestId('look-again'));
  expect(await screen.findByTestId('no-past')).toBeTruthy();
});

it('the side bar shows no count of devices, and a pause in place of the switch that looks on', async () => {
  const line = () => screen.getByTestId('sharing-status').textContent;
  expect(line()).toBe('On: nobody needs it right now');
  backend.change((house) => { house.sharing.paused = { reason: 'battery', sentence: '', until: null }; });
  await tick();
  expect(line()).toBe('Paused on battery');
  expect(screen.getByTestId('share-toggle').classList).toContain('paused');
  backend.change((house) => { house.sharing.paused = { reason: 'owner', sentence: '', until: null }; });
  await tick();
  expect(screen.queryByTestId('share-toggle')).toBeNull();
  await user.click(screen.getByTestId('share-resume'));
  await vi.waitFor(() => { expect(line()).toBe('On: nobody needs it right now'); });
  expect(screen.getByTestId('share-toggle').classList).not.toContain('paused');
});

describe('the first start', () => {
  it('shows and sets when sharing pauses, and starts at login only when that is chosen', async () => {
    await user.click(screen.getByTestId('first-next'));
    await user.click(screen.getByTestId('first-skip'));
    await user.click(screen.getByTestId('first-limits'));
    const when = await screen.findByTestId('first-when');
    expect(within(when).getByTestId('pause-on-battery').getAttribute('aria-checked')).toBe('true');
    await user.click(within(when).getByTestId('pause-on-battery'));
    await user.click(within(when).getByTestId('quiet-hours'));
    expect(backend.house.settings.values).toMatchObject({ 'distributed_inference.host.pause.on_battery': false, 'distributed_inference.host.pause.quiet_hours': '22:00-07:00' });
    const from = within(when).getByTestId<HTMLInputElement>('quiet-from');
    await fireEvent.change(from, { target: { value: '07:00' } });
    await vi.waitFor(() => { expect(from.value, 'a part of no length is none').toBe('22:00'); });
    vi.spyOn(backend, 'changeSetting').mockRejectedValueOnce(new Error('The settings cannot be written.'));
    await fireEvent.change(from, { target: { value: '21:00' } });
    await vi.waitFor(() => { expect(from.value, 'what was refused').toBe('22:00'); });
    const login = await screen.findByTestId('autostart');
    expect(login.getAttribute('aria-checked')).toBe('false');
    expect(await backend.autostart()).toBe(false);
    await user.click(login);
    expect(await backend.autostart()).toBe(true);
    expect(backend.house.sharing.on, 'nothing else was switched').toBe(true);
  });

  it('names the computers that are already seen, those that wait with a code first', async () => {
    for (const step of ['first-next', 'first-skip', 'first-next']) await user.click(screen.getByTestId(step));
    const seen = screen.getAllByTestId('first-seen').map((row) => row.textContent);
    expect(seen).toEqual(['Kitchen PC shows a code now', 'Attic not paired']);
  });

  it('asks name, sharing, a model and devices, and chatting works beside it', async () => {
    const card = screen.getByTestId('first-start');
    await user.clear(within(card).getByTestId('first-name'));
    await user.type(within(card).getByTestId('first-name'), 'Attic{Enter}');
    await screen.findByTestId('first-model');
    expect(backend.house.me.name).toBe('Attic');
    expect(screen.getByTestId('first-next').textContent).toBe('Download and continue');
    await user.click(screen.getByTestId('first-next'));
    // The next question is there, and over the message field how far the model is.
    expect(await screen.findByTestId('first-share')).toBeTruthy();
    expect(screen.getByTestId('strip').textContent).toContain('Qwen3 4B is coming: Connecting.');
    expect(screen.queryByTestId('first-skip'), 'one way out of a step').toBeNull();
    await user.click(screen.getByTestId('first-next'));
    expect(await screen.findByTestId('first-devices')).toBeTruthy();
    expect(backend.house.downloads.map((one) => one.name)).toEqual([backend.house.catalogue.find((one) => one.recommended)?.id]);
    await user.click(screen.getByTestId('first-devices'));
    expect(await screen.findByTestId('show-code')).toBeTruthy();
    await go('chat');
    expect(screen.queryByTestId('first-start')).toBeNull();
  });

  it('keeps the name before it speaks another language', async () => {
    const speak = vi.spyOn(state, 'speak').mockImplementation(() => undefined);
    await user.clear(screen.getByTestId('first-name'));
    await user.type(screen.getByTestId('first-name'), 'Dachboden');
    await user.selectOptions(screen.getByTestId('first-language'), 'de');
    await vi.waitFor(() => { expect(speak).toHaveBeenCalledExactlyOnceWith('de'); });
    expect(backend.house.me.name).toBe('Dachboden');
  });

  it('offers no download of a model that fits nowhere in the house', async () => {
    backend.change((house) => { for (const entry of house.catalogue) entry.fit = { ...entry.fit, kind: 'nowhere' }; });
    await user.click(screen.getByTestId('first-next'));
    await screen.findByTestId('first-model');
    expect(screen.getByTestId('first-start').textContent).toContain('No model fits into the memory of this computer.');
    expect(screen.getByTestId('first-next').textContent).toBe('Continue');
    await user.click(screen.getByTestId('first-next'));
    expect(await screen.findByTestId('first-share')).toBeTruthy();
    expect(backend.house.downloads).toEqual([]);
  });

  it('downloads nothing where only the story teller is wanted, and stays where a download does not begin', async () => {
    await user.click(screen.getByTestId('first-next'));
    vi.spyOn(backend, 'pull').mockRejectedValueOnce(new Error('No way to the internet.'));
    await user.click(screen.getByTestId('first-next'));
    expect((await screen.findByRole('alert')).textContent).toContain('No way to the internet.');
    expect(screen.getByTestId('first-model')).toBeTruthy();
    expect(screen.getByTestId('first-skip').textContent).toBe('Story teller only');
    await user.click(screen.getByTestId('first-skip'));
    expect(await screen.findByTestId('first-share')).toBeTruthy();
    expect(backend.house.downloads.map((one) => one.name)).not.toContain(backend.house.catalogue.find((one) => one.recommended)?.id);
  });

  it('stays away when it is not wanted', async () => {
    await user.click(screen.getByTestId('first-not-now'));
    expect(screen.queryByTestId('first-start')).toBeNull();
    await user.type(screen.getByTestId('prompt'), 'a story{Enter}');
    await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
  });
});

describe('a chat', () => {
  async function say(text: string): Promise<void> {
    await user.type(screen.getByTestId('prompt'), `${text}{Enter}`);
    await vi.waitFor(() => { expect(state.desk.current.busy || state.desk.current.waiting !== null).toBe(false); });
    await tick();
  }

  it('is edited with the up key', async () => {
    await say('a story');
    await user.type(screen.getByTestId('prompt'), '{ArrowUp}');
    const field = await screen.findByTestId<HTMLTextAreaElement>('edit-field');
    expect(document.activeElement).toBe(field);
    await user.clear(field);
    await user.type(field, 'write a program{Enter}');
    await vi.waitFor(() => { expect(screen.getByTestId('person').textContent).toContain('write a program'); });
    await vi.waitFor(() => { expect(within(screen.getByTestId('person')).getByTestId('variants').textContent).toContain('2/2'); });
  });

  it('unfolds who did what under a reply, also after it is loaded again', async () => {
    await say('a story');
    state.desk.current.live = null;
    await state.desk.current.load();
    await tick();
    await user.click(screen.getByTestId('who'));
    expect(screen.getAllByTestId('who-row').map((row) => row.textContent).join()).toContain('Dad’s PC');
    await user.click(within(screen.getByTestId('timeline')).getByText('Details'));
    const rows = await screen.findAllByTestId('timeline-row');
    expect(rows.map((row) => within(row).getByRole('rowheader').textContent)).toContain('Dad’s PC');
  });

  it('says on which device the whole reply was made', async () => {
    await say('a story');
    const messages = await backend.messages(state.desk.current.id ?? 0);
    const there = { device_id: 'dad', device: 'Dad’s PC', local: false, layers: [0, 27] as [number, number], embedding: true, head: true };
    const whole = messages.map((m) => (m.summary ? { ...m, stretches: [], summary: { ...m.summary, route: { legs: [there] } } } : m));
    vi.spyOn(backend, 'messages').mockResolvedValue(whole);
    state.desk.current.live = null;
    await state.desk.current.load();
    await tick();
    expect(screen.getByTestId('facts').textContent).toContain('on Dad’s PC');
    expect(screen.getByTestId('route-ribbon').textContent).toContain('everything, the words too');
  });

  it('goes on after it was cut', async () => {
    await say('fail in the middle');
    await user.click(screen.getByTestId('more'));
    await vi.waitFor(() => { expect(screen.getByTestId('reply').dataset['phase']).toBe('finished'); });
    expect(screen.getByTestId('reply-text').textContent).toContain('neighbours');
  });

  it('says “Stopped.” and nothing else when the person stopped it', async () => {
    await say('a story');
    const id = state.desk.current.id ?? 0;
    const messages = await backend.messages(id);
    const cut = messages.map((m) => (m.role === 'assistant' ? { ...m, summary: null, finish: 'stopped' as const, cut_because: 'Stopped.' } : m));
    vi.spyOn(backend, 'messages').mockResolvedValue(cut);
    state.desk.current.live = null;
    await state.desk.current.load();
    await tick();
    expect(screen.getByTestId('cut').textContent.trim()).toBe('Stopped.');
  });

  it('has instructions to start from, and is saved as a file', async () => {
    await say('a story');
    await user.click(screen.getByTestId('about'));
    await user.selectOptions(await screen.findByTestId('preset'), 'Plain language');
    expect(screen.getByTestId<HTMLTextAreaElement>('instructions').value).toContain('ten-year-old');
    await user.click(screen.getByTestId('save-markdown'));
    expect((await screen.findByTestId('saved')).textContent).toMatch(/^Saved: .*\.md$/);
    await user.click(screen.getByTestId('dialog-close'));
    await vi.waitFor(() => { expect(state.desk.current.instructions).toContain('ten-year-old'); });
  });

  it('that is not kept asks before it is left', async () => {
    await user.click(screen.getByTestId('temporary'));
    await say('a story');
    expect(screen.getByTestId('temporary-badge')).toBeTruthy();
    await user.click(screen.getByTestId('new-chat'));
    await user.click(await screen.findByTestId('confirm-no'));
    expect(screen.getByTestId('reply')).toBeTruthy();
    await user.click(screen.getByTestId('new-chat'));
    await agree();
    await vi.waitFor(() => { expect(screen.queryByTestId('reply')).toBeNull(); });
  });

  it('takes files, and shows them folded in the message', async () => {
    await user.upload(screen.getByTestId('attach'), new File(['print(1)'], 'one.py'));
    expect((await screen.findByTestId('file')).textContent).toContain('one.py');
    await say('What is this?');
    expect(screen.getByTestId('person').querySelector('summary')?.textContent).toContain('one.py');
    expect(screen.getByTestId('person').querySelector('p')?.textContent).not.toContain('print(1)');
  });

  it('is found by its words, with the place', async () => {
    await user.type(screen.getByTestId('search'), 'simmer');
    const found = await screen.findByTestId('excerpt');
    expect(found.textContent).toContain('simmer');
  });
});
