//! Tables between `<!-- generated: NAME -->` and `<!-- end -->` in pages that people write.

use nook_base::ErrorCode;
use nook_kernels::Format;
use nook_model::Architecture;
use nook_model::gguf::TensorType;
use nook_text::ToolForm;

use super::{hold, place, table};

const END: &str = "<!-- end -->";

#[test]
fn the_page_of_models_lists_what_loads() {
    let mut page = read("models.md");
    page = fill(&page, "architectures", &architectures());
    page = fill(&page, "formats", &formats());
    page = fill(&page, "tool-calls", &tool_calls());
    hold("models.md", &page);
}

#[test]
fn the_page_of_troubles_lists_every_error_code() {
    let rows = ErrorCode::ALL.map(|code| vec![format!("`{code}`"), code.sentence().to_owned()]);
    let codes = table(&["code", "what it means and what helps"], rows);
    hold("troubleshooting.md", &fill(&read("troubleshooting.md"), "error-codes", &codes));
}

fn read(page: &str) -> String {
    std::fs::read_to_string(place(page)).unwrap()
}

/// `page` with `content` between the marks of `name`.
#[track_caller]
fn fill(page: &str, name: &str, content: &str) -> String {
    let start = format!("<!-- generated: {name} -->\n");
    let Some((before, rest)) = page.split_once(&start) else {
        panic!("the page has no place for `{name}`");
    };
    let (_, after) = rest.split_once(END).expect("each generated place has an end");
    format!("{before}{start}\n{content}\n{END}{after}")
}

fn architectures() -> String {
    let row = |known: &Architecture| vec![format!("`{}`", known.name()), known.models().to_owned()];
    table(&["`general.architecture`", "models"], Architecture::ALL.iter().map(row))
}

fn formats() -> String {
    let mut rows: Vec<(bool, f64, Vec<String>)> = Format::ALL
        .into_iter()
        .map(|format| {
            let kind = TensorType::from_format(format).expect("a kernel's format is one of files");
            let bits = 8.0 * format.bytes() as f64 / format.elements() as f64;
            let how = if format.is_packed() { "packed" } else { "plain numbers" };
            let cells = vec![format!("`{}`", kind.name()), format!("{bits:.2}"), how.to_owned()];
            (format.is_packed(), bits, cells)
        })
        .collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    table(&["format", "bits per weight", "computed"], rows.into_iter().map(|row| row.2))
}

fn tool_calls() -> String {
    let row = |form: ToolForm| vec![form.models().to_owned(), format!("`{}`", form.example())];
    table(&["models", "a call"], ToolForm::ALL.map(row))
}

#[test]
fn only_what_stands_between_the_marks_is_replaced() {
    let page = "above\n<!-- generated: a -->\nold\n<!-- end -->\nbelow\n<!-- end -->\n";
    let filled = "above\n<!-- generated: a -->\n\nnew\n\n<!-- end -->\nbelow\n<!-- end -->\n";
    assert_eq!(fill(page, "a", "new\n"), filled);
    assert_eq!(fill(filled, "a", "new\n"), filled);
}
