/** A person in front of the fake household: how pages are opened and walked through. */
import { expect, type Page } from '@playwright/test';

/** What the person has chosen before, as the page keeps it. */
export interface Chosen {
  theme?: 'light' | 'dark' | 'contrast';
  language?: 'en' | 'de' | 'mirrored';
  size?: 'normal' | 'huge';
  /** The first start is still open. */
  isNew?: boolean;
  /** What holds sharing back. */
  paused?: string;
  /** Time stands in the household until the test lets it `pass`. */
  byHand?: boolean;
}

/** The pages beside the chat: places of the side bar, and the sections of its last one. */
const PLACES = ['devices', 'models'] as const;
const SECTIONS = ['sharing', 'privacy', 'port', 'checks', 'settings'] as const;
export const PAGES = [...PLACES, ...SECTIONS] as const;
export type Where = (typeof PAGES)[number] | 'chat';

/** Up to this width the side bar hides behind a button. */
const NARROW = 720;

export async function open(page: Page, { theme, language, size, isNew = false, paused, byHand = false }: Chosen): Promise<void> {
  const kept: Record<string, string> = {};
  if (theme) kept['inglenook.theme'] = theme;
  if (language) kept['inglenook.language'] = language;
  if (size) kept['inglenook.size'] = size;
  if (!isNew) kept['inglenook.first-start'] = 'done';
  await page.addInitScript((entries) => {
    for (const [key, value] of Object.entries(entries)) localStorage.setItem(key, value);
  }, kept);
  const wanted = [...(paused ? [`paused=${paused}`] : []), ...(byHand ? ['by-hand'] : [])];
  await page.goto(`/?${wanted.join('&')}`);
  await expect(page.getByTestId('prompt')).toBeVisible();
}

/** The questions of the first start, in order. */
export const FIRST_STEPS = ['name', 'model', 'share', 'others'] as const;

/** Answers a question of the first start so that nothing is downloaded. */
export async function leaveStep(page: Page, step: (typeof FIRST_STEPS)[number]): Promise<void> {
  await page.getByTestId(step === 'model' ? 'first-skip' : 'first-next').click();
}

/** Lets the time of so many tokens pass in a household whose time stands (`byHand`). A tenth of a download takes 25. */
export async function pass(page: Page, tokens: number): Promise<void> {
  await page.evaluate((count) => {
    const { household } = window as unknown as { household: { pass(tokens: number): Promise<void> } };
    return household.pass(count);
  }, tokens);
}

/** A fault stops the program, in a household whose time stands (`byHand`). */
export async function breaks(page: Page): Promise<void> {
  await page.evaluate(() => {
    const { household } = window as unknown as { household: { window: { stopped(log: string): void } } };
    household.window.stopped('/data/inglenook/inglenook.log');
  });
}

/** The system answers about the keys that ask, in a household whose time stands (`byHand`). */
export async function askKeys(page: Page, state: 'taken' | 'impossible'): Promise<void> {
  await page.evaluate((now) => {
    const { household } = window as unknown as { household: { window: { askKeys(state: string): void } } };
    household.window.askKeys(now);
  }, state);
}

/** What lies between a question and its third token, as the household counts it. */
export const TO_WRITING = 12;
/** More than any reply or download takes. */
export const TO_THE_END = 2000;

/** What is pressed, one after the other, on the way to a page: the one place that knows. */
export function wayTo(name: Where): string[] {
  const isSection = (SECTIONS as readonly string[]).includes(name);
  return isSection ? ['nav-settings', `section-${name}`] : [`nav-${name}`];
}

export async function goTo(page: Page, name: Where): Promise<void> {
  await openSideBar(page);
  for (const step of wayTo(name)) await page.getByTestId(step).click();
  await expect(page.locator('main h1, main [data-testid="prompt"]').first()).toBeVisible();
  await settle(page);
}

/** Opens what is said about the open chat. Its parts come one after another, and a key that is pressed before does not
 *  reach it. */
export async function openAbout(page: Page): Promise<void> {
  await page.getByTestId('about').click();
  await page.getByTestId('sheet-freedom').waitFor();
}

/** Opens a conversation of the past, the newest without a title. */
export async function openConversation(page: Page, title = ''): Promise<void> {
  await openSideBar(page);
  await page.getByTestId('conversation').filter({ hasText: title }).locator('.title').first().click();
  await expect(page.getByTestId('reply').last()).toBeVisible();
  await settle(page);
}

/** Waits until everything that fades or slides has arrived; what turns for ever does not count. Then the letters of
 *  every script that is shown are there too. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await document.fonts.ready;
    const ending = document.getAnimations().filter((one) => one.effect?.getComputedTiming().endTime !== Infinity);
    return Promise.all(ending.map((one) => one.finished.catch(() => null)));
  });
}

export async function openSideBar(page: Page): Promise<void> {
  if ((page.viewportSize()?.width ?? NARROW) <= NARROW) await page.locator('.menu').click();
}
