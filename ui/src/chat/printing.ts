/**
 * The open chat on paper: all of it, and nothing else of the window.
 *
 * It is drawn a second time, beside the window: what the window mounts of a long chat is what is near to the view.
 */
import { flushSync, mount, unmount } from 'svelte';
import type { HouseholdView } from '../generated/HouseholdView';
import { drawnWhole } from '../kit/markdown/whole';
import { t } from '../strings';
import { split } from './attachments';
import type { ChatDesk } from './desk.svelte';
import type { OpenChat } from './open-chat.svelte';
import PrintedChat from './PrintedChat.svelte';

/** One message as it is printed. */
export interface PrintedTurn {
  id: number;
  who: string;
  /** Of a person as they typed it, of a model as Markdown. */
  text: string;
  isPerson: boolean;
  /** Names of the files that went with it. */
  files: readonly string[];
}

type House = Pick<HouseholdView, 'models'>;

/** What there is on paper now; takes it away. */
let takeAway: (() => void) | null = null;
let isPrinting = false;

/** The messages that show, with who said them. */
export function turnsOf(chat: OpenChat, { models }: House): PrintedTurn[] {
  return chat.steps.flatMap(({ message }): PrintedTurn[] => {
    const { id, role } = message;
    if (role === 'user') {
      const { text, files } = split(message.text);
      return [{ id, who: t.chat.printed.you, text, isPerson: true, files: files.map(({ name }) => name) }];
    }
    if (role !== 'assistant') return [];
    const { text, summary } = chat.face(message);
    const model = models.find(({ name }) => name === summary?.model)?.title ?? summary?.model;
    return [{ id, who: model ?? t.chat.printed.reply, text, isPerson: false, files: [] }];
  });
}

/** Prints the open chat; says whether there is anything to print. */
export function printOpen(desk: ChatDesk, house: House): boolean {
  if (desk.current.empty) return false;
  if (!isPrinting) void print(desk, house);
  return true;
}

/** For who prints by another way than this window's: whatever is on the page by then is printed. */
export function onBeforePrint(desk: ChatDesk, house: House): void {
  if (takeAway === null && !desk.current.empty) putDown(desk, house);
}

async function print(desk: ChatDesk, house: House): Promise<void> {
  isPrinting = true;
  try {
    await drawnWhole(putDown(desk, house));
  } finally {
    isPrinting = false;
  }
  window.print();
  const end = takeAway;
  if (end === null) return;
  // Some webviews say nothing when they have printed: whoever goes on in the window has.
  for (const name of ['pointerdown', 'keydown']) window.addEventListener(name, end, { once: true });
}

function putDown(desk: ChatDesk, house: House): Element {
  takeAway?.();
  const { current: chat } = desk;
  const root = document.documentElement;
  const paper = document.createElement('div');
  paper.className = 'paper';
  document.body.append(paper);
  const title = desk.list.titleOf(chat.id) ?? t.chat.untitled;
  const printed = mount(PrintedChat, { target: paper, props: { title, turns: turnsOf(chat, house) } });
  flushSync();
  root.dataset['printed'] = '';
  const end = (): void => {
    if (takeAway !== end) return;
    takeAway = null;
    delete root.dataset['printed'];
    void unmount(printed);
    paper.remove();
  };
  window.addEventListener('afterprint', end, { once: true });
  takeAway = end;
  return paper;
}
