/** Promises of folders: chats go in and come out, folders are renamed and taken apart, and no chat is lost. */
import { screen, within } from '@testing-library/svelte';
import { expect, it, vi } from 'vitest';
import { toasts } from '../kit/toasts.svelte';
import { open, user } from './testing';

const LEAVES = 'Why leaves change colour';
const SOUP = 'Soup with what is left';

async function toSheet(title: string): Promise<void> {
  await user.click(screen.getByTitle(title));
  (await screen.findByTestId('chat-menu')).focus();
  await user.keyboard('{Enter}');
  await user.click(await screen.findByTestId('menu-folder'));
  await screen.findByTestId('folder-sheet');
}

/** Puts a chat into a folder that is made with it. */
async function intoNew(title: string, folder: string): Promise<void> {
  await toSheet(title);
  await user.type(screen.getByTestId('folder-name'), `${folder}{Enter}`);
  await vi.waitFor(() => { expect(inside(folder.trim())).toContain(title); });
}

const folderOf = (name: string) => screen.queryAllByTestId('folder').find((one) => one.querySelector<HTMLElement>('[data-folder]')?.dataset['folder'] === name);

const isOpen = (name: string) => folderOf(name)?.querySelector('[aria-expanded]')?.getAttribute('aria-expanded') === 'true';

function inside(name: string): (string | null)[] {
  const folder = folderOf(name);
  return folder === undefined ? [] : within(folder).queryAllByTestId('conversation').map((row) => row.querySelector('.title')?.getAttribute('title') ?? null);
}

it('puts a chat into a new folder, which is open then, and gives the focus back', async () => {
  const { state } = await open();
  const all = state.desk.list.entries.length;
  await intoNew(LEAVES, '  School  ');
  expect(screen.queryByTestId('folder-sheet')).toBeNull();
  await vi.waitFor(() => { expect(document.activeElement?.getAttribute('data-testid')).toBe('chat-menu'); });
  expect(isOpen('School')).toBe(true);
  expect(screen.getAllByTestId('conversation')).toHaveLength(all);
});

it('offers the folders that are there, and none', async () => {
  await open();
  await intoNew(LEAVES, 'School');
  await toSheet(SOUP);
  const choices = () => screen.getAllByTestId('folder-choice').map((one) => [one.textContent.trim(), one.getAttribute('aria-pressed')]);
  expect(choices()).toEqual([['School', 'false'], ['In no folder', 'true']]);
  await user.click(screen.getByRole('button', { name: 'School' }));
  await vi.waitFor(() => { expect(inside('School')).toEqual(expect.arrayContaining([LEAVES, SOUP])); });
  await toSheet(LEAVES);
  expect(choices()).toEqual([['School', 'true'], ['In no folder', 'false']]);
  await user.click(screen.getByRole('button', { name: 'In no folder' }));
  await vi.waitFor(() => { expect(inside('School')).toEqual([SOUP]); });
});

it('asks for nothing where the chat lies there already, or nothing was typed', async () => {
  const { backend } = await open();
  await intoNew(LEAVES, 'School');
  const file = vi.spyOn(backend, 'fileConversation');
  await toSheet(LEAVES);
  expect(screen.getByTestId('folder-put')).toHaveProperty('disabled', true);
  await user.click(screen.getByRole('button', { name: 'School' }));
  await vi.waitFor(() => { expect(screen.queryByTestId('folder-sheet')).toBeNull(); });
  expect(file).not.toHaveBeenCalled();
});

it('renames a folder by its pencil or by F2, and the focus goes with it', async () => {
  await open();
  await intoNew(LEAVES, 'School');
  await user.click(screen.getByTestId('folder-rename'));
  const field = screen.getByRole('textbox', { name: 'Name of this folder' });
  await user.clear(field);
  await user.type(field, 'Homework{Enter}');
  await vi.waitFor(() => { expect(inside('Homework')).toEqual([LEAVES]); });
  expect(folderOf('School')).toBeUndefined();
  const at = () => document.activeElement?.getAttribute('data-folder');
  await vi.waitFor(() => { expect(at()).toBe('Homework'); });
  await user.keyboard('{F2}');
  await user.type(screen.getByRole('textbox', { name: 'Name of this folder' }), 'x{Escape}');
  await vi.waitFor(() => { expect(at()).toBe('Homework'); });
  await user.keyboard('{F2}');
  await user.clear(screen.getByRole('textbox', { name: 'Name of this folder' }));
  await user.keyboard('{Enter}');
  await vi.waitFor(() => { expect(at(), 'no name is no answer').toBe('Homework'); });
});

it('makes one folder of two that have the same name', async () => {
  await open();
  await intoNew(LEAVES, 'School');
  await intoNew(SOUP, 'Kitchen');
  await user.click(screen.getByRole('button', { name: 'Rename the folder “Kitchen”' }));
  const field = screen.getByRole('textbox', { name: 'Name of this folder' });
  await user.clear(field);
  await user.type(field, 'School{Enter}');
  await vi.waitFor(() => { expect(inside('School')).toHaveLength(2); });
  toasts.undoNewest();
  await vi.waitFor(() => { expect([inside('School'), inside('Kitchen')]).toEqual([[LEAVES], [SOUP]]); });
});

it('keeps a name as the house does, and is open under it', async () => {
  await open();
  await intoNew(LEAVES, 'School');
  await user.click(screen.getByTestId('folder-rename'));
  const field = screen.getByRole('textbox', { name: 'Name of this folder' });
  expect(field).toHaveProperty('maxLength', 60);
  await user.clear(field);
  await user.type(field, '  Two   words {Enter}');
  await vi.waitFor(() => { expect(inside('Two words')).toEqual([LEAVES]); });
  expect(isOpen('Two words')).toBe(true);
  await vi.waitFor(() => { expect(document.activeElement?.getAttribute('data-folder')).toBe('Two words'); });
});

it('leaves the rows where they are while it is renamed', async () => {
  await open();
  await intoNew(LEAVES, 'School');
  const [row] = within(folderOf('School') ?? document.body).getAllByTestId('conversation');
  await user.click(screen.getByTestId('folder-rename'));
  expect(row?.isConnected).toBe(true);
  await user.type(screen.getByRole('textbox', { name: 'Name of this folder' }), 'work');
  await user.tab();
  await vi.waitFor(() => { expect(inside('Schoolwork')).toEqual([LEAVES]); });
  expect(row?.isConnected, 'or a click that began on it would come to nothing').toBe(true);
});

it('takes a folder apart without losing a chat, also one that is pinned, and that can be taken back', async () => {
  const { state } = await open();
  const all = state.desk.list.entries.map(({ id }) => id);
  await intoNew(LEAVES, 'School');
  await intoNew(SOUP, 'School');
  const id = state.desk.current.id ?? 0;
  await state.desk.list.pin(id, true);
  await user.click(screen.getByTestId('folder-apart'));
  await vi.waitFor(() => { expect(screen.queryByTestId('folder')).toBeNull(); });
  expect(state.desk.list.entries.map((chat) => chat.id)).toEqual(expect.arrayContaining(all));
  toasts.undoNewest();
  await vi.waitFor(() => { expect(inside('School')).toEqual([LEAVES]); });
  await vi.waitFor(() => { expect(state.desk.list.kept(id)).toMatchObject({ pinned: true, folder: 'School' }); });
});

it('shows what a search finds in a folder that is closed, by the name of the folder too', async () => {
  const { state } = await open();
  await intoNew(LEAVES, 'School');
  await user.click(screen.getByTestId('folder-turn'));
  expect([isOpen('School'), inside('School')]).toEqual([false, []]);
  state.desk.list.find('school leaves');
  await vi.waitFor(() => { expect(screen.getAllByTestId('conversation')).toHaveLength(1); });
  expect([isOpen('School'), inside('School')]).toEqual([true, [LEAVES]]);
  state.desk.list.find('');
  await vi.waitFor(() => { expect(isOpen('School'), 'as it was left').toBe(false); });
});

it('leaves the chat where it is when the house refuses, and says why', async () => {
  const { backend } = await open();
  vi.spyOn(backend, 'fileConversation').mockRejectedValue(new Error('The disk is full.'));
  await toSheet(LEAVES);
  await user.type(screen.getByTestId('folder-name'), 'School{Enter}');
  expect((await screen.findByRole('alert')).textContent).toContain('The disk is full.');
  expect(screen.queryByTestId('folder')).toBeNull();
});
