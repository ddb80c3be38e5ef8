/** Promises of an open conversation and of the desk that holds it, against the fake household. */
import { describe, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import type { MessageView } from '../generated/MessageView';
import type { ReplySummary } from '../generated/ReplySummary';
import { toasts } from '../kit/toasts.svelte';
import { FILES_MAX } from './attachments';
import { ChatDesk } from './desk.svelte';
import { faceOf } from './face';
import { AS_SETTINGS } from '../kit/reply-choices';

const MODEL = 'ember';

function desk(past = false): { backend: FakeBackend; desk: ChatDesk } {
  const backend = new FakeBackend({ tokenMs: 0, past });
  return { backend, desk: new ChatDesk(backend) };
}

/** A file that is read only when it is told to. */
function slowFile(name: string): [file: File, come: () => void] {
  const file = new File(['text'], name);
  const bytes = file.arrayBuffer();
  let come = (): void => undefined;
  const told = new Promise<void>((resolve) => { come = resolve; });
  vi.spyOn(file, 'arrayBuffer').mockImplementation(() => told.then(() => bytes));
  return [file, () => { come(); }];
}

async function finished(where: ChatDesk): Promise<void> {
  await vi.waitFor(() => { expect(where.current.busy).toBe(false); });
}

describe('saying something', () => {
  it('shows the message at once and the reply when it has come', async () => {
    const { desk: it } = desk();
    it.type('Tell me a story');
    const sent = it.send(MODEL);
    expect(it.current.waiting?.what).toEqual({ kind: 'new', message: { text: 'Tell me a story', parent: null } });
    expect(it.draft).toBe('');
    await sent;
    await finished(it);
    expect(it.current.steps.map((s) => s.message.role)).toEqual(['user', 'assistant']);
    expect(it.current.steps[1]?.message.text).toContain('Once upon a time');
    expect(it.list.titleOf(it.current.id)).toBe('Tell me a story');
  });

  it('gives a refused message back to the field, with the reason', async () => {
    const { desk: it } = desk();
    it.type('please refuse');
    await it.send(MODEL);
    expect(it.draft).toBe('please refuse');
    expect(it.current.problem).toContain('This computer is busy.');
    expect(it.current.empty).toBe(true);
    expect(it.drafts.of(null)).toBe('please refuse');
  });

  it('keeps what was shown of a reply that failed, and why', async () => {
    const { desk: it } = desk();
    it.type('fail in the middle');
    await it.send(MODEL);
    await finished(it);
    const message = it.current.steps[1]?.message;
    expect(message?.text).not.toBe('');
    expect(message?.cut_because).toContain('nobody could take over');
  });

  it('stops, and what was shown stays', async () => {
    const { backend, desk: it } = desk();
    const stop = vi.spyOn(backend, 'stop');
    it.type('a story');
    await it.send(MODEL);
    await it.current.stop();
    await finished(it);
    expect(stop).toHaveBeenCalledOnce();
    expect(it.current.steps[1]?.message).toMatchObject({ finish: 'stopped', cut_because: 'Stopped.' });
  });

  it('stops while it waits for its turn, also before the house has named the reply', async () => {
    for (const isNamed of [true, false]) {
      const { backend, desk: it } = desk();
      const stop = vi.spyOn(backend, 'stop');
      it.type('queue for a story');
      const sent = it.send(MODEL);
      if (isNamed) await sent;
      await it.current.stop();
      expect(stop.mock.calls).toHaveLength(isNamed ? 1 : 0);
      await sent;
      await finished(it);
      expect(stop).toHaveBeenCalledOnce();
      expect(it.current.steps[1]?.message).toMatchObject({ finish: 'stopped', text: '' });
    }
  });

  it('stops the rest of a reply while that waits for its turn', async () => {
    const { backend, desk: it } = desk();
    it.type('fail in the middle');
    await it.send(MODEL);
    await finished(it);
    const cut = it.current.steps[1]?.message;
    if (cut === undefined) throw new Error('nothing was said');
    const stop = vi.spyOn(backend, 'stop');
    const more = it.current.more(cut.id, MODEL);
    await it.current.stop();
    expect(stop).not.toHaveBeenCalled();
    await more;
    await finished(it);
    expect(stop).toHaveBeenCalledExactlyOnceWith(cut.id);
    expect(it.current.steps[1]?.message.finish).toBe('stopped');
  });

  it('keeps what was thought beside the words, and tells it to nobody again', async () => {
    const { backend, desk: it } = desk();
    it.type('think of a story');
    await it.send(MODEL);
    await finished(it);
    const message = it.current.steps[1]?.message;
    expect(message?.thought?.text).toContain('short and warm');
    expect(message?.text).toMatch(/^Once upon a time/);
    expect((await backend.messages(it.current.id ?? 0))[1]?.thought).toEqual(message?.thought);
    await it.save('markdown');
    expect(message && faceOf(message).thought).toEqual(message?.thought);
  });

  it('stays on this computer when it is told to', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    await it.current.confine(true);
    it.type('a story');
    await it.send(MODEL);
    await finished(it);
    expect(say.mock.calls[0]?.[0].reach).toBe('this_device');
    expect(it.current.live?.route?.legs).toHaveLength(1);
  });
});

describe('answering again', () => {
  it('keeps the first answer as a sibling that can be shown', async () => {
    const { desk: it } = desk();
    it.type('a story');
    await it.send(MODEL);
    await finished(it);
    const [asked, first] = it.current.steps.map((s) => s.message.id);
    if (asked === undefined || first === undefined) throw new Error('nothing was said');
    await it.current.again(asked, MODEL);
    await finished(it);
    expect(it.current.steps[1]).toMatchObject({ index: 1, siblings: { length: 2 } });
    it.current.choose(asked, first);
    expect(it.current.steps[1]?.message.id).toBe(first);
  });
});

describe('editing', () => {
  it('makes a sibling of the first message, and the old one stays', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    it.type('a story');
    await it.send(MODEL);
    await finished(it);
    const first = it.current.steps[0]?.message;
    if (first === undefined) throw new Error('nothing was said');
    expect(it.current.editLast()).toBe(true);
    expect(it.current.editing).toBe(first.id);
    await it.current.edit(first, 'a program', MODEL);
    await finished(it);
    expect(say.mock.calls[1]?.[0].text).toEqual({ kind: 'new', message: { text: 'a program', parent: null } });
    expect(it.current.editing).toBeNull();
    expect(it.current.steps[0]).toMatchObject({ index: 1, siblings: { length: 2 }, message: { text: 'a program' } });
    it.current.choose(null, first.id);
    expect(it.current.steps[1]?.message.text).toContain('Once upon a time');
  });
});

describe('going on', () => {
  it('adds the rest to the words of a reply that was cut', async () => {
    const { desk: it } = desk();
    it.type('fail in the middle');
    await it.send(MODEL);
    await finished(it);
    const cut = it.current.steps[1]?.message;
    if (cut === undefined) throw new Error('nothing was said');
    expect(faceOf(cut).route?.legs.length).toBeGreaterThan(1);
    await it.current.more(cut.id, MODEL);
    await finished(it);
    const whole = it.current.steps[1]?.message;
    expect(it.current.steps).toHaveLength(2);
    expect(whole?.id).toBe(cut.id);
    expect(whole?.text.startsWith(cut.text)).toBe(true);
    expect(whole?.text).toMatch(/neighbours\.$/);
    expect(whole?.finish).toBe('complete');
  });

  it('shows a reply that was begun before the page was loaded, until it is whole', async () => {
    vi.useFakeTimers();
    const { backend, desk: it } = desk(true);
    await it.list.load();
    const id = it.list.entries[0]?.id ?? 0;
    const messages = await backend.messages(id);
    const growing = messages.map((m, at) => (at === messages.length - 1 ? { ...m, text: 'Half', finish: 'running' as const } : m));
    const look = vi.spyOn(backend, 'messages').mockResolvedValueOnce(growing);
    await it.open(id);
    const last = it.current.steps.at(-1)?.message;
    expect(last && faceOf(last).phase).toBe('writing');
    await vi.advanceTimersByTimeAsync(1000);
    expect(it.current.steps.at(-1)?.message.finish).toBe('complete');
    await vi.advanceTimersByTimeAsync(5000);
    expect(look).toHaveBeenCalledTimes(2);
    vi.useRealTimers();
  });
});

describe('a long text that is pasted', () => {
  const LONG = 'Leaves fall.\r\n'.repeat(1000);

  it('goes with the message as an attachment, and a short one does not', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    expect(it.paste('short')).toBe(false);
    expect(it.paste(LONG)).toBe(true);
    expect(it.paste(LONG)).toBe(true);
    expect(it.files.map(({ name }) => name)).toEqual(['Pasted text', 'Pasted text 2']);
    it.detach('Pasted text');
    expect(it.paste(LONG)).toBe(true);
    expect(it.files.map(({ name }) => name)).toEqual(['Pasted text 2', 'Pasted text']);
    it.type('What is this?');
    expect(it.message).toMatch(/^What is this\?\n\n```.* title="Pasted text 2"\nLeaves fall\.\nLeaves/);
    await it.send(MODEL);
    await finished(it);
    expect(say.mock.calls[0]?.[0].text).toMatchObject({ message: { text: expect.stringMatching(/title="Pasted text"/) as string } });
  });

  it('goes back into the field only where it was pasted and is short enough', () => {
    const { desk: it } = desk();
    it.type('See:');
    it.paste('Two.\n'.repeat(1500));
    const [short] = it.files;
    if (short === undefined) throw new Error('nothing was attached');
    expect(it.fitsField(short)).toBe(true);
    expect(it.fitsField({ name: 'a.txt', text: 'a' })).toBe(false);
    it.paste(LONG.repeat(2));
    expect(it.files.map((file) => it.fitsField(file))).toEqual([true, false]);
    it.putBack(short);
    expect(it.draft).toMatch(/^See:\n\nTwo\.\nTwo/);
    expect(it.files).toHaveLength(1);
  });

  it('is refused where it is larger than anything holds, or there are too many files', () => {
    const { desk: it } = desk();
    expect(it.paste('x'.repeat(10_000_001))).toBe(true);
    expect(it.refused).toContain('too large (10 MB)');
    for (let file = 0; file < FILES_MAX; file += 1) it.paste(LONG);
    expect(it.refused).toBeNull();
    it.paste(LONG);
    expect(it.files).toHaveLength(FILES_MAX);
    expect(it.refused).toContain('At most');
  });
});

describe('a chat that is not kept', () => {
  it('is in no list, keeps no draft, and is gone when it is left', async () => {
    const { backend, desk: it } = desk();
    const gone = vi.spyOn(backend, 'deleteConversation');
    it.type('a st');
    expect(it.drafts.of(null)).toBe('a st');
    it.current.temporary = true;
    it.type('a story');
    expect(it.drafts.of(null)).toBe('');
    await it.send(MODEL);
    await finished(it);
    const { id } = it.current;
    await it.list.load();
    expect(it.list.entries).toEqual([]);
    it.startNew();
    await vi.waitFor(() => { expect(gone).toHaveBeenCalledExactlyOnceWith(id); });
    expect(it.current.temporary).toBe(false);
  });
});

describe('instructions and files', () => {
  it('go with the first message, and change with the chat', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    const instruct = vi.spyOn(backend, 'instructConversation');
    await it.current.instruct('Be brief.');
    expect(instruct).not.toHaveBeenCalled();
    await it.attach([new File(['print(1)'], 'one.py'), new File([new Uint8Array([0])], 'two.bin')]);
    expect(it.refused).toContain('two.bin');
    it.type('What is this?');
    await it.send(MODEL);
    await finished(it);
    expect(say.mock.calls[0]?.[0].start).toEqual({ temporary: false, instructions: 'Be brief.', choices: AS_SETTINGS });
    expect(it.current.steps[0]?.message.text).toContain('```python title="one.py"');
    expect(it.files).toEqual([]);
    await it.current.instruct('Be long.');
    expect(instruct).toHaveBeenLastCalledWith(it.current.id, 'Be long.');
  });

  it('wait for a file that is still being read', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    const [file, come] = slowFile('a.txt');
    it.type('What is this?');
    const attached = it.attach([file]);
    expect(it.attaching).toBe(true);
    await it.send(MODEL);
    expect(say).not.toHaveBeenCalled();
    expect(it.draft).toBe('What is this?');
    come();
    await attached;
    expect(it.attaching).toBe(false);
    await it.send(MODEL);
    expect(it.current.steps[0]?.message.text).toContain('title="a.txt"');
  });

  it('drop a file that comes when another chat is open', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    const [file, come] = slowFile('a.txt');
    const attached = it.attach([file, new File(['x'], 'b.txt')]);
    await it.open(it.list.entries[0]?.id ?? 0);
    expect(it.attaching).toBe(false);
    come();
    await attached;
    expect(it.files).toEqual([]);
    it.startNew();
    expect(it.files).toEqual([]);
  });

  it('are never more than may be, also when two choices come at once', async () => {
    const { desk: it } = desk();
    const many = Array.from({ length: FILES_MAX }, (_, at) => new File(['x'], `${String(at)}.txt`));
    const [file, come] = slowFile('late.txt');
    const late = it.attach([file]);
    const soon = it.attach(many);
    await soon;
    expect(it.attaching).toBe(true);
    come();
    await late;
    expect(it.attaching).toBe(false);
    expect(it.files.map(({ name }) => name)).toEqual(many.map(({ name }) => name));
    expect(it.refused).toContain(String(FILES_MAX));
  });

  it('stay with the chat that they were chosen for', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    const [first, second] = it.list.entries.map(({ id }) => id);
    await it.attach([new File(['x'], 'new.txt')]);
    await it.current.confine(true);
    await it.current.instruct('Be brief.');
    await it.open(first ?? 0);
    expect([it.files, it.current.onlyHere, it.current.instructions]).toEqual([[], false, '']);
    await it.attach([new File(['x'], 'first.txt')]);
    await it.open(first ?? 0);
    expect(it.files.map(({ name }) => name), 'the same chat again').toEqual(['first.txt']);
    await it.open(second ?? 0);
    it.startNew();
    expect([it.files.map(({ name }) => name), it.current.onlyHere, it.current.instructions]).toEqual([['new.txt'], true, 'Be brief.']);
    await it.open(first ?? 0);
    expect(it.files.map(({ name }) => name)).toEqual(['first.txt']);
  });

  it('leave a chat that has not begun as it was set, also for a page that is loaded anew, until it begins', async () => {
    const backend = new FakeBackend({ tokenMs: 0 });
    const before = new ChatDesk(backend);
    before.type('Between us');
    await before.current.confine(true);
    const choices = { thinking: 'on', temperature: 0 } as const;
    await before.current.tune(choices);
    const it = new ChatDesk(backend);
    expect([it.draft, it.current.onlyHere, it.current.choices]).toEqual(['Between us', true, choices]);
    await it.send(MODEL);
    await finished(it);
    it.startNew();
    expect([it.draft, it.current.onlyHere, it.current.choices]).toEqual(['', false, AS_SETTINGS]);
    expect(new ChatDesk(backend).current.onlyHere).toBe(false);
  });

  it('come back to the field when the message is refused', async () => {
    const { desk: it } = desk();
    await it.attach([new File(['x'], 'a.txt')]);
    it.type('please refuse');
    await it.send(MODEL);
    expect(it.files).toHaveLength(1);
    expect(it.draft).toBe('please refuse');
  });
});

describe('files of chats', () => {
  it('are saved by branch or whole, and come back as a chat', async () => {
    const { backend, desk: it } = desk();
    it.type('a story');
    await it.send(MODEL);
    await finished(it);
    expect(await it.save('markdown')).toMatch(/\.md$/);
    expect(await it.save('json')).toMatch(/\.json$/);
    const file = new File([backend.saved[1] ?? ''], 'a.json');
    const { id } = it.current;
    await it.bringIn(file);
    expect(it.current.id).not.toBe(id);
    expect(it.current.steps[1]?.message.text).toContain('Once upon a time');
    await it.bringIn(new File(['no'], 'b.json'));
    expect(toasts.all.at(-1)?.message.text).toContain('Not imported');
  });
});

describe('several conversations', () => {
  it('lets a reply go on in one while another is read', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    it.type('a story');
    await it.send(MODEL);
    const mine = it.current;
    const other = it.list.entries.find((entry) => entry.id !== mine.id);
    await it.open(other?.id ?? 0);
    expect(it.current).not.toBe(mine);
    await vi.waitFor(() => { expect(mine.busy).toBe(false); });
    await it.open(mine.id ?? 0);
    expect(it.current).toBe(mine);
    expect(mine.steps[1]?.message.text).toContain('neighbours');
  });

  it('keeps a draft for each', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    it.type('half a thought');
    await it.open(it.list.entries[0]?.id ?? 0);
    expect(it.draft).toBe('');
    it.startNew();
    expect(it.draft).toBe('half a thought');
  });

  it('closes the one that is deleted', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    const id = it.list.entries[0]?.id ?? 0;
    await it.open(id);
    it.remove(id);
    await toasts.finish();
    expect(it.current.id).toBeNull();
    expect(it.list.titleOf(id)).toBeUndefined();
  });

  it('answers with the model of the house until somebody chooses, and a choice stays with its chat', async () => {
    const { backend, desk: it } = desk();
    const [template] = backend.house.models;
    if (template === undefined) throw new Error('no model');
    const old = Math.floor(Date.now() / 1000) - 100;
    const one = (name: string, added: number) => ({ ...template, name, added });
    const small = one('small', old);
    const house = { models: [small], default_model: 'small' };
    expect(it.model({ models: [], default_model: null })).toBeNull();
    expect(it.model(house)).toBe('small');
    // A model that was downloaded answers from then on, without anybody's doing.
    const both = { models: [small, one('big', old + 1)], default_model: 'big' };
    expect(it.model(both)).toBe('big');
    it.chooseModel('small');
    expect(it.model(both)).toBe('small');
    it.type('a story');
    await it.send('small');
    await finished(it);
    const { id } = it.current;
    it.startNew();
    expect(it.model(both)).toBe('small');
    // What came after the choice was not among what was chosen from; the chat keeps its own.
    const newer = { models: [...both.models, one('new', old + 1000)], default_model: 'new' };
    expect(it.model(newer)).toBe('new');
    await it.open(id ?? 0);
    expect(it.model(newer)).toBe('small');
    const again = new ChatDesk(backend);
    await again.open(id ?? 0);
    expect(again.model(newer)).toBe('small');
    expect(again.model({ models: [one('big', old)], default_model: 'big' })).toBe('big');
    again.remove(id ?? 0);
    await toasts.finish();
    expect(again.model(newer)).toBe('new');
  });
});

describe('who computed which words', () => {
  async function past(): Promise<MessageView[]> {
    const { backend, desk: it } = desk(true);
    await it.list.load();
    return backend.messages(it.list.entries[0]?.id ?? 0);
  }

  it('is kept with the reply, and a hand-over stands where the words change', async () => {
    const last = (await past()).at(-1);
    if (last === undefined) throw new Error('no message');
    const { marks, stretches } = faceOf(last);
    expect(stretches.map((one) => one.at)).toEqual([0, marks[0]?.at]);
    expect((marks[0]?.at ?? 0) / last.text.length).toBeCloseTo(0.7, 1);
  });

  it('is told of a reply from before it was kept where one route made it, and of no other', async () => {
    const [, first, second] = await past();
    if (!first?.summary || !second?.summary) throw new Error('no reply');
    expect(faceOf(first).stretches).toEqual([{ at: 0, after_tokens: 0, route: first.summary.route }]);
    const old = (summary: Partial<ReplySummary>): MessageView =>
      ({ ...first, summary: { ...first.summary, ...summary } as ReplySummary });
    const [part] = first.summary.timeline;
    if (part === undefined) throw new Error('no part');
    const late = { ...part, first_token: 9, last_token: 12 };
    expect(faceOf(old({ timeline: [part, late] })).stretches).toEqual([]);
    expect(faceOf(old({ timeline: [] })).stretches).toEqual([]);
    const handedOver = { ...second, stretches: [] };
    expect(faceOf(handedOver).stretches).toEqual([]);
    // Its note is placed by proportion, as it was.
    expect((faceOf(handedOver).marks[0]?.at ?? 0) / second.text.length).toBeCloseTo(0.7, 1);
    const cut = { ...first, summary: null, path: { route: first.summary.route, failovers: [], completion_tokens: 9 } };
    expect(faceOf(cut).stretches).toEqual([]);
  });

  it('is there while a reply is made and stays when it has ended', async () => {
    const { backend, desk: it } = desk();
    it.type('hand over');
    await it.send(MODEL);
    await finished(it);
    const message = it.current.steps[1]?.message;
    if (message === undefined) throw new Error('no reply');
    expect(it.current.face(message).stretches).toHaveLength(2);
    expect(message.stretches).toEqual(it.current.face(message).stretches);
    const kept = await backend.messages(it.current.id ?? 0);
    expect(kept.at(-1)?.stretches).toEqual(message.stretches);
  });

  it('is shown and hidden for a reply, by key for the last one that knows it', async () => {
    const { desk: it } = desk(true);
    await it.list.load();
    expect(it.current.markLast()).toBe(false);
    await it.open(it.list.entries[0]?.id ?? 0);
    const last = it.current.steps.at(-1)?.message.id ?? 0;
    expect(it.current.markLast()).toBe(true);
    expect([...it.current.marked]).toEqual([last]);
    it.current.mark(last);
    expect([...it.current.marked]).toEqual([]);
  });
});
