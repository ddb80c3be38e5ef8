// The window's rules: no `any`, no raw HTML but in one place, and one-way imports between folders.
import js from '@eslint/js';
import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';
import svelteConfig from './svelte.config.js';

const TAURI = { group: ['@tauri-apps/*'], message: 'Tauri is known to backend/tauri.ts alone.' };

/** Only `windows/` composes: a domain folder sees itself, `kit/`, `backend/`, `strings/` and the generated types. */
function seesNot(folder, ...others) {
  return {
    files: [`src/${folder}/**`],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [
          ...others.map((other) => ({
            group: [`**/${other}/**`],
            message: `${folder}/ does not know ${other}/; compose them in windows/.`,
          })),
          TAURI,
        ] },
      ],
    },
  };
}

export default ts.config(
  { ignores: ['dist', 'node_modules', 'src/generated'] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...ts.configs.stylistic,
  ...svelte.configs.recommended,
  // No comment in a file switches a rule off.
  { linterOptions: { noInlineConfig: true } },
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig, extraFileExtensions: ['.svelte'] } },
  },
  {
    rules: {
      'no-undef': 'off',
      'no-console': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      // Maps and dates in state are replaced, never changed in place.
      'svelte/prefer-svelte-reactivity': 'off',
      'svelte/no-at-html-tags': 'error',
      'svelte/require-each-key': 'error',
      'svelte/button-has-type': 'error',
    },
  },
  // It cleans what it puts into the page (`highlight.ts`).
  { files: ['src/kit/markdown/CodeBlock.svelte', 'src/kit/markdown/FormulaView.svelte'], rules: { 'svelte/no-at-html-tags': 'off' } },
  {
    files: ['src/**'],
    ignores: ['src/backend/tauri.ts', '**/*.test.ts'],
    rules: { 'no-restricted-imports': ['error', { patterns: [TAURI] }] },
  },
  seesNot('kit', 'chat', 'devices', 'pages', 'start', 'windows', 'backend'),
  seesNot('chat', 'devices', 'pages', 'start', 'windows'),
  seesNot('devices', 'chat', 'pages', 'start', 'windows'),
  seesNot('pages', 'chat', 'devices', 'start', 'windows'),
  seesNot('start', 'chat', 'devices', 'pages', 'windows'),
);
