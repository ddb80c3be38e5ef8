/** Promises of an open conversation and of the desk that holds it, against the fake household. */
import { describe, expect, it, vi } from 'vitest';
import { FakeBackend } from '../backend/fake';
import { ChatDesk } from './desk.svelte';
import { faceOf } from './face';

const MODEL = 'ember';

function desk(past = false): { backend: FakeBackend; desk: ChatDesk } {
  const backend = new FakeBackend({ tokenMs: 0, past });
  return { backend, desk: new ChatDesk(backend) };
}

async function finished(where: ChatDesk): Promise<void> {
  await vi.waitFor(() => { expect(where.current.busy).toBe(false); });
}

describe('saying something', () => {
  it('shows the message at once and the reply when it has come', async () => {
    const { desk: it } = desk();
    it.type('Tell me a story');
    const sent = it.send(MODEL);
    expect(it.current.waiting?.text).toBe('Tell me a story');
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
    expect(it.current.steps[1]?.message.cut_because).toBe('Stopped.');
  });

  it('stays on this computer when it is told to', async () => {
    const { backend, desk: it } = desk();
    const say = vi.spyOn(backend, 'say');
    it.onlyHere = true;
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
    await it.again(asked, MODEL);
    await finished(it);
    expect(it.current.steps[1]).toMatchObject({ index: 1, siblings: { length: 2 } });
    it.current.choose(asked, first);
    expect(it.current.steps[1]?.message.id).toBe(first);
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
    await it.remove(id);
    expect(it.current.id).toBeNull();
    expect(it.list.titleOf(id)).toBeUndefined();
  });

  it('remembers the model, and takes the first where it is gone', () => {
    const { desk: it } = desk();
    it.chooseModel('big');
    expect(it.model(['small', 'big'])).toBe('big');
    expect(it.model(['small'])).toBe('small');
    expect(it.model([])).toBeNull();
  });
});

it('places the hand-over of a kept reply by proportion', async () => {
  const { backend, desk: it } = desk(true);
  await it.list.load();
  const messages = await backend.messages(it.list.entries[0]?.id ?? 0);
  const last = messages.at(-1);
  if (last === undefined) throw new Error('no message');
  const [mark] = faceOf(last).marks;
  expect((mark?.at ?? 0) / last.text.length).toBeCloseTo(0.7, 1);
});
