/** Promises of the keys that ask from any program, against the fake household. */
import { render, screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { describe, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import MainWindow from './MainWindow.svelte';
import { go, open, user } from './testing';
import { WindowState } from './window.svelte';

describe('settings', () => {
  it('choose the keys, and say when another program has them', async () => {
    const { backend } = await open();
    await go('settings');
    const choice = screen.getByTestId<HTMLSelectElement>('ask-keys');
    expect([...choice.options].map((option) => option.textContent)).toEqual(['No keys', 'Ctrl + Alt + Space', 'Ctrl + Shift + Space', 'Ctrl + Alt + I']);
    await user.selectOptions(choice, 'ctrl+alt+space');
    expect(backend.house.settings.values['window.ask_keys']).toBe('ctrl+alt+space');
    backend.window.askKeys('taken');
    expect((await screen.findByRole('alert')).textContent).toBe('Another program on this computer has these keys. Choose others.');
    backend.window.askKeys('held');
    await vi.waitFor(() => { expect(screen.queryByTestId('ask-keys-taken')).toBeNull(); });
  });

  it('name a command where the desktop gives the keys out itself', async () => {
    const { backend } = await open();
    backend.window.askKeys('impossible');
    await go('settings');
    expect(screen.queryByTestId('ask-keys')).toBeNull();
    expect(screen.getByTestId('ask-keys-impossible').textContent).toContain('inglenook --ask');
  });
});

describe('a question from another program', () => {
  it('opens a new chat from whatever page shows, and the next key goes into its field', async () => {
    const { backend, state } = await open();
    await user.type(screen.getByTestId('prompt'), 'Half a thought');
    await user.click(screen.getByTitle('Why leaves change colour'));
    expect(state.desk.current.id).not.toBeNull();
    await go('models');
    backend.window.ask();
    await tick();
    const prompt = screen.getByTestId<HTMLTextAreaElement>('prompt');
    expect(document.activeElement).toBe(prompt);
    expect(state.desk.current.id).toBeNull();
    expect(prompt.value).toBe('Half a thought');
  });

  it('closes what lies over the page, and what was changed there stays with its chat', async () => {
    const { backend, state } = await open();
    await user.click(screen.getByTitle('Why leaves change colour'));
    const { id } = state.desk.current;
    await user.click(await screen.findByTestId('about'));
    await user.type(await screen.findByTestId('instructions'), 'Answer in rhymes.');
    const instruct = vi.spyOn(backend, 'instructConversation');
    backend.window.ask();
    await vi.waitFor(() => { expect(screen.queryByTestId('chat-sheet')).toBeNull(); });
    expect(instruct).toHaveBeenCalledExactlyOnceWith(id, 'Answer in rhymes.');
    expect([state.desk.current.id, state.desk.current.instructions]).toEqual([null, '']);
    expect(document.activeElement?.id).toBe('prompt');
  });

  it('asks before it leaves a chat that is not kept', async () => {
    const { backend, state } = await open();
    state.desk.current.temporary = true;
    await user.type(screen.getByTestId('prompt'), 'Hello{Enter}');
    await vi.waitFor(() => { expect(state.desk.current.empty).toBe(false); });
    backend.window.ask();
    await tick();
    expect(screen.getByTestId('confirm-yes')).toBeTruthy();
    expect(state.desk.current.temporary).toBe(true);
  });

  it('waits for a window that has nothing to show yet', async () => {
    const backend = new FakeBackend({ tokenMs: 0 });
    const state = new WindowState(backend);
    vi.spyOn(backend, 'watch').mockImplementation(async (listener) => {
      listener.ask();
      await FakeBackend.prototype.watch.call(backend, listener);
    });
    const begun = vi.spyOn(state, 'startNew');
    await state.start();
    render(MainWindow, { state });
    expect(begun).toHaveBeenCalledOnce();
    expect(state.page).toBe('chat');
  });
});
