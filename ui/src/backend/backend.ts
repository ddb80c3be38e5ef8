/**
 * What the window may ask of the program behind it: the actions of the node (`NodeCalls`, generated from the list
 * in `nook-api`), and what is the shell's own.
 *
 * Two implementations: `tauri.ts` (the real program) and `fake.ts` (a small household inside the
 * page, for tests and for a plain browser). Every method that fails rejects with a `Refusal`.
 */
import type { AskKeys } from '../generated/AskKeys';
import type { DiagnosticsView } from '../generated/DiagnosticsView';
import type { ExportAsk } from '../generated/ExportAsk';
import type { HouseholdView } from '../generated/HouseholdView';
import type { NodeCalls } from '../generated/NodeCalls';
import type { Page } from '../generated/Page';
import type { Problem } from '../generated/Problem';
import type { ReplyEvent } from '../generated/ReplyEvent';
import type { Turn } from '../generated/Turn';
import type { TurnView } from '../generated/TurnView';
import type { Wording } from '../generated/Wording';
import { refusal } from '../strings/problems';

export interface WindowListener {
  /** The house as it is; called once at the start and after every change. */
  house: (house: HouseholdView) => void;
  /** The tray, or a notice, asked for a page. */
  goTo: (page: Page) => void;
  /** Somebody has a question, from another program: a new chat is wanted. */
  ask: () => void;
  /** What became of the keys that ask that; called once at the start and after every change. */
  askKeys: (state: AskKeys) => void;
  /** Closing only minimised the window, because this desktop shows no tray icons. */
  noTray: () => void;
  /** The program cannot go on because of a fault of its own; `log` is where it wrote why. Nothing comes after it. */
  stopped: (log: string | null) => void;
  /** What was asked for in the tray's menu was not done, and why. */
  notDone: (problem: Problem) => void;
  /** Files were dropped on the window: their whole paths, and why one more of them has none here. */
  dropped: (paths: string[], refused: Problem | null) => void;
}

/** What is the program's own: its windows, files and channels. */
export interface Shell {
  /** Starts the news for this window. */
  watch(listener: WindowListener): Promise<void>;
  /** The page is there, and speaks this language: so does the tray. */
  arrived(language: string): Promise<void>;
  /** Whether this page has anything that nothing else keeps: it is not ended then, however long nobody looks at it. */
  holds(unkept: boolean): Promise<void>;
  /** The page that the window shows now, so that no notice says what stands there. */
  turnedTo(page: Page): Promise<void>;

  /** Whether the program starts, in the tray, when the person logs in. */
  autostart(): Promise<boolean>;
  setAutostart(on: boolean): Promise<void>;

  /** Saves a conversation as a file named after `title`; resolves to where it is. */
  exportConversation(conversation: number, title: string, form: ExportAsk): Promise<string>;

  /** Says something and streams the reply; events may come before the promise resolves. */
  say(turn: Turn, onEvent: (event: ReplyEvent) => void): Promise<TurnView>;
  /** Ends a reply; what was shown stays. Its stream still ends with `pipeline_aborted`. */
  stop(replyMessage: number): Promise<void>;

  /** Asks for a model's file in the desktop's own dialog; null when none was chosen. */
  chooseModelFile(): Promise<string | null>;
  /** Asks for a folder in the desktop's own dialog; null when none was chosen. */
  chooseModelsFolder(): Promise<string | null>;

  /** Asks the port as another program would; resolves to the status of its answer. */
  testPort(): Promise<number>;

  diagnostics(): Promise<DiagnosticsView>;

  /** Ends the program. */
  quit(): Promise<void>;
  /** Starts the program anew, after a fault stopped it; this page ends with it. */
  restart(): Promise<void>;

  /** Opens an https link in the person's browser. */
  openLink(url: string): Promise<void>;
}

export type Backend = NodeCalls & Shell;

/** Something that was asked for and did not happen. Branch on `code`, show `message`. */
export class Refusal extends Error {
  readonly code: string;
  /** Which of the wordings it has; null where it has none. */
  readonly wording: Wording['kind'] | null;

  constructor(problem: Pick<Problem, 'code' | 'sentence'> & Partial<Problem>) {
    super(refusal(problem));
    this.name = 'Refusal';
    this.code = problem.code;
    this.wording = problem.wording?.kind ?? null;
  }

  /** What to show for anything that was thrown. */
  static sentence(thrown: unknown): string {
    return thrown instanceof Error ? thrown.message : String(thrown);
  }
}
