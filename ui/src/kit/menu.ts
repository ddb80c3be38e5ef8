/** What a menu holds. */
import type { IconName } from './icons';

export interface MenuItem {
  name: string;
  icon?: IconName;
  /** The keys that do the same, as the window's list of keys has them. */
  keys?: readonly string[];
  /** It takes something away. */
  isDangerous?: boolean;
  testId: string;
  /** Done once the menu is gone and its button has the focus. */
  act: () => void;
}

/** Items that belong together. */
export interface MenuGroup {
  title?: string;
  items: readonly MenuItem[];
}
