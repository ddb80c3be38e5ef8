/** How the window looks as the person chose it: colours, size of text, language. Kept on this computer. */
import { themeFor, type Theme } from './theme';

export type ThemeChoice = 'system' | Theme;
export type Size = 'small' | 'normal' | 'large' | 'huge';

export const THEME_CHOICES: readonly ThemeChoice[] = ['system', 'light', 'dark', 'contrast'];
export const SIZES: readonly Size[] = ['small', 'normal', 'large', 'huge'];

/** Of the size that the system asks for. */
const PERCENT: Record<Size, number> = { small: 90, normal: 100, large: 118, huge: 140 };

const THEME_KEY = 'inglenook.theme';
const SIZE_KEY = 'inglenook.size';
const LANGUAGE_KEY = 'inglenook.language';

/** The language that the person chose; null follows the system. */
export function chosenLanguage(storage: Storage): string | null {
  return storage.getItem(LANGUAGE_KEY);
}

export class Look {
  theme = $state<ThemeChoice>('system');
  size = $state<Size>('normal');
  /** Null follows the system. */
  language = $state<string | null>(null);
  readonly #root: HTMLElement;
  readonly #storage: Storage;
  readonly #dark = matchMedia('(prefers-color-scheme: dark)');
  readonly #contrast = matchMedia('(prefers-contrast: more), (forced-colors: active)');

  constructor(root: HTMLElement, storage: Storage = localStorage) {
    this.#root = root;
    this.#storage = storage;
    this.theme = THEME_CHOICES.find((theme) => theme === storage.getItem(THEME_KEY)) ?? 'system';
    this.size = SIZES.find((size) => size === storage.getItem(SIZE_KEY)) ?? 'normal';
    this.language = chosenLanguage(storage);
    this.#apply();
  }

  /** Keeps in step with the system; returns what ends that. */
  follow(): () => void {
    const apply = () => { this.#apply(); };
    this.#dark.addEventListener('change', apply);
    this.#contrast.addEventListener('change', apply);
    return () => {
      this.#dark.removeEventListener('change', apply);
      this.#contrast.removeEventListener('change', apply);
    };
  }

  chooseTheme(theme: ThemeChoice): void {
    this.theme = theme;
    this.#storage.setItem(THEME_KEY, theme);
    this.#apply();
  }

  chooseSize(size: Size): void {
    this.size = size;
    this.#storage.setItem(SIZE_KEY, size);
    this.#apply();
  }

  /** Takes effect when the page is loaded anew. */
  chooseLanguage(language: string | null): void {
    this.language = language;
    if (language === null) this.#storage.removeItem(LANGUAGE_KEY);
    else this.#storage.setItem(LANGUAGE_KEY, language);
  }

  #apply(): void {
    const wanted = this.theme === 'system' ? themeFor(this.#dark.matches, this.#contrast.matches) : this.theme;
    this.#root.dataset['theme'] = wanted;
    this.#root.dataset['size'] = this.size;
    // All sizes of text are in `rem`.
    this.#root.style.fontSize = this.size === 'normal' ? '' : `${String(PERCENT[this.size])}%`;
  }
}
