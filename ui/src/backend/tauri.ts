/** The real program behind the window. The only file that knows Tauri, `invoke` and `Channel`. */
import { Channel, invoke, isTauri } from '@tauri-apps/api/core';
import type { ExportAsk } from '../generated/ExportAsk';
import { NodeCalls, type Answer, type Ask } from '../generated/NodeCalls';
import type { Page } from '../generated/Page';
import type { Problem } from '../generated/Problem';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { Request } from '../generated/Request';
import type { Turn } from '../generated/Turn';
import type { WindowNews } from '../generated/WindowNews';
import { Refusal, type Backend, type Shell, type WindowListener } from './backend';

/** Whether this page runs inside the program. */
export function insideProgram(): boolean {
  return isTauri();
}

function isProblem(thrown: unknown): thrown is Problem {
  return typeof thrown === 'object' && thrown !== null && 'code' in thrown && 'sentence' in thrown;
}

/** Asks the program; the result types are those of the commands in `src-tauri/src/commands`. */
async function ask<T>(command: string, values: Record<string, unknown> = {}): Promise<T> {
  try {
    return await invoke<T>(command, values);
  } catch (thrown) {
    throw new Refusal(
      isProblem(thrown) ? thrown : { code: 'window', sentence: String(thrown) },
    );
  }
}

class TauriBackend extends NodeCalls implements Shell {
  /** A response has one entry, which is named after the action. */
  async call<A extends Request['action']>(request: Ask<A>): Promise<Answer<A>> {
    const response: Record<A, Answer<A>> = await ask('call', { request });
    return response[request.action as A];
  }

  watch(listener: WindowListener): Promise<void> {
    const news = new Channel<WindowNews>();
    news.onmessage = (message) => {
      if (message.kind === 'house') listener.house(message.house);
      else if (message.kind === 'go_to') listener.goTo(message.page);
      else if (message.kind === 'ask') listener.ask();
      else if (message.kind === 'ask_keys') listener.askKeys(message.state);
      else if (message.kind === 'dropped') listener.dropped(message.paths, message.refused);
      else if (message.kind === 'stopped') listener.stopped(message.log);
      else if (message.kind === 'not_done') listener.notDone(message.problem);
      else listener.noTray();
    };
    return ask('watch', { news });
  }

  say(turn: Turn, onEvent: (event: ReplyEvent) => void): ReturnType<Shell['say']> {
    const events = new Channel<ReplyEvent>();
    events.onmessage = onEvent;
    return ask('say', { turn, events });
  }

  arrived = (language: string): Promise<void> => ask('arrived', { language });
  holds = (unkept: boolean): Promise<void> => ask('holds', { unkept });
  turnedTo = (page: Page): Promise<void> => ask('turned_to', { page });
  autostart = (): Promise<boolean> => ask('autostart');
  setAutostart = (on: boolean): Promise<void> => ask('set_autostart', { on });
  exportConversation = (conversation: number, title: string, form: ExportAsk): Promise<string> =>
    ask('export_conversation', { conversation, title, form });
  stop = (replyMessage: number): Promise<void> => ask('stop', { replyMessage });
  chooseModelFile = (): Promise<string | null> => ask('choose_model_file');
  chooseModelsFolder = (): Promise<string | null> => ask('choose_models_folder');
  testPort = (): Promise<number> => ask('test_port');
  diagnostics = (): ReturnType<Shell['diagnostics']> => ask('diagnostics');
  quit = (): Promise<void> => ask('quit');
  restart = (): Promise<void> => ask('restart');
  openLink = (url: string): Promise<void> => ask('open_link', { url });
}

export const tauriBackend: Backend = new TauriBackend();
