/** The texts of the language in use. Pages import `t` and never write a sentence of their own. */
import { en } from './en';

export type Strings = typeof en;

/** The catalogue in use. English is the only one so far. */
export const t: Strings = en;

/** The locale for numbers and dates. */
export const locale = 'en-GB';
