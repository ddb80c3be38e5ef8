/** Promises of long texts that are pasted: they become an attachment, which can be opened, put back and removed, and
 *  what the model cannot hold is not sent, with the reason. */
import { expect, type Page, test } from '@playwright/test';
import { isGood } from './good';
import { open } from './visit';

/** Puts a text on the clipboard and pastes it, as the keys do. */
async function paste(page: Page, text: string): Promise<void> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.evaluate((wanted) => navigator.clipboard.writeText(wanted), text);
  await page.getByTestId('prompt').focus();
  await page.keyboard.press('Control+v');
}

for (const theme of ['light', 'dark'] as const) {
  test(`a long text that is pasted becomes an attachment (${theme})`, async ({ page }) => {
    await open(page, { theme });
    await paste(page, 'A short one. ');
    await expect(page.getByTestId('prompt')).toHaveValue('A short one. ');
    await expect(page.getByTestId('file')).toHaveCount(0);
    await paste(page, 'Leaves fall, and the fire is warm.\n'.repeat(300));
    await expect(page.getByTestId('file')).toHaveText(/Pasted text, 11 kB/);
    await expect(page.getByTestId('prompt')).toHaveValue('A short one. ');
    await page.getByTestId('open-file').click();
    await expect(page.getByTestId('attachment-sheet')).toContainText('the fire is warm');
    await isGood(page, theme, 'pasted-sheet');
    await page.getByTestId('put-back').click();
    await expect(page.getByTestId('file')).toHaveCount(0);
    await expect(page.getByTestId('prompt')).toBeFocused();
    await expect(page.getByTestId('prompt')).toHaveValue(/^A short one. \n\nLeaves fall/);
    await page.getByTestId('prompt').fill('');
    await paste(page, 'One.\n'.repeat(2000));
    await paste(page, 'Two.\n'.repeat(2000));
    await expect(page.getByTestId('file')).toHaveText([/Pasted text, /, /Pasted text 2, /]);
    await page.getByRole('button', { name: 'Remove Pasted text', exact: true }).click();
    await expect(page.getByTestId('file')).toHaveText([/Pasted text 2, /]);
  });

  test(`two million letters are pasted, looked at, and not sent, with the reason (${theme})`, async ({ page }) => {
    await open(page, { theme });
    await paste(page, 'Leaves fall, and the fire is warm. '.repeat(60_000));
    await expect(page.getByTestId('file')).toHaveText(/Pasted text, 2.1 MB/);
    await page.keyboard.type('What is this?');
    await expect(page.getByTestId('prompt')).toHaveValue('What is this?');
    await expect(page.getByTestId('send')).toHaveAttribute('aria-disabled', 'true');
    await expect(page.getByTestId('send')).toHaveAccessibleDescription(/Too long to send: .* tokens/);
    await expect(page.getByTestId('context')).toContainText('more than full');
    // Not what a person can do with a button that takes no click; it must do nothing all the same.
    await page.getByTestId('send').click({ force: true });
    await page.getByTestId('prompt').press('Enter');
    await expect(page.getByTestId('person')).toHaveCount(0);
    await isGood(page, theme, 'pasted-too-long');
    await page.getByTestId('open-file').click();
    await expect(page.getByTestId('attachment-sheet')).toContainText('Only the beginning is shown.');
    await expect(page.getByTestId('put-back')).toHaveCount(0);
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: 'Remove Pasted text', exact: true }).click();
    await expect(page.getByTestId('too-long')).toHaveCount(0);
    await page.getByTestId('send').click();
    await expect(page.getByTestId('person')).toHaveText(/What is this\?/);
  });
}
