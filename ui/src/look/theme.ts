/** Which colours to use, by what the person's system asks for. Pure. */

export type Theme = 'light' | 'dark' | 'contrast';

/** High contrast wins over dark: it is asked for out of need. */
export function themeFor(dark: boolean, moreContrast: boolean): Theme {
  if (moreContrast) return 'contrast';
  return dark ? 'dark' : 'light';
}
