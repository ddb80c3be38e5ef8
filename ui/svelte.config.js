// How `.svelte` files are compiled, for Vite, svelte-check and ESLint alike.
import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true },
};
