/** The real program behind the window. The only file that knows Tauri, `invoke` and `Channel`. */
import { Channel, invoke, isTauri } from '@tauri-apps/api/core';
import type { Problem } from '../generated/Problem';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { WindowNews } from '../generated/WindowNews';
import { Refusal, type Backend } from './backend';

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

export const tauriBackend: Backend = {
  watch(listener) {
    const news = new Channel<WindowNews>();
    news.onmessage = (message) => {
      if (message.kind === 'house') listener.house(message.house);
      else if (message.kind === 'go_to') listener.goTo(message.page);
      else if (message.kind === 'dropped') listener.dropped(message.paths, message.refused);
      else listener.noTray();
    };
    return ask('watch', { news });
  },

  arrived: (language) => ask('arrived', { language }),
  turnedTo: (page) => ask('turned_to', { page }),
  setSharing: (on) => ask('set_sharing', { on }),
  pauseSharing: (untilTomorrow) => ask('pause_sharing', { untilTomorrow }),
  resumeSharing: () => ask('resume_sharing'),
  freeMemory: () => ask('free_memory'),
  autostart: () => ask('autostart'),
  setAutostart: (on) => ask('set_autostart', { on }),
  setName: (name) => ask('set_name', { name }),

  showCode: () => ask('show_code'),
  cancelPairing: () => ask('cancel_pairing'),
  join: (target, code) => ask('join', { target, code }),
  setTrust: (device, trust) => ask('set_trust', { device, trust }),
  forget: (device) => ask('forget', { device }),

  conversations: (search) => ask('conversations', { search }),
  messages: (conversation) => ask('messages', { conversation }),
  renameConversation: (conversation, title) => ask('rename_conversation', { conversation, title }),
  deleteConversation: (conversation) => ask('delete_conversation', { conversation }),

  instructConversation: (conversation, instructions) => ask('instruct_conversation', { conversation, instructions }),
  confineConversation: (conversation, reach) => ask('confine_conversation', { conversation, reach }),
  exportConversation: (conversation, title, form) => ask('export_conversation', { conversation, title, form }),
  importConversation: (file) => ask('import_conversation', { file }),

  say(turn, onEvent) {
    const events = new Channel<ReplyEvent>();
    events.onmessage = onEvent;
    return ask('say', { turn, events });
  },
  stop: (replyMessage) => ask('stop', { replyMessage }),

  chooseModelFile: () => ask('choose_model_file'),
  importModel: (path) => ask('import_model', { path }),
  removeModel: (name) => ask('remove_model', { name }),
  pullModel: (source) => ask('pull_model', { source }),
  copyModel: (model) => ask('copy_model', { model }),
  // The command's own argument is called `ask` too.
  changeDownload: (key, what) => ask('change_download', { key, ask: what }),
  chooseModelsFolder: () => ask('choose_models_folder'),
  moveModels: (to) => ask('move_models', { to }),
  stopMovingModels: () => ask('stop_moving_models'),
  foundModels: () => ask('found_models'),
  changeSetting: (setting) => ask('change_setting', { setting }),
  portKey: () => ask('port_key'),
  renewPortKey: () => ask('renew_port_key'),
  addPortKey: (name) => ask('add_port_key', { name }),
  removePortKey: (name) => ask('remove_port_key', { name }),
  testPort: () => ask('test_port'),
  diagnostics: () => ask('diagnostics'),

  quit: () => ask('quit'),
  openLink: (url) => ask('open_link', { url }),
};
