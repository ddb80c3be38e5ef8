//! `nook settings`: every setting, read from the file and changed through the node where one runs.
//!
//! The file is the truth for both, so showing needs no node. A change goes through a running node,
//! so that it acts at once; without one it is written to the file.

use std::path::PathBuf;
use std::process::ExitCode;

use nook_api::NodeCalls as _;
use nook_api::views::{SettingAsk, SettingData};
use nook_node::settings::{self, SettingLine};

use crate::arguments::{SettingsAction, SettingsWish};
use crate::connection;
use crate::output;

/// Does what was wished.
pub(crate) async fn run(home: Option<PathBuf>, wish: SettingsWish) -> anyhow::Result<ExitCode> {
    let json = wish.json;
    match wish.action.unwrap_or(SettingsAction::List { changed: false }) {
        SettingsAction::Init => init(home, json)?,
        SettingsAction::List { changed } => {
            let mut lines = settings::list(home.as_deref())?;
            lines.retain(|line| !changed || line.value != line.default);
            list(&lines, json);
        }
        SettingsAction::Get { key } => {
            let line = settings::get(home.as_deref(), &key)?;
            if json {
                output::json(&line);
            } else if line.value != SettingData::Absent {
                output::line(plain(&line.value));
            }
        }
        SettingsAction::Set { key, value, default } => {
            let value = if default { SettingData::Absent } else { settings::typed(&key, &value)? };
            set(home, key, value, json).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn init(home: Option<PathBuf>, json: bool) -> anyhow::Result<()> {
    let path = settings::init(home.as_deref())?;
    if json {
        output::json(&serde_json::json!({ "file": path }));
    } else {
        output::line(format!("Every setting stands in {} as a comment.", path.display()));
    }
    Ok(())
}

fn list(lines: &[SettingLine], json: bool) {
    if json {
        output::json(&lines);
        return;
    }
    if lines.is_empty() {
        output::note("Every setting has its default.");
        return;
    }
    let rows: Vec<_> = lines
        .iter()
        .map(|line| {
            let value = match &line.value {
                SettingData::Absent => "-".to_owned(),
                value => value.to_string(),
            };
            let mark = if line.value == line.default { "" } else { "changed" };
            vec![line.key.to_owned(), value, mark.to_owned(), line.takes.clone()]
        })
        .collect();
    output::table(&["KEY", "VALUE", "", "TAKES"], &rows);
}

async fn set(
    home: Option<PathBuf>,
    key: String,
    value: SettingData,
    json: bool,
) -> anyhow::Result<()> {
    // An unknown key is refused in the same words whether a node runs or not.
    settings::get(home.as_deref(), &key)?;
    let client = connection::client(home.as_ref())?;
    let runs = client.is_running().await;
    if runs {
        let setting = SettingAsk { key: key.clone(), value };
        client.change_setting(setting).await?;
    } else {
        settings::set(home.as_deref(), &key, &value)?;
    }
    let line = settings::get(home.as_deref(), &key)?;
    if json {
        output::json(&line);
        return Ok(());
    }
    output::line(match &line.value {
        SettingData::Absent => format!("`{key}` is not set."),
        value => format!("`{key}` is {value}."),
    });
    if runs && !line.acts_at_once {
        output::note("It acts from the next start on.");
    }
    Ok(())
}

/// A value as scripts want it: a text without quotes, a list one to a line.
fn plain(value: &SettingData) -> String {
    match value {
        SettingData::Text(text) => text.clone(),
        SettingData::Texts(texts) => texts.join("\n"),
        value => value.to_string(),
    }
}
