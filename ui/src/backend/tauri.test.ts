/** Promises of the real backend's page half: what it asks for, and how refusals arrive. */
import { clearMocks, mockIPC } from '@tauri-apps/api/mocks';
import { afterEach, expect, it } from 'vitest';
import { Refusal } from './backend';
import { tauriBackend } from './tauri';

afterEach(() => { clearMocks(); });

it('asks by the names that the program knows', async () => {
  const asked: [string, unknown][] = [];
  mockIPC((command, values) => {
    asked.push([command, values]);
    return command === 'call' ? { join: { id: 'abc' } } : null;
  });
  await tauriBackend.setTrust('abc', 'trusted');
  await tauriBackend.stop(7);
  const joined = await tauriBackend.join({ kind: 'seen', at: 'abc' }, '123456');
  expect(asked).toEqual([
    ['call', { request: { action: 'set_trust', device: 'abc', trust: 'trusted' } }],
    ['stop', { replyMessage: 7 }],
    ['call', { request: { action: 'join', target: { kind: 'seen', at: 'abc' }, code: '123456' } }],
  ]);
  expect(joined).toEqual({ id: 'abc' });
});

it('turns a problem into a refusal with its code and sentence', async () => {
  mockIPC(() => {
    throw { code: 'busy', sentence: 'Try again shortly.' };
  });
  const thrown: unknown = await tauriBackend.setSharing('on').catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(Refusal);
  expect(thrown).toMatchObject({ code: 'busy', message: 'Try again shortly.' });
});

it('shows even what nobody foresaw', async () => {
  mockIPC(() => {
    throw 'command not found';
  });
  await expect(tauriBackend.forget('x')).rejects.toThrow('command not found');
});
