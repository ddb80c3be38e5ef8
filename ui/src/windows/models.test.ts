/** Promises of the page of models, as people use it, against the fake household. */
import { screen, within } from '@testing-library/svelte';
import { tick } from 'svelte';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { FakeBackend } from '../backend/fake';
import { useLanguage } from '../strings';
import { agree, go, open, user } from './testing';

let backend: FakeBackend;

beforeEach(async () => {
  ({ backend } = await open());
});

describe('models', () => {
  it('move to another folder and back, and say why they do not', async () => {
    await go('models');
    const at = () => screen.getByTestId('models-folder-path').textContent;
    const usual = at();
    expect(screen.queryByTestId('move-models-back')).toBeNull();
    await user.click(screen.getByTestId('move-models'));
    const moving = await screen.findByTestId('models-moving');
    expect(moving.textContent).toContain('0 bytes of 4.7 GB');
    backend.modelsMove();
    await tick();
    expect(moving.textContent).toContain('470 MB of 4.7 GB');
    await user.click(screen.getByTestId('stop-moving'));
    await vi.waitFor(() => { expect(screen.queryByTestId('models-moving')).toBeNull(); });
    expect(at()).toBe(usual);
    await user.click(screen.getByTestId('move-models'));
    await screen.findByTestId('models-moving');
    while (backend.modelsMove());
    await tick();
    expect(at()).toBe('/media/mia/big disk/models');
    await user.click(screen.getByTestId('move-models'));
    expect((await screen.findByTestId('models-folder-problem')).textContent).toContain('Not moved: The models are in');
    backend.change((house) => { Object.assign(house.models_folder, { there: false, missing: ['Qwen2.5 7B'] }); });
    await tick();
    expect(screen.getByTestId('models-folder-away').textContent).toContain('Nothing was deleted');
    expect(screen.getByTestId('models-missing').textContent).toContain('Qwen2.5 7B');
    await user.click(screen.getByTestId('move-models-back'));
    while (backend.modelsMove());
    await vi.waitFor(() => { expect(at()).toBe(usual); });
  });

  it('stop moving while downloads are still waited for, and that is no fault', async () => {
    await go('models');
    await user.click(screen.getByTestId('get-qwen3-4b'));
    await screen.findByTestId('download');
    await user.click(screen.getByTestId('move-models'));
    expect((await screen.findByTestId('models-moving')).textContent).toContain('Waits until downloads rest');
    await user.click(screen.getByTestId('stop-moving'));
    await vi.waitFor(() => { expect(screen.queryByTestId('models-moving')).toBeNull(); });
    expect(screen.queryByTestId('models-folder-problem')).toBeNull();
    await user.click(screen.getByTestId('move-models'));
    expect(await screen.findByTestId('models-moving')).toBeTruthy();
  });

  it('say how long a copy takes, and a download once this session saw how fast one comes', async () => {
    await go('models');
    const row = (name: string) => screen.getAllByTestId('catalogue-row').find((one) => one.textContent.includes(name));
    const takes = (name: string) => within(row(name) ?? document.body).queryByTestId('takes')?.textContent;
    expect(takes('SmolLM2 360M')).toBeUndefined();
    expect(takes('Qwen3 8B')).toBe('A copy from Dad’s PC takes about 45 seconds.');
    const inHouse = screen.getAllByTestId('in-house-row').find((one) => one.textContent.includes('qwen3-8b'));
    expect(inHouse?.textContent).toContain('From Dad’s PC that takes about 4 seconds.');
    await user.click(screen.getByTestId('get-qwen3-4b'));
    await screen.findByTestId('download');
    backend.piecesCome('qwen3-4b.gguf-1', 1);
    await tick();
    expect(takes('SmolLM2 360M')).toBe('The download takes about 9 seconds.');
    expect(takes('Qwen3 8B')).toBe('A copy from Dad’s PC takes about 45 seconds. The download takes about 2 minutes.');
    // What was seen still holds when it is over.
    backend.piecesCome('qwen3-4b.gguf-1', 100);
    await tick();
    expect(takes('SmolLM2 360M')).toBe('The download takes about 9 seconds.');
    backend.change((house) => { for (const device of house.devices) if (device.way) device.way.bytes_per_second = null; });
    await tick();
    expect(takes('Qwen3 8B')).toBe('The download takes about 2 minutes.');
  });

  it('adds a file that was dropped on the window, and says why another was not added', async () => {
    backend.drop(['/data/notes.txt', '/data/Phi-4.gguf']);
    await tick();
    expect(screen.getByTestId<HTMLInputElement>('model-path').value).toBe('/data/Phi-4.gguf');
    await user.click(screen.getByTestId('add-model'));
    expect((await screen.findByText('Phi-4 is ready.')).getAttribute('role')).toBe('status');
    await user.type(screen.getByTestId('model-path'), '/data/other.txt');
    await user.click(screen.getByTestId('add-model'));
    expect((await screen.findByTestId('add-problem')).textContent).toContain('is not a GGUF file');
  });

  it('takes the next file that is dropped, whatever stands in the field, and keeps it while another page shows', async () => {
    const field = () => screen.getByTestId<HTMLInputElement>('model-path').value;
    backend.drop(['/data/Phi-4.gguf']);
    await tick();
    await user.click(screen.getByTestId('add-model'));
    await vi.waitFor(() => { expect(field()).toBe(''); });
    backend.drop(['/data/Phi-4.gguf']);
    await tick();
    expect(field(), 'the same once more').toBe('/data/Phi-4.gguf');
    await user.type(screen.getByTestId('model-path'), 'x');
    backend.drop(['/data/Other.gguf']);
    await tick();
    expect(field()).toBe('/data/Other.gguf');
    await go('devices');
    await go('models');
    expect(field()).toBe('/data/Other.gguf');
  });

  it('says what can be dropped where another file was, and that goes away when it was read', async () => {
    backend.drop(['/data/Holiday plan.pdf']);
    expect((await screen.findByRole('alert')).textContent).toMatch(/Holiday plan\.pdf cannot be dropped here.*paper clip/s);
    await user.click(screen.getByTestId('problem-close'));
    expect(screen.queryByRole('alert')).toBeNull();
  });

  it('says that a dropped file has a path that cannot be used here', async () => {
    const refused = { code: 'bad_request', sentence: 'x', wording: { kind: 'path_no_text' as const, path: '/data/caf�.gguf' } };
    backend.drop([], refused);
    expect((await screen.findByRole('alert')).textContent).toContain('/data/caf�.gguf');
    backend.drop(['/data/Phi-4.gguf'], refused);
    await tick();
    expect(screen.queryByRole('alert')).toBeNull();
    expect(screen.getByTestId<HTMLInputElement>('model-path').value).toBe('/data/Phi-4.gguf');
  });

  it('says in German what is wrong with a download', async () => {
    await useLanguage('de', document.documentElement);
    try {
      await backend.pull('qwen3-4b');
      const wording = { kind: 'download' as const, trouble: { why: 'not_there' as const, host: 'example.org' } };
      backend.change((house) => {
        for (const one of house.downloads) one.problem = { code: 'not_found', sentence: 'In English.', wording };
      });
      await go('models');
      expect(screen.getByTestId('download-problem').textContent).toBe('example.org hat keine solche Datei. Prüfe die Adresse; vielleicht ist sie umgezogen.');
    } finally {
      await useLanguage('en', document.documentElement);
    }
  });

  it('takes the file that was chosen in a dialog, and leaves the field when none was', async () => {
    await go('models');
    const field = screen.getByTestId<HTMLInputElement>('model-path');
    await user.click(screen.getByTestId('choose-model'));
    await vi.waitFor(() => { expect(field.value).toBe('/models/gemma-2-2b.gguf'); });
    vi.spyOn(backend, 'chooseModelFile').mockResolvedValue(null);
    await user.click(screen.getByTestId('choose-model'));
    await tick();
    expect(field.value).toBe('/models/gemma-2-2b.gguf');
  });

  it('removes one only after it was agreed to, and never the built-in one', async () => {
    await go('models');
    expect(screen.queryByRole('button', { name: /Remove Ember/ })).toBeNull();
    await user.click(screen.getByRole('button', { name: 'Remove Qwen2.5 7B Instruct' }));
    await agree();
    await vi.waitFor(() => { expect(screen.getAllByTestId('model-row')).toHaveLength(1); });
  });

  it('says where each one fits', async () => {
    await go('models');
    expect(screen.getAllByTestId('model-row').map((row) => row.textContent.includes('Fits on this computer.'))).toEqual([true, true]);
    const rows = screen.getAllByTestId('catalogue-row').map((row) => row.textContent);
    expect(rows[0]).toContain('Best fit for this household');
    expect(rows.filter((row) => row.includes('Works together with Dad’s PC.'))).toHaveLength(1);
    expect(rows.filter((row) => row.includes('Needs more memory'))).toHaveLength(1);
    expect(rows.filter((row) => /About [\d.]+ words\/s\./.test(row))).toHaveLength(4);
  });

  it('says of which day the catalogue is, where it came from, and why there is no newer one', async () => {
    const edition = { written: 1_795_694_400, built_in: true, trouble: null };
    backend.change((house) => { house.catalogue_edition = edition; });
    await go('models');
    expect(screen.getByTestId('catalogue-edition').textContent).toBe('This list of 26 November 2026 came with Inglenook.');
    expect(screen.queryByTestId('catalogue-trouble')).toBeNull();
    backend.change((house) => { house.catalogue_edition = { ...edition, built_in: false, trouble: 'Nobody answered.' }; });
    await tick();
    expect(screen.getByTestId('catalogue-edition').textContent).toContain('was renewed and is of 26 November 2026');
    expect(screen.getByTestId('catalogue-trouble').textContent).toContain('did not work: Nobody answered.');
  });

  it('downloads one of the catalogue, which is here in the end', async () => {
    await go('models');
    await user.click(screen.getByTestId('get-qwen3-4b'));
    expect(await screen.findByTestId('download')).toBeTruthy();
    expect(screen.queryByTestId('get-qwen3-4b')).toBeNull();
    backend.piecesCome('qwen3-4b.gguf-1', 4);
    await vi.waitFor(() => { expect(screen.getByTestId('download-state').textContent).toContain('36 seconds left'); });
    expect(screen.getByRole<HTMLProgressElement>('progressbar').value).toBe(40);
    backend.piecesCome('qwen3-4b.gguf-1', 6);
    await vi.waitFor(() => { expect(screen.getAllByTestId('model-row')).toHaveLength(3); });
    expect(screen.queryByTestId('download')).toBeNull();
    await user.click(screen.getByRole('button', { name: 'Remove Qwen3 4B' }));
    expect((await screen.findByTestId('confirm')).textContent).toContain('frees 2.5 GB');
  });

  it('copies what another device of the house has, which is here in the end', async () => {
    await go('models');
    const rows = screen.getAllByTestId('in-house-row').map((row) => row.textContent);
    expect(rows[0]).toContain('on Dad’s PC and Mum’s laptop');
    expect(rows[0]).toContain('not enough room');
    expect(screen.getByTestId<HTMLButtonElement>('copy-gemma-3-12b').disabled).toBe(true);
    const asked = vi.spyOn(backend, 'copyModel');
    await user.click(screen.getByTestId('copy-qwen3-8b'));
    expect((await screen.findByTestId('download')).textContent).toContain('copied from Dad’s PC');
    expect(screen.queryByTestId('copy-qwen3-8b')).toBeNull();
    const row = () => screen.getAllByTestId('in-house-row')[1]?.textContent;
    expect(row()).toContain('on its way');
    await user.click(screen.getByTestId('download-pause'));
    await vi.waitFor(() => { expect(row()).toContain('Paused'); });
    await user.click(await screen.findByTestId('download-resume'));
    backend.piecesCome('qwen3-8b-copy', 10);
    await vi.waitFor(() => { expect(screen.getAllByTestId('in-house-row')).toHaveLength(1); });
    expect(screen.queryByTestId('download')).toBeNull();
    expect(asked.mock.calls).toEqual([['8b'.repeat(32), null, 'whole']]);
  });

  it('gets only its own part of what is too large for it, and all of it later', async () => {
    await go('models');
    const row = () => screen.getAllByTestId('in-house-row')[1]?.textContent;
    expect(row()).toContain('this computer gets about 503 MB of it. The rest of each reply is computed on Dad’s PC.');
    expect(screen.queryByTestId('together-gemma-3-12b'), 'it fits here').toBeNull();
    const asked = vi.spyOn(backend, 'copyModel');
    await user.click(screen.getByTestId('together-qwen3-8b'));
    expect(await screen.findByTestId('download')).toBeTruthy();
    backend.piecesCome('qwen3-8b-ends', 10);
    await vi.waitFor(() => { expect(screen.getAllByTestId('model-row')).toHaveLength(3); });
    const model = screen.getAllByTestId('model-row')[2]?.textContent;
    expect(model).toContain('503 MB of 5 GB');
    expect(model).toContain('Only this computer’s part is here.');
    expect(row()).toContain('This computer has its part of it.');
    expect(screen.queryByTestId('together-qwen3-8b')).toBeNull();
    await user.click(screen.getByRole('button', { name: 'Copy all of qwen3-8b to this computer' }));
    expect(asked.mock.calls.map((call) => call[2])).toEqual(['ends', 'whole']);
  });

  it('offers a copy beside the download of what a device of the house has already', async () => {
    await go('models');
    const asked = vi.spyOn(backend, 'copyModel');
    expect(screen.getByTestId('get-qwen3-8b')).toBeTruthy();
    expect(screen.queryByTestId('copy-entry-qwen3-4b')).toBeNull();
    await user.click(screen.getByRole('button', { name: 'Copy from Dad’s PC: Qwen3 8B' }));
    expect(await screen.findByTestId('download')).toBeTruthy();
    // By the id of the catalogue: the publisher's digest counts.
    expect(asked.mock.calls).toEqual([['qwen3-8b', null, 'whole']]);
  });

  it('offers to use together what of the catalogue another computer has and this one cannot hold', async () => {
    await go('models');
    const asked = vi.spyOn(backend, 'copyModel');
    expect(screen.queryByTestId('together-entry-qwen3-4b')).toBeNull();
    await user.click(screen.getByTestId('together-entry-qwen3-8b'));
    expect(await screen.findByTestId('download')).toBeTruthy();
    expect(asked.mock.calls).toEqual([['8b'.repeat(32), null, 'ends']]);
  });

  it('lets a download rest, go on, and be deleted after a question', async () => {
    backend.change((house) => {
      house.downloads = [{ key: 'k', name: 'big', origin: 'o/r', copied: false, file: 'big.gguf', state: 'failed', have_bytes: 1e9, file_bytes: 4e9,
        bytes_per_second: null, seconds_left: null, problem: { code: 'bad_request', sentence: 'The disk has not enough room.', wording: null } }];
    });
    await go('models');
    expect(screen.getByTestId('download-problem').textContent).toContain('not enough room');
    const asked = vi.spyOn(backend, 'changeDownload');
    await user.click(screen.getByTestId('download-resume'));
    await user.click(await screen.findByTestId('download-pause'));
    await vi.waitFor(() => { expect(screen.getByTestId('download').dataset['state']).toBe('paused'); });
    await user.click(screen.getByTestId('download-delete'));
    await agree();
    await vi.waitFor(() => { expect(screen.queryByTestId('download')).toBeNull(); });
    expect(asked.mock.calls).toEqual([['k', 'resume'], ['k', 'pause'], ['k', 'delete']]);
  });

  it('takes an address in the field for files, and says why another one is none', async () => {
    await go('models');
    const pulled = vi.spyOn(backend, 'pull');
    await user.type(screen.getByTestId('model-path'), 'hf:o/r/m.zip');
    await user.click(screen.getByTestId('add-model'));
    expect((await screen.findByTestId('add-problem')).textContent).toContain('names no file');
    await user.clear(screen.getByTestId('model-path'));
    await user.type(screen.getByTestId('model-path'), 'hf:o/r/m.gguf');
    await user.click(screen.getByTestId('add-model'));
    await screen.findByTestId('download');
    expect(pulled.mock.calls.at(-1)).toEqual(['hf:o/r/m.gguf', null]);
  });

  it('offers what other programs hold, and uses it where it lies', async () => {
    await go('models');
    const imported = vi.spyOn(backend, 'importModel');
    expect(screen.queryAllByTestId('found-row')).toHaveLength(0);
    await user.click(screen.getByTestId('find-models'));
    expect(await screen.findAllByTestId('found-row')).toHaveLength(2);
    await user.click(screen.getByRole('button', { name: 'Use gemma3:4b' }));
    await vi.waitFor(() => { expect(screen.getAllByTestId('found-row')).toHaveLength(1); });
    expect(imported.mock.calls).toEqual([['/data/ollama/blobs/sha256-0a1b.gguf', null]]);
  });
});
