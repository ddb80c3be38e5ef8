/** Keeps `data-theme` on the root in step with what the person's system asks for. */

export type Theme = 'light' | 'dark' | 'contrast';

/** High contrast wins over dark: it is asked for out of need. */
export function themeFor(dark: boolean, moreContrast: boolean): Theme {
  if (moreContrast) return 'contrast';
  return dark ? 'dark' : 'light';
}

/** Sets the theme now and at every change of the system's; returns what ends that. */
export function followSystemTheme(root: HTMLElement): () => void {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const contrast = matchMedia('(prefers-contrast: more), (forced-colors: active)');
  const apply = () => {
    root.dataset['theme'] = themeFor(dark.matches, contrast.matches);
  };
  apply();
  dark.addEventListener('change', apply);
  contrast.addEventListener('change', apply);
  return () => {
    dark.removeEventListener('change', apply);
    contrast.removeEventListener('change', apply);
  };
}
