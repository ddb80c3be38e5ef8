/** What the build decides, beside what Vite knows. */

interface ImportMetaEnv {
  /** Whether the made-up household and the made-up language are in this build: never in what the program carries. */
  readonly MADE_UP: boolean;
}
