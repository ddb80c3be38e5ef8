/**
 * What the window may ask of the program behind it.
 *
 * Two implementations: `tauri.ts` (the real program) and `fake.ts` (a small household inside the
 * page, for tests and for a plain browser). Every method that fails rejects with a `Refusal`.
 */
import type { ConversationView } from '../generated/ConversationView';
import type { DeviceView } from '../generated/DeviceView';
import type { DiagnosticsView } from '../generated/DiagnosticsView';
import type { DownloadAsk } from '../generated/DownloadAsk';
import type { DownloadView } from '../generated/DownloadView';
import type { ExportAsk } from '../generated/ExportAsk';
import type { FoundView } from '../generated/FoundView';
import type { HouseView } from '../generated/HouseView';
import type { JoinTarget } from '../generated/JoinTarget';
import type { MessageView } from '../generated/MessageView';
import type { ModelView } from '../generated/ModelView';
import type { Page } from '../generated/Page';
import type { PairingView } from '../generated/PairingView';
import type { Problem } from '../generated/Problem';
import type { ReachAsk } from '../generated/ReachAsk';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { SettingAsk } from '../generated/SettingAsk';
import type { Trust } from '../generated/Trust';
import type { TurnAsk } from '../generated/TurnAsk';
import type { TurnView } from '../generated/TurnView';
import { refusal } from '../strings/problems';

export interface WindowListener {
  /** The house as it is; called once at the start and after every change. */
  house: (house: HouseView) => void;
  /** The tray, or a notice, asked for a page. */
  goTo: (page: Page) => void;
  /** Closing only minimised the window, because this desktop shows no tray icons. */
  noTray: () => void;
  /** Files were dropped on the window: their whole paths, and why one more of them has none here. */
  dropped: (paths: string[], refused: Problem | null) => void;
}

export interface Backend {
  /** Starts the news for this window. */
  watch(listener: WindowListener): Promise<void>;
  /** The page is there, and speaks this language: so does the tray. */
  arrived(language: string): Promise<void>;
  /** The page that the window shows now, so that no notice says what stands there. */
  turnedTo(page: Page): Promise<void>;

  setSharing(on: boolean): Promise<void>;
  /** Lends nothing for an hour, or until the next morning. */
  pauseSharing(untilTomorrow: boolean): Promise<void>;
  /** Ends a pause that the person asked for. */
  resumeSharing(): Promise<void>;
  /** Gives back all memory that no reply of this computer needs, and pauses sharing for a while. */
  freeMemory(): Promise<void>;
  /** Whether the program starts, in the tray, when the person logs in. */
  autostart(): Promise<boolean>;
  setAutostart(on: boolean): Promise<void>;
  setName(name: string): Promise<void>;

  showCode(): Promise<PairingView>;
  cancelPairing(): Promise<void>;
  join(target: JoinTarget, code: string): Promise<DeviceView>;
  setTrust(device: string, trust: Trust): Promise<void>;
  forget(device: string): Promise<void>;

  /** Newest first; with `search`, those that hold all its words. */
  conversations(search: string | null): Promise<ConversationView[]>;
  /** Parents before children, siblings oldest first. */
  messages(conversation: number): Promise<MessageView[]>;
  renameConversation(conversation: number, title: string): Promise<void>;
  deleteConversation(conversation: number): Promise<void>;

  /** Sets what the model is told before the first message; empty for nothing. */
  instructConversation(conversation: number, instructions: string): Promise<void>;
  /** Keeps the replies of a conversation on this computer, or lets others help again. */
  confineConversation(conversation: number, reach: ReachAsk): Promise<void>;
  /** Saves a conversation as a file named after `title`; resolves to where it is. */
  exportConversation(conversation: number, title: string, form: ExportAsk): Promise<string>;
  /** Takes in the text of a file that was saved as JSON; resolves to the new conversation. */
  importConversation(file: string): Promise<number>;

  /** Says something and streams the reply; events may come before the promise resolves. */
  say(turn: TurnAsk, onEvent: (event: ReplyEvent) => void): Promise<TurnView>;
  /** Ends a reply; what was shown stays. Its stream still ends with `pipeline_aborted`. */
  stop(replyMessage: number): Promise<void>;

  /** Asks for a model's file in the desktop's own dialog; null when none was chosen. */
  chooseModelFile(): Promise<string | null>;
  /** Adds the GGUF file at a whole path; resolves once all of it was checked. */
  importModel(path: string): Promise<ModelView>;
  removeModel(name: string): Promise<void>;
  /** Begins a download: an id of the catalogue, `hf:…` or an https address. The house shows how far it is. */
  pullModel(source: string): Promise<DownloadView>;
  /** Begins to copy a model that a device of the house has: its digest, or an id of the catalogue. */
  copyModel(model: string): Promise<DownloadView>;
  changeDownload(key: string, ask: DownloadAsk): Promise<void>;
  /** Asks for a folder in the desktop's own dialog; null when none was chosen. */
  chooseModelsFolder(): Promise<string | null>;
  /** Moves the models to a folder, or back to the usual one; resolves once that has begun. The house shows how far it is. */
  moveModels(to: string | null): Promise<void>;
  stopMovingModels(): Promise<void>;
  /** Model files of other programs that could be used where they lie. */
  foundModels(): Promise<FoundView[]>;

  /** Changes one setting; the next house shows it. */
  changeSetting(setting: SettingAsk): Promise<void>;

  /** The key of the port, to be copied. */
  portKey(): Promise<string>;
  /** Makes a new key; the old one opens nothing any more. */
  renewPortKey(): Promise<string>;
  /** A new key for one program; it is told this once. */
  addPortKey(name: string): Promise<string>;
  removePortKey(name: string): Promise<void>;
  /** Asks the port as another program would; resolves to the status of its answer. */
  testPort(): Promise<number>;

  diagnostics(): Promise<DiagnosticsView>;

  /** Ends the program. */
  quit(): Promise<void>;

  /** Opens an https link in the person's browser. */
  openLink(url: string): Promise<void>;
}

/** Something that was asked for and did not happen. Branch on `code`, show `message`. */
export class Refusal extends Error {
  readonly code: string;

  constructor(problem: Pick<Problem, 'code' | 'sentence'> & Partial<Problem>) {
    super(refusal(problem));
    this.name = 'Refusal';
    this.code = problem.code;
  }

  /** What to show for anything that was thrown. */
  static sentence(thrown: unknown): string {
    return thrown instanceof Error ? thrown.message : String(thrown);
  }
}
