//! The commands of our programs, as their command lines declare them with clap.
//!
//! The source is read, not the programs: xtask builds and runs when they do not. A struct that
//! derives `Parser` opens a command line, `#[command(subcommand)]` names an enum that derives
//! `Subcommand`, and what a variant holds may have commands of its own.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::tidy::tree::Tree;

/// How a program is called in a document, where its command line is declared, and the words that it
/// answers without declaring them.
const PROGRAMS: [(&str, &str, &[&str]); 2] = [
    ("nook", "crates/nook-cli/src/", &["help", "worker"]),
    ("cargo xtask", "packaging/xtask/src/", &["help"]),
];

/// The command lines of all programs.
#[derive(Debug)]
pub(super) struct Programs(Vec<CommandLine>);

impl Programs {
    pub(super) fn read(tree: &Tree) -> Self {
        let read = |&(program, folder, silent): &(&'static str, &str, &'static [&'static str])| {
            let mut line = CommandLine { program, silent, ..CommandLine::default() };
            let files = tree.files.iter().filter(|file| file.path.starts_with(folder));
            files.filter_map(|file| file.rust()).for_each(|file| line.visit_file(file));
            line
        };
        Self(PROGRAMS.iter().map(read).collect())
    }

    /// What is wrong with a piece of code in a document, when it is a call of one of the programs.
    pub(super) fn wrong(&self, code: &str) -> Option<String> {
        let code = code.trim_start_matches(['$', ' ']);
        let called = |line: &&CommandLine| {
            code.strip_prefix(line.program).is_some_and(|rest| rest.starts_with(' '))
        };
        // A tree without the program has nothing to compare.
        let line = self.0.iter().find(called).filter(|line| !line.root.is_empty())?;
        line.wrong(&code[line.program.len()..])
    }
}

/// One command line.
#[derive(Debug, Default)]
struct CommandLine {
    program: &'static str,
    silent: &'static [&'static str],
    /// The struct that clap reads first.
    root: String,
    /// For each struct with commands, the enum that holds them.
    choices: BTreeMap<String, String>,
    /// For each enum of commands, its words with the type that each holds.
    commands: BTreeMap<String, BTreeMap<String, String>>,
}

impl CommandLine {
    fn wrong(&self, words: &str) -> Option<String> {
        let mut at = &self.root;
        let mut said = self.program.to_owned();
        for word in words.split_whitespace() {
            // An enum of commands may stand where a struct that holds one may.
            let commands = self.commands.get(self.choices.get(at).unwrap_or(at))?;
            // `gguf|tokenize` means either; `PATH`, `…` and `--all` end what is known.
            let one_of = word.split('|').map(|word| word.trim_end_matches([',', '.', ';', '\\']));
            let one_of = one_of.filter(|word| is_command(word)).collect::<Vec<_>>();
            let is_silent = |word: &&str| at == &self.root && self.silent.contains(word);
            let unknown = |word: &&&str| !commands.contains_key(**word) && !is_silent(word);
            if let Some(unknown) = one_of.iter().find(unknown) {
                let known = commands.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                return Some(format!("`{said} {unknown}` is no command; there are: {known}"));
            }
            let [word] = one_of.as_slice() else {
                return None;
            };
            said = format!("{said} {word}");
            at = commands.get(*word)?;
        }
        None
    }
}

fn is_command(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

impl<'ast> Visit<'ast> for CommandLine {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let name = item.ident.to_string();
        if derives(&item.attrs, "Parser") {
            self.root.clone_from(&name);
        }
        let choice = item.fields.iter().find(|field| says(&field.attrs, "subcommand").is_some());
        self.choices.extend(choice.and_then(|field| Some((name, held(&field.ty)?))));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        if !derives(&item.attrs, "Subcommand") {
            return;
        }
        let words = item.variants.iter().flat_map(|variant| {
            let holds = match &variant.fields {
                syn::Fields::Unnamed(fields) => fields.unnamed.first().and_then(|it| held(&it.ty)),
                _ => None,
            };
            let aliases = ["alias", "visible_alias"].map(|key| says(&variant.attrs, key));
            let own = says(&variant.attrs, "name").unwrap_or_else(|| word_of(&variant.ident));
            let all = aliases.into_iter().flatten().chain([own]);
            all.map(move |word| (word, holds.clone().unwrap_or_default()))
        });
        self.commands.insert(item.ident.to_string(), words.collect());
    }
}

fn derives(attributes: &[syn::Attribute], name: &str) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|it| it.path().is_ident("derive")) {
        // What is no list of names does not compile either.
        let _ = attribute.parse_nested_meta(|derived| {
            found |= derived.path.segments.last().is_some_and(|last| last.ident == name);
            Ok(())
        });
    }
    found
}

/// The value of `key` in `#[command(…)]`; empty when it has none.
fn says(attributes: &[syn::Attribute], key: &str) -> Option<String> {
    let mut found = None;
    for attribute in attributes.iter().filter(|it| it.path().is_ident("command")) {
        let _ = attribute.parse_nested_meta(|said| {
            let value = match said.value() {
                Ok(value) => value.parse::<syn::Expr>()?,
                Err(_) => syn::parse_quote!(""),
            };
            if let (true, syn::Expr::Lit(value)) = (said.path.is_ident(key), value)
                && let syn::Lit::Str(text) = value.lit
            {
                found = Some(text.value());
            }
            Ok(())
        });
    }
    found
}

/// The name of a type, inside `Option<…>` and the like.
fn held(of: &syn::Type) -> Option<String> {
    let syn::Type::Path(path) = of else {
        return None;
    };
    let last = path.path.segments.last()?;
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inside) => match inside.args.first()? {
            syn::GenericArgument::Type(inside) => held(inside),
            _ => None,
        },
        _ => Some(last.ident.to_string()),
    }
}

/// `FreeMemory` is typed `free-memory`.
fn word_of(variant: &syn::Ident) -> String {
    let mut word = String::new();
    for letter in variant.to_string().chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('-');
        }
        word.extend(letter.to_lowercase());
    }
    word
}
