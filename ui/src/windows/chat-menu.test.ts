/** Promises of the menu of a chat: its keys, and that it renames and deletes as the list does. */
import { screen } from '@testing-library/svelte';
import { tick } from 'svelte';
import { expect, it, vi } from 'vitest';
import { toasts } from '../kit/toasts.svelte';
import { open, user } from './testing';

const TITLE = 'Why leaves change colour';

async function openChat() {
  const given = await open();
  await user.click(screen.getByTitle(TITLE));
  await screen.findByTestId('chat-menu');
  return given;
}

/** Opens the menu of the open chat by keys. */
async function openMenu(key = '{Enter}'): Promise<void> {
  screen.getByTestId('chat-menu').focus();
  await user.keyboard(key);
  await screen.findByRole('menu');
  await vi.waitFor(() => { expect(document.activeElement?.getAttribute('role')).toBe('menuitem'); });
}

const focused = () => document.activeElement?.getAttribute('data-testid');

async function isGone(): Promise<void> {
  await vi.waitFor(() => { expect(screen.queryByRole('menu')).toBeNull(); });
}

it('is not there where nothing has been said', async () => {
  await open();
  expect(screen.queryByTestId('chat-menu')).toBeNull();
});

it('goes by keys, and gives the focus back', async () => {
  await openChat();
  const button = screen.getByTestId('chat-menu');
  expect([button.getAttribute('aria-haspopup'), button.getAttribute('aria-expanded')]).toEqual(['menu', 'false']);
  await openMenu();
  expect(button.getAttribute('aria-expanded')).toBe('true');
  expect(document.getElementById(button.getAttribute('aria-controls') ?? '')).toBe(screen.getByRole('menu'));
  expect(screen.getAllByRole('menuitem').map((item) => item.querySelector('span')?.textContent))
    .toEqual(['Find in this chat', 'Print', 'Rename', 'Pin', 'Put into a folder', 'Archive', 'Delete']);
  expect(focused()).toBe('menu-find');
  await user.keyboard('{ArrowUp}');
  expect(focused(), 'round to the end').toBe('menu-delete');
  await user.keyboard('{Home}');
  expect(focused()).toBe('menu-find');
  await user.keyboard('{End}');
  expect(focused()).toBe('menu-delete');
  await user.keyboard('r');
  expect(focused(), 'by its first letter').toBe('menu-rename');
  await user.keyboard('{Escape}');
  await isGone();
  expect(document.activeElement).toBe(button);
  await openMenu('{ArrowUp}');
  expect(focused(), 'from the end').toBe('menu-delete');
  await user.keyboard('{Tab}');
  await isGone();
  expect(document.activeElement).toBe(button);
});

it('closes by Esc without stopping the reply that is being made', async () => {
  const { state } = await openChat();
  const act = vi.spyOn(state, 'act');
  await openMenu();
  await user.keyboard('{Escape}');
  await isGone();
  expect(act).not.toHaveBeenCalled();
});

it('opens and closes by its button', async () => {
  await openChat();
  const button = screen.getByTestId('chat-menu');
  await user.click(button);
  await screen.findByRole('menu');
  await user.click(button);
  await isGone();
  expect(document.activeElement).toBe(button);
});

it('renames in place, and the list shows it', async () => {
  const { state } = await openChat();
  const rename = vi.spyOn(state.desk.list, 'rename');
  await openMenu();
  await user.click(screen.getByTestId('menu-rename'));
  const field = await screen.findByRole('textbox', { name: 'Title of this chat' });
  await vi.waitFor(() => { expect(document.activeElement).toBe(field); });
  await user.clear(field);
  await user.type(field, 'Leaves{Enter}');
  expect(rename).toHaveBeenCalledExactlyOnceWith(state.desk.current.id, 'Leaves');
  expect((await screen.findByRole('heading', { level: 1, name: 'Leaves' })).classList.contains('spoken')).toBe(false);
  expect(document.querySelector('[data-testid="conversation"] [aria-current]')?.textContent).toBe('Leaves');
  await vi.waitFor(() => { expect(focused()).toBe('chat-menu'); });
});

it('leaves the title as it was where somebody presses Esc', async () => {
  await openChat();
  await openMenu();
  await user.click(screen.getByTestId('menu-rename'));
  await user.type(await screen.findByRole('textbox', { name: 'Title of this chat' }), ' and more{Escape}');
  expect(screen.getByRole('heading', { level: 1 }).textContent).toBe(TITLE);
  expect(screen.queryByRole('textbox', { name: 'Title of this chat' })).toBeNull();
});

it('deletes as the list does: it can be taken back', async () => {
  const { state } = await openChat();
  const { id } = state.desk.current;
  await openMenu();
  await user.click(screen.getByTestId('menu-delete'));
  await vi.waitFor(() => { expect(state.desk.current.id).toBeNull(); });
  expect(focused()).toBe('prompt');
  expect(state.desk.list.entries.map((chat) => chat.id)).not.toContain(id);
  toasts.undoNewest();
  await tick();
  expect(state.desk.current.id).toBe(id);
});

it('pins, and lets go again', async () => {
  const { state } = await openChat();
  const id = state.desk.current.id ?? 0;
  await openMenu();
  await user.click(screen.getByTestId('menu-pin'));
  await vi.waitFor(() => { expect(state.desk.list.kept(id)?.pinned).toBe(true); });
  await isGone();
  await openMenu();
  expect(screen.getByTestId('menu-pin').textContent).toContain('Unpin');
  await user.click(screen.getByTestId('menu-pin'));
  await vi.waitFor(() => { expect(state.desk.list.kept(id)?.pinned).toBe(false); });
});

it('puts a chat away: it can be taken back, and is found behind the others', async () => {
  const { state } = await openChat();
  const { id } = state.desk.current;
  expect(screen.queryByTestId('archive')).toBeNull();
  await openMenu();
  await user.click(screen.getByTestId('menu-archive'));
  await vi.waitFor(() => { expect(state.desk.current.id).toBeNull(); });
  expect(focused()).toBe('prompt');
  const archive = await screen.findByTestId('archive');
  expect(archive.textContent).toBe('Archive (1)');
  toasts.undoNewest();
  await vi.waitFor(() => { expect(screen.queryByTestId('archive')).toBeNull(); });
  expect(state.desk.current.id).toBe(id);
});

it('pins again what was pinned before it was put away, and knows that while a search hides it', async () => {
  const { state } = await openChat();
  const id = state.desk.current.id ?? 0;
  await state.desk.list.pin(id, true);
  await state.desk.archive(id);
  expect(state.desk.list.kept(id)).toMatchObject({ pinned: false, archived: true });
  toasts.undoNewest();
  await vi.waitFor(() => { expect(state.desk.list.kept(id)).toMatchObject({ pinned: true, archived: false }); });
  state.desk.list.find('soup');
  await vi.waitFor(() => { expect(state.desk.list.entries.map((chat) => chat.id)).not.toContain(id); });
  await openMenu();
  expect(screen.getByTestId('menu-pin').textContent).toContain('Unpin');
});

it('brings a chat back from the archive, by its row or by talking there', async () => {
  const { state } = await openChat();
  const id = state.desk.current.id ?? 0;
  const away = async () => {
    await state.desk.archive(id);
    const archive = await screen.findByTestId('archive');
    // It stays as somebody left it.
    if (archive.closest('details')?.open === false) await user.click(archive);
    expect(archive.closest('details')?.open).toBe(true);
  };
  await away();
  await user.click(screen.getByTestId('bring-back'));
  await vi.waitFor(() => { expect(screen.queryByTestId('archive')).toBeNull(); });
  await vi.waitFor(() => { expect(document.activeElement?.id).toBe(`chat-${String(id)}`); });
  await away();
  await user.click(screen.getByTitle(TITLE));
  await openMenu();
  expect(screen.getByTestId('menu-archive').textContent).toContain('Bring back');
  await user.keyboard('{Escape}');
  await user.type(screen.getByTestId('prompt'), 'And pines?{Enter}');
  await vi.waitFor(() => { expect(screen.queryByTestId('archive')).toBeNull(); });
});

it('stays where it is when it cannot be put away, and says why', async () => {
  const { backend, state } = await openChat();
  const { id } = state.desk.current;
  vi.spyOn(backend, 'archiveConversation').mockRejectedValue(new Error('The disk is full.'));
  await openMenu();
  await user.click(screen.getByTestId('menu-archive'));
  expect((await screen.findByRole('alert')).textContent).toContain('The disk is full.');
  expect(state.desk.current.id).toBe(id);
});

it('has nothing to rename or to delete in a chat that is not kept', async () => {
  const { state } = await open();
  state.desk.current.temporary = true;
  await state.desk.current.say('a story', 'ember');
  await vi.waitFor(() => { expect(state.desk.current.busy).toBe(false); });
  await openMenu();
  expect(screen.getAllByRole('menuitem').map((item) => item.dataset['testid'])).toEqual(['menu-find', 'menu-print']);
});
