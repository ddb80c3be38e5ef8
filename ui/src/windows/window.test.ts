/** Promises of the window as people use it: keys, focus, names, and both pages against the fake household. */
import { render, screen, within } from '@testing-library/svelte';
import axe from 'axe-core';
import { tick } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import MainWindow from './MainWindow.svelte';
import { go, typeCode, user } from './testing';
import { WindowState } from './window.svelte';

let backend: FakeBackend;
let state: WindowState;

beforeEach(async () => {
  backend = new FakeBackend({ tokenMs: 0 });
  state = new WindowState(backend);
  await state.start();
  render(MainWindow, { state });
  await tick();
});

/** Colours are proved by `tokens.test.ts`; happy-dom has no layout to measure them in. */
async function faults(): Promise<string[]> {
  const { violations } = await axe.run(document.body, { rules: { 'color-contrast': { enabled: false }, region: { enabled: false } } });
  return violations.map((fault) => `${fault.id}: ${fault.nodes.map((node) => node.html).join(' ')}`);
}

async function say(text: string): Promise<void> {
  await user.type(screen.getByTestId('prompt'), `${text}{Enter}`);
  await vi.waitFor(() => { expect(state.desk.current.busy || state.desk.current.waiting !== null).toBe(false); });
  await tick();
}

describe('chat', () => {
  it('sends with Enter, streams, and announces the end politely', async () => {
    await say('Tell me a story');
    const reply = screen.getByTestId('reply');
    expect(within(reply).getByTestId('reply-text').textContent).toContain('Once upon a time');
    expect(within(reply).getByTestId('route-ribbon').textContent).toContain('Dad’s PC');
    expect(screen.getByTestId('announcer').textContent).toMatch(/^Reply finished: \d+ words\.$/);
    expect(screen.getByRole('log').getAttribute('aria-live')).toBe('off');
  });

  it('starts a new line with Shift+Enter', async () => {
    await user.type(screen.getByTestId('prompt'), 'one{Shift>}{Enter}{/Shift}two');
    expect(screen.getByTestId<HTMLTextAreaElement>('prompt').value).toBe('one\ntwo');
    expect(screen.queryByTestId('reply')).toBeNull();
  });

  it('sends nothing while a file is being read', async () => {
    let come = (): void => undefined;
    const file = new File(['text'], 'a.txt');
    const bytes = file.arrayBuffer();
    vi.spyOn(file, 'arrayBuffer').mockReturnValue(new Promise((resolve) => { come = () => { resolve(bytes); }; }));
    await user.type(screen.getByTestId('prompt'), 'What is this?');
    expect(screen.getByTestId<HTMLButtonElement>('send').disabled).toBe(false);
    const attached = state.desk.attach([file]);
    await tick();
    expect(screen.getByTestId<HTMLButtonElement>('send').disabled).toBe(true);
    await vi.waitFor(() => { expect(file.arrayBuffer).toHaveBeenCalled(); });
    come();
    await attached;
    await tick();
    expect(screen.getByTestId<HTMLButtonElement>('send').disabled).toBe(false);
    expect(screen.getByTestId('file').textContent).toContain('a.txt');
  });

  it('stops with Esc', async () => {
    const stop = vi.spyOn(backend, 'stop').mockResolvedValue();
    vi.spyOn(backend, 'say').mockResolvedValue({ conversation: 50, user_message: 51, reply_message: 52 });
    await user.type(screen.getByTestId('prompt'), 'a long story{Enter}');
    await screen.findByTestId('stop');
    await user.keyboard('{Escape}');
    expect(stop).toHaveBeenCalledExactlyOnceWith(52);
  });

  it('marks the hand-over inside the reply and shows the new route', async () => {
    await say('leaves, hand over');
    expect(screen.getByTestId('hand-over').textContent).toContain('Mum’s laptop carried on (0.3 s)');
    // The one that helped first is not forgotten: three took part.
    expect(screen.getByTestId('route-ribbon').textContent).toContain('Dad’s PC helped first, then left');
    expect(screen.getByTestId('facts').textContent).toContain('Dad’s PC and Mum’s laptop helped');
  });

  it('shows an interrupted reply as such', async () => {
    await say('fail in the middle');
    expect(screen.getByTestId('cut').textContent).toContain('nobody could take over');
  });

  it('goes through the versions of a reply', async () => {
    await say('a story');
    await user.click(screen.getByTestId('again'));
    await vi.waitFor(() => { expect(screen.getByTestId('variants').textContent).toContain('2/2'); });
    await user.click(screen.getByRole('button', { name: 'Previous version' }));
    expect(screen.getByTestId('variants').textContent).toContain('1/2');
  });

  it('opens a link only after it was shown in full and agreed to', async () => {
    await say('write a program');
    const link = screen.getByRole('button', { name: 'the manual' });
    await user.click(link);
    expect(screen.getByTestId('confirm').textContent).toContain('https://docs.python.org/3/library/collections.html');
    await user.click(screen.getByTestId('confirm-no'));
    expect(backend.opened).toEqual([]);
    await user.click(link);
    await user.click(screen.getByTestId('confirm-yes'));
    await vi.waitFor(() => { expect(backend.opened).toHaveLength(1); });
  });
});

describe('keys', () => {
  it('go to search, message field and new chat', async () => {
    await user.keyboard('{Control>}k{/Control}');
    await vi.waitFor(() => { expect(document.activeElement).toBe(screen.getByTestId('search')); });
    await user.keyboard('{Control>}l{/Control}');
    await vi.waitFor(() => { expect(document.activeElement).toBe(screen.getByTestId('prompt')); });
    await say('a story');
    await user.keyboard('{Control>}n{/Control}');
    await vi.waitFor(() => { expect(screen.queryByTestId('reply')).toBeNull(); });
  });

  it('show their own list, and give the focus back', async () => {
    screen.getByTestId('prompt').focus();
    await user.keyboard('{Control>}/{/Control}');
    const sheet = await screen.findByTestId('shortcuts');
    expect(sheet.textContent).toContain('Stop the reply');
    await user.click(within(sheet).getByRole('button', { name: 'Close' }));
    await vi.waitFor(() => { expect(screen.queryByTestId('shortcuts')).toBeNull(); });
    expect(document.activeElement).toBe(screen.getByTestId('prompt'));
  });

  it('quit where there is no tray, which the window explains', async () => {
    backend.window.noTray();
    await tick();
    expect(screen.getByText(/only minimises it/).textContent).toContain('To quit: Ctrl Q.');
    const quit = vi.spyOn(backend, 'quit');
    await user.keyboard('{Control>}q{/Control}');
    expect(quit).toHaveBeenCalledOnce();
  });

  it('rename a conversation in place', async () => {
    const row = screen.getAllByTestId('conversation')[0];
    if (row === undefined) throw new Error('no conversation');
    within(row).getByRole('button', { name: 'Why leaves change colour' }).focus();
    await user.keyboard('{F2}');
    await user.keyboard('Autumn{Enter}');
    expect(await screen.findByRole('button', { name: 'Autumn' })).toBeTruthy();
  });
});

describe('sharing', () => {
  it('shows what the house says, whoever changed it', async () => {
    const toggle = screen.getByRole('switch', { name: 'Share this computer' });
    expect(toggle.getAttribute('aria-checked')).toBe('true');
    await backend.setSharing('off');
    await tick();
    expect(toggle.getAttribute('aria-checked')).toBe('false');
    await user.click(toggle);
    expect(backend.house.sharing.on).toBe(true);
  });

  it('says why it stayed as it was', async () => {
    vi.spyOn(backend, 'setSharing').mockRejectedValue(new Error('No memory to spare.'));
    await user.click(screen.getByTestId('share-toggle'));
    expect((await screen.findByRole('alert')).textContent).toContain('No memory to spare.');
    expect(screen.getByTestId('share-toggle').getAttribute('aria-checked')).toBe('true');
  });

  it('says why what was asked for in the tray was not done', async () => {
    backend.window.notDone({ code: 'disk_full', sentence: 'The settings could not be written.', wording: null });
    expect((await screen.findByTestId('toast')).textContent).toContain('The settings could not be written.');
    await user.click(screen.getByTestId('toast-close'));
    expect(screen.queryByTestId('toast')).toBeNull();
  });
});

describe('devices', () => {
  beforeEach(async () => {
    await go('devices');
  });

  it('says why a device is not used, and the honest sentence where trust is chosen', () => {
    const dell = screen.getAllByTestId('device-row').find((row) => row.textContent.includes('Old Dell'));
    expect(dell?.textContent).toContain('Not used: you do not trust it yet.');
    const trust = screen.getByRole('combobox', { name: 'Trust in Old Dell' });
    const honest = document.getElementById(trust.getAttribute('aria-describedby') ?? '');
    expect(honest?.textContent).toContain('can read everything you and the model write, word for word');
  });

  it('sets trust, and shows what the house says when it is refused', async () => {
    const trust = screen.getByRole<HTMLSelectElement>('combobox', { name: 'Trust in Old Dell' });
    await user.selectOptions(trust, 'trusted');
    await vi.waitFor(() => { expect(backend.house.devices[2]?.trust).toBe('trusted'); });
    vi.spyOn(backend, 'setTrust').mockRejectedValue(new Error('Not now.'));
    await user.selectOptions(trust, 'own');
    await vi.waitFor(() => { expect(trust.value).toBe('trusted'); });
    expect(screen.getByRole('alert').textContent).toBe('Not now.');
  });

  it('shows a code and pairs by a typed one', async () => {
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('show-code'));
    expect((await screen.findByTestId('pair-code')).textContent).toBe('170 352');
    await user.click(screen.getByTestId('dialog-close'));
    expect(backend.house.pairing?.code, 'closing withdraws nothing').toBe('170352');
    await user.click(screen.getByTestId('add-device'));
    expect((await screen.findByTestId('pair-code')).textContent).toBe('170 352');
    await user.click(screen.getByTestId('hide-code'));
    await user.click(await screen.findByTestId('dialog-close'));
    expect(backend.house.pairing).toBeNull();
    await typeCode('483920');
    expect((await screen.findByTestId('join-done')).textContent).toContain('Kitchen PC');
    expect(screen.getAllByTestId('device-row')).toHaveLength(4);
  });

  it('asks once after pairing whether the two may help each other', async () => {
    await typeCode('483920');
    const question = await screen.findByTestId('help-question');
    expect(within(screen.getByTestId('pairing')).getByRole('heading').textContent).toBe('May this computer and Kitchen PC help each other?');
    expect(question.textContent).toContain('can read everything you and the model write, word for word');
    expect(question.textContent).toContain('Kitchen PC has not answered yet.');
    const answer = vi.spyOn(backend, 'answerHelp').mockRejectedValueOnce(new Error('Not now.'));
    await user.click(screen.getByTestId('help-each-other'));
    expect((await screen.findByRole('alert')).textContent).toBe('Not now.');
    await user.click(screen.getByTestId('help-each-other'));
    await vi.waitFor(() => { expect(screen.queryByTestId('help-question')).toBeNull(); });
    expect(answer).toHaveBeenLastCalledWith('kitchen5pc2m7qxt', 'each_other');
    expect(backend.house.sharing.on).toBe(true);
    expect(screen.getByTestId('pairing').textContent).toContain('Now confirm on Kitchen PC');
    backend.change((house) => {
      const kitchen = house.devices.find((device) => device.name === 'Kitchen PC');
      if (kitchen) kitchen.their_terms = { answered: true, helps: true, asks: true };
    });
    await tick();
    expect(screen.getByTestId('pairing').textContent).toContain('Both computers help each other');
    await user.click(screen.getByTestId('pair-done'));
    expect(screen.queryByTestId('pairing')).toBeNull();
  });

  it('keeps the question on the page when the dialog is closed before the answer', async () => {
    await typeCode('483920');
    await screen.findByTestId('join-done');
    expect(screen.getAllByTestId('help-question')).toHaveLength(1);
    await user.click(screen.getByTestId('dialog-close'));
    expect(screen.queryByTestId('pairing')).toBeNull();
    expect(screen.getByTestId('help-question').textContent).toContain('May this computer and Kitchen PC help each other?');
  });

  it('asks on this side, too, when the other computer has typed the code of this one', async () => {
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('show-code'));
    await screen.findByTestId('pair-code');
    backend.change((house) => {
      house.pairing = null;
      house.paired_by_code = { device: house.devices.find((device) => device.name === 'Attic')?.id ?? '', times: 1 };
      Object.assign(house.devices.find((device) => device.name === 'Attic') ?? {}, { paired: true, trust: 'guest', asks_help: true });
    });
    expect((await screen.findByTestId('join-done')).textContent).toContain('Attic');
    await vi.waitFor(() => { expect(document.activeElement).toBe(screen.getByTestId('join-done')); });
  });

  it('asks again of a computer that was paired before and has forgotten it', async () => {
    const known = backend.house.devices.find((device) => device.paired);
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('show-code'));
    await screen.findByTestId('pair-code');
    backend.change((house) => {
      house.pairing = null;
      house.paired_by_code = { device: known?.id ?? '', times: 1 };
    });
    expect((await screen.findByTestId('join-done')).textContent).toContain(known?.name);
  });

  it('does not say that a code is on a screen which shows none', async () => {
    const [first] = backend.house.devices.filter((device) => !device.paired && !device.pairing);
    backend.change((house) => { house.devices = house.devices.filter((device) => device.paired || device.id === first?.id); });
    await user.click(screen.getByRole('button', { name: `Pair with ${first?.name ?? ''}` }));
    await user.click(await screen.findByTestId('type-here'));
    expect(screen.getByTestId('pairing').textContent).toContain('It shows no code yet.');
    backend.change((house) => { for (const device of house.devices) if (device.id === first?.id) device.pairing = true; });
    await vi.waitFor(() => { expect(screen.getByTestId('pairing').textContent).toContain('It is on the screen there.'); });
  });

  it('offers a computer that was paired before, has forgotten it and shows a code', async () => {
    backend.change((house) => { Object.assign(house.devices.find((device) => device.paired) ?? {}, { pairing: true, connected: false }); });
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('type-here'));
    const offered = within(screen.getByTestId('pairing')).getAllByRole('radio');
    expect(offered.map((one) => one.closest('label')?.textContent)).toContainEqual(expect.stringContaining(backend.house.devices.find((device) => device.paired)?.name ?? '-'));
  });

  it('says why a code is gone, and shows another one', async () => {
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('show-code'));
    await screen.findByTestId('pair-code');
    backend.change((house) => { house.pairing = null; });
    expect((await screen.findByTestId('code-gone')).textContent).toContain('typed wrong three times');
    await user.click(screen.getByTestId('new-code'));
    expect(await screen.findByTestId('pair-code')).toBeTruthy();
    backend.change((house) => { if (house.pairing) house.pairing.expires = 0; });
    await screen.findByTestId('code-gone');
    expect(within(screen.getByTestId('pairing')).getByRole('heading').textContent).toBe('This code has expired');
  });

  it.each([
    ['111111', null, 'That code is not right'],
    ['483920', 'no code there', 'This code has expired'],
    ['483920', '10.0.0.9:1', 'The other computer does not answer'],
  ])('says in the title what went wrong: %s at %s', async (code, at, title) => {
    await user.click(screen.getByTestId('add-device'));
    await user.click(screen.getByTestId('type-here'));
    if (at === 'no code there') {
      await user.type(screen.getByTestId('type-address'), '192.168.1.44');
    } else if (at !== null) await user.type(screen.getByTestId('type-address'), at);
    await user.type(screen.getByTestId('type-code'), code);
    await screen.findByTestId('join-problem');
    expect(within(screen.getByTestId('pairing')).getByRole('heading').textContent).toBe(title);
    // Where nobody answered, the same digits are tried again.
    expect(screen.getByTestId<HTMLInputElement>('type-code').value).toBe(title.includes('answer') ? '483 920' : '');
  });

  it.each([['only-this', 'You chose that this computer helps it'], ['nothing', 'You have not allowed it to compute for you']])(
    'says beside the device what follows from the answer %s', async (choice, words) => {
      await typeCode('483920');
      await user.click(await screen.findByTestId(`help-${choice}`));
      await vi.waitFor(() => { expect(screen.queryByTestId('help-question')).toBeNull(); });
      const kitchen = screen.getAllByTestId('device-row').find((row) => row.textContent.includes('Kitchen PC'));
      expect(kitchen?.textContent).toContain(words);
    });

  it('forgets a device only after it was agreed to', async () => {
    await user.click(screen.getByRole('button', { name: 'More about Old Dell' }));
    await user.click(screen.getByRole('button', { name: 'Forget Old Dell' }));
    await user.click(screen.getByTestId('confirm-no'));
    expect(backend.house.devices.some((d) => d.name === 'Old Dell')).toBe(true);
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Forget Old Dell' }));
    await user.click(screen.getByRole('button', { name: 'Forget Old Dell' }));
    await user.click(screen.getByTestId('confirm-yes'));
    await vi.waitFor(() => { expect(screen.getAllByTestId('device-row')).toHaveLength(2); });
  });

  it('opens where the tray says', async () => {
    backend.window.goTo('chat');
    await tick();
    expect(screen.getByTestId('prompt')).toBeTruthy();
    expect(backend.shown).toBe('chat');
    backend.window.goTo('models');
    await tick();
    expect(backend.shown).toBe('models');
  });
});

describe('names and roles', () => {
  it('are right on the chat page', async () => {
    await say('write a program');
    expect(await faults()).toEqual([]);
  });

  it('are right on the devices page and in dialogs', async () => {
    await go('devices');
    await user.click(screen.getByTestId('add-device'));
    expect(await faults()).toEqual([]);
    await user.click(screen.getByTestId('show-code'));
    expect(await faults()).toEqual([]);
    await user.click(screen.getByTestId('dialog-close'));
    await user.click(screen.getByRole('button', { name: 'More about Old Dell' }));
    expect(await faults()).toEqual([]);
    await user.click(screen.getByRole('button', { name: 'Forget Old Dell' }));
    expect(await faults()).toEqual([]);
  });
});

describe('a fault that stops the program', () => {
  it('takes the place of every page, says what is kept, and offers a restart', async () => {
    await go('devices');
    backend.window.stopped('/data/inglenook.log');
    await tick();
    const said = screen.getByTestId('stopped').textContent;
    expect(said).toContain('Inglenook stopped because of a fault');
    expect(said).toContain('Your chats and settings are saved.');
    expect(said).toContain('/data/inglenook.log');
    expect(screen.queryByTestId('nav-devices')).toBeNull();
    const restart = vi.spyOn(backend, 'restart');
    await user.click(screen.getByTestId('restart'));
    expect(restart).toHaveBeenCalledOnce();
    expect(await faults()).toEqual([]);
  });

  it('offers to quit too, by button and by key, and takes no other key', async () => {
    backend.window.stopped('/data/inglenook/inglenook.log');
    await tick();
    const quit = vi.spyOn(backend, 'quit');
    await user.click(screen.getByTestId('quit'));
    await user.keyboard('{Control>}q{/Control}');
    expect(quit).toHaveBeenCalledTimes(2);
    expect(state.act('new-chat')).toBe(false);
    expect(state.act('help')).toBe(false);
    expect(state.help).toBe(false);
  });

  it('presses no button with what somebody is typing', async () => {
    await user.type(screen.getByTestId('prompt'), 'Tell me');
    const restart = vi.spyOn(backend, 'restart');
    backend.window.stopped('/data/inglenook/inglenook.log');
    await tick();
    expect(document.activeElement).toBe(screen.getByRole('heading', { level: 1 }));
    await user.keyboard(' a story{Enter}');
    expect(restart).not.toHaveBeenCalled();
  });

  it('says why the restart failed, and may be asked again', async () => {
    backend.window.stopped(null);
    await tick();
    vi.spyOn(backend, 'restart').mockRejectedValue(new Error('The program is not there any more.'));
    await user.click(screen.getByTestId('restart'));
    expect(screen.getByRole('alert').textContent).toBe('The program is not there any more.');
    expect(screen.getByTestId<HTMLButtonElement>('restart').disabled).toBe(false);
    expect(screen.getByTestId('stopped').textContent).not.toContain('log');
  });

  it('closes a question and the list of keys, which belong to what is gone', async () => {
    await user.keyboard('{Control>}/{/Control}');
    expect(screen.getByTestId('shortcuts')).toBeTruthy();
    backend.window.stopped('/data/inglenook/inglenook.log');
    await tick();
    expect(screen.queryByTestId('shortcuts')).toBeNull();
  });
});
